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

// Options says who is limited, by what, and how it is told. Its functions are called for each
// call, with its context, by many goroutines at once.
type Options struct {
	// Key says who makes a call: the id of an entity. APIKey and Address make such functions. What
	// is no id of an entity, "" for one, is a stranger. Defaults to nil: everybody is one.
	Key func(context.Context, *Call) string
	// Identify says who makes a call as Key does, and the parent and the plan of callers whose record
	// does not say them. Give Key or Identify, not both. Defaults to nil: Key says it.
	Identify func(context.Context, *Call) Caller
	// Known reports whether a key has buckets of its own; the others are strangers. Each key that
	// it knows makes an item, so let it look keys up where only you add them. It is needed with
	// Key and Identify; defaults to nil without.
	Known func(key string) bool
	// Strangers is the entity that all strangers share; of a client without Key it is the client
	// itself. Defaults to "strangers".
	Strangers string
	// Resource says what is asked for; Method is such a function. Each of its answers makes an item,
	// so it must not give back what a client made up. Defaults to nil: "grpc", always.
	Resource func(context.Context, *Call) string
	// Amounts says what a call takes, in whole tokens of each limit. It may not change what it
	// returned later. Defaults to nil: 1 of "rpm".
	Amounts func(context.Context, *Call) dynalimit.Amounts
	// Acquire are options of each acquire, such as dynalimit.WithOnUnavailable. Defaults to none.
	Acquire []dynalimit.AcquireOption
	// Skip reports whether a call is not limited at all, such as one for health. Defaults to nil:
	// none is skipped.
	Skip func(context.Context, *Call) bool
	// Refund reports whether a call that ended with a code is given back whole, before its caller
	// hears of the end. A panic stays charged. Defaults to nil: nothing is given back.
	Refund func(codes.Code) bool
	// OnDenied returns the error of a call that is not made or served, for other codes and for
	// metrics; instead of nil it is the *Denial. The trailer is set before. Defaults to nil: the
	// *Denial.
	OnDenied func(context.Context, *Call, *Denial) error
	// Logger hears of calls that could not be limited because of a mistake or a missing permission,
	// and of leases that could not be ended. Defaults to nobody.
	Logger *slog.Logger
}

func (o *Options) validate() error {
	switch {
	case o.Key != nil && o.Identify != nil:
		return invalid("options.Identify", "is given beside Key; give one of them")
	case (o.Key != nil || o.Identify != nil) && o.Known == nil:
		return invalid("options.Known", "is nil; say which keys have buckets of their own: any client may make up the others")
	case o.Key == nil && o.Identify == nil && o.Known != nil:
		return invalid("options.Key", "is nil although Known is not; give the function that finds the key of a call")
	}
	if reason := schema.CheckEntity(o.Strangers); o.Strangers != "" && reason != "" {
		return invalid("options.Strangers", "%s", reason)
	}
	return nil
}

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

func invalid(field, format string, args ...any) *dynalimit.ValidationError {
	return &dynalimit.ValidationError{Package: "grpclimit", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}
