package httplimit

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Options configure the callers, the amounts and the answers. The functions are called for each
// request and must be safe for concurrent use.
type Options struct {
	// Key returns the caller of a request: the id of an entity. APIKey and Address make such functions.
	// An invalid or empty id is a stranger. Defaults to nil: all callers are strangers.
	Key func(*http.Request) string
	// Identify returns the caller as Key does, and the parent and the plan of callers whose record
	// has none. Give Key or Identify, not both. Defaults to nil: Key is used.
	Identify func(*http.Request) Caller
	// Known reports whether a key has buckets of its own; the others are strangers. Each key that
	// it knows makes an item, so let it look keys up where only you add them. It is needed with
	// Key and Identify; defaults to nil without.
	Known func(key string) bool
	// Strangers is the entity that all strangers share. Defaults to "strangers".
	Strangers string
	// Resource returns the resource of a request; Route makes such a function. Each of its results makes an
	// item, so it must not return a client's inventions. Defaults to nil: "http", always.
	Resource func(*http.Request) string
	// Amounts returns the amounts of a request, in whole tokens of each limit. It must not change a
	// returned map later. Defaults to nil: 1 of "rpm".
	Amounts func(*http.Request) dynalimit.Amounts
	// Batch reports whether a request is a batch call, which leaves the reserve of each limit to interactive calls
	// (dynalimit.WithBatch). Defaults to nil: no request is.
	Batch func(*http.Request) bool
	// Acquire are options of each acquire, such as dynalimit.WithOnUnavailable. Defaults to none.
	Acquire []dynalimit.AcquireOption
	// Skip reports whether a request is not limited at all, such as one for health, or a browser's
	// preflight (CORS). Defaults to nil: none is skipped.
	Skip func(*http.Request) bool
	// Refund reports whether to give back a request by the status of its answer, before
	// the handler's answer ends. The status is the one that leaves the middleware, not that of an outer
	// handler such as http.TimeoutHandler. A hijacked connection and a panic
	// stay charged. If a handler answers a broken body with 500 and that status is refunded, clients can
	// call for free. Defaults to nil: nothing is given back.
	Refund func(status int) bool
	// Draft adds RateLimit and RateLimit-Policy, as in draft-ietf-httpapi-ratelimit-headers-11. Later
	// drafts may change their meaning. Defaults to false.
	Draft bool
	// OnDenied answers a request that is not served. Retry-After and the X-RateLimit fields are
	// set before, and may be changed. Defaults to (*Denial).Write.
	OnDenied func(http.ResponseWriter, *http.Request, *Denial)
	// Logger logs requests that could not be limited because of a mistake or a missing
	// permission, and leases that could not be ended. Defaults to nil: no log.
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
		return invalid("options.Key", "is nil although Known is not; give the function that finds the key of a request")
	}
	if reason := schema.EntityRule.Check(o.Strangers); o.Strangers != "" && reason != "" {
		return invalid("options.Strangers", "%s", reason)
	}
	return nil
}

// withDefaults returns a copy of the options with defaults for a missing Strangers, Resource, Amounts, OnDenied
// and Logger.
func (o Options) withDefaults() Options {
	if o.Strangers == "" {
		o.Strangers = "strangers"
	}
	if o.Resource == nil {
		o.Resource = func(*http.Request) string { return "http" }
	}
	if o.Amounts == nil {
		one := dynalimit.Amounts{"rpm": 1}
		o.Amounts = func(*http.Request) dynalimit.Amounts { return one }
	}
	if o.OnDenied == nil {
		o.OnDenied = func(w http.ResponseWriter, _ *http.Request, d *Denial) { d.Write(w) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// invalid returns the *ValidationError of a field, with a formatted reason.
func invalid(field, format string, args ...any) *dynalimit.ValidationError {
	return &dynalimit.ValidationError{Package: "httplimit", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}
