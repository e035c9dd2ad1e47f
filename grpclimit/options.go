package grpclimit

import (
	"context"
	"fmt"
	"log/slog"

	"google.golang.org/grpc/codes"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Options configure the callers, the amounts and the answers. The functions are called for each
// call, with its context, and must be safe for concurrent use.
type Options struct {
	// Key returns the caller of a call: the id of an entity. APIKey and Address make such functions. An
	// invalid or empty id is a stranger. Defaults to nil: all callers are strangers.
	Key func(context.Context, *Call) string
	// Identify returns the caller as Key does, and the parent and the plan of callers whose record
	// has none. Give Key or Identify, not both. Defaults to nil: Key is used.
	Identify func(context.Context, *Call) Caller
	// Known reports whether a key has buckets of its own; the others are strangers. Each key that
	// it knows makes an item, so let it look keys up where only you add them. It is needed with
	// Key and Identify; defaults to nil without.
	Known func(key string) bool
	// Strangers is the entity that all strangers share; of a client without Key it is the client
	// itself. Defaults to "strangers".
	Strangers string
	// Resource returns the resource of a call; Method is such a function. Each of its results makes an item,
	// so it must not return a client's inventions. Defaults to nil: "grpc", always.
	Resource func(context.Context, *Call) string
	// Amounts returns the amounts of a call, in whole tokens of each limit. It must not change a
	// returned map later. Defaults to nil: 1 of "rpm".
	Amounts func(context.Context, *Call) dynalimit.Amounts
	// Batch reports whether a call is a batch call, which leaves the reserve of each limit to interactive calls
	// (dynalimit.WithBatch). Defaults to nil: no call is.
	Batch func(context.Context, *Call) bool
	// Acquire are options of each acquire, such as dynalimit.WithOnUnavailable. Defaults to none.
	Acquire []dynalimit.AcquireOption
	// Skip reports whether a call is not limited at all, such as one for health. Defaults to nil:
	// none is skipped.
	Skip func(context.Context, *Call) bool
	// Refund reports whether to give back a call that ended with a code, before its caller
	// gets the result. A panic stays charged. Defaults to nil: nothing is given back.
	Refund func(codes.Code) bool
	// OnDenied replaces the error of a call that is not made or served, for other codes and for
	// metrics; nil stands for the *Denial. The trailer is set before. Defaults to nil: the
	// *Denial.
	OnDenied func(context.Context, *Call, *Denial) error
	// Logger logs calls that could not be limited because of a mistake or a missing permission,
	// and leases that could not be ended. Defaults to nil: no log.
	Logger *slog.Logger
}

// validate returns a *ValidationError unless Known is given with exactly one of Key and Identify, or none of
// the three is. It also checks that Strangers, if given, is a valid entity id.
func (o *Options) validate() error {
	switch {
	case o.Key != nil && o.Identify != nil:
		return invalid("options.Identify", "is given together with Key; give one of them")
	case (o.Key != nil || o.Identify != nil) && o.Known == nil:
		return invalid("options.Known", "is nil; say which keys have buckets of their own: any client may make up the others")
	case o.Key == nil && o.Identify == nil && o.Known != nil:
		return invalid("options.Key", "is nil although Known is not; give the function that finds the key of a call")
	}
	if reason := schema.EntityRule.Check(o.Strangers); o.Strangers != "" && reason != "" {
		return invalid("options.Strangers", "%s", reason)
	}
	return nil
}

// withDefaults returns a copy of the options with defaults for a missing Strangers, Resource, Amounts and
// Logger.
func (o Options) withDefaults() Options {
	if o.Strangers == "" {
		o.Strangers = "strangers"
	}
	if o.Resource == nil {
		o.Resource = func(context.Context, *Call) string { return "grpc" }
	}
	if o.Amounts == nil {
		one := dynalimit.Amounts{"rpm": 1}
		o.Amounts = func(context.Context, *Call) dynalimit.Amounts { return one }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// invalid returns the *ValidationError of a field, with a formatted reason.
func invalid(field, format string, args ...any) *dynalimit.ValidationError {
	return &dynalimit.ValidationError{Package: "grpclimit", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}
