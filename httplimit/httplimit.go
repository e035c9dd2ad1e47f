// Package httplimit limits the requests of an HTTP server: a middleware of net/http that takes
// a lease for each request, and answers denied requests.
//
//	limit, err := httplimit.New(limiter, &httplimit.Options{
//		Key:   httplimit.APIKey("Authorization"), // hashed: the entity is not a secret
//		Known: customers.Has,
//	})
//	…
//	http.ListenAndServe(addr, limit(mux))
//
// A denied request is answered with 429 and Retry-After, and a blocked one with 403. A request of a caller
// without a record is answered with 401 if dynalimit.Options.Unrecorded is RefuseUnrecorded. If the limits
// cannot be asked, the answer is 503. Each is problem+json (RFC 9457) and reveals nothing about other
// callers. An admitted request stays charged in every case, unless Options.Refund or the handler, by its
// [Lease], corrects it.
//
// Only keys known to Options.Known have buckets of their own. All others share one, so that
// invented keys create no items.
package httplimit

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/httpcopy"
	"github.com/dynalimit/dynalimit/internal/refusal"
)

// New returns a middleware: a function that wraps a handler in one that limits its requests, unless
// Options.Skip accepts them. Wrapped handlers share the limits. It fails with a *ValidationError for a nil
// limiter or bad options; the caller must close the limiter.
func New(limiter *dynalimit.RateLimiter, opts *Options) (func(http.Handler) http.Handler, error) {
	if limiter == nil {
		return nil, invalid("limiter", "is nil; make one with dynalimit.New(repo, nil)")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	m := &middleware{limiter: limiter, Options: o.withDefaults()}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m.Skip != nil && m.Skip(r) {
				next.ServeHTTP(w, r)
				return
			}
			m.limitRequest(w, r, next)
		})
	}, nil
}

// Lease returns the lease of a request from its context, for the handler to correct after the usage is known:
// Settle charges the usage, Rollback nothing. It is nil for a request without a limit. A lease without Settle
// or Rollback stays charged as it is. Of several middlewares it is the innermost one's.
func Lease(ctx context.Context) *dynalimit.Lease {
	lease, _ := ctx.Value(leaseKey{}).(*dynalimit.Lease)
	return lease
}

type leaseKey struct{}

// middleware is the shared state of one New.
type middleware struct {
	limiter *dynalimit.RateLimiter
	Options
}

// limitRequest acquires a request's amounts, sets the limit's headers, and runs the handler with the lease in
// its context; or it answers with the denial. Then it gives the lease back if Options.Refund accepts the
// answer's status, and settles it at its charge otherwise. After a panic or a hijack the request stays charged.
func (m *middleware) limitRequest(w http.ResponseWriter, r *http.Request, next http.Handler) {
	by := m.identifyCaller(r)
	c := fields{refusal.Caller{Entity: by.Key, Resource: m.Resource(r)}}
	lease, err := m.limiter.Acquire(r.Context(), c.Entity, c.Resource, m.Amounts(r), refusal.CallerOptions(m.Acquire, by.Parent, by.Plan, m.Batch != nil && m.Batch(r))...)
	if err != nil {
		m.answerDenial(w, r, c, err)
		return
	}
	c.setFields(w.Header(), lease.Statuses(), dynalimit.Never, m.Draft)
	ctx := context.WithValue(r.Context(), leaseKey{}, lease)
	var seen *watched
	if m.Refund != nil {
		seen = &watched{ResponseWriter: w}
		w = seen
	}
	returned := false
	defer func() {
		m.endLease(ctx, lease, returned && seen != nil && !seen.hijacked && m.Refund(seen.finalStatus()))
	}()
	inner := r.WithContext(ctx)
	defer httpcopy.RestoreFields(r, inner)
	next.ServeHTTP(w, inner)
	returned = true
}

// endLease rolls the lease back if refund is true, and settles it at its charge otherwise. It logs a failure
// instead of returning it.
func (m *middleware) endLease(ctx context.Context, lease *dynalimit.Lease, refund bool) {
	var err error
	if refund {
		err = lease.Rollback(ctx)
	} else {
		err = lease.Settle(ctx, nil)
	}
	if err != nil {
		m.Logger.LogAttrs(ctx, slog.LevelError, "httplimit: the lease of a request could not be ended", slog.Any("error", err))
	}
}

// answerDenial sets the headers of a denial, with the limit's fields if a limit denied, and calls OnDenied to
// answer. It logs errors with status 500.
func (m *middleware) answerDenial(w http.ResponseWriter, r *http.Request, c fields, err error) {
	d := newDenial(c.Caller, err)
	if d.Status == http.StatusInternalServerError {
		m.Logger.LogAttrs(r.Context(), slog.LevelError, "httplimit: a request could not be limited", slog.Any("error", err))
	}
	d.setHeaders(w.Header())
	if exceeded := findExceeded(err); exceeded != nil {
		c.setFields(w.Header(), exceeded.Statuses, exceeded.RetryAfter, m.Draft)
	}
	m.OnDenied(w, r, d)
}
