package dynalimittest

import (
	"context"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/observe"
)

// Exhaust takes all that is left of every limit of an entity on a resource, and of its
// parents. AssertTaken does not count it.
func (l *Limiter) Exhaust(entity, resource string) {
	l.t.Helper()
	lease, err := l.exhaust(l.t.Context(), entity, resource)
	l.check("exhaust "+entity+" on "+resource, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range lease.Statuses() {
		of := bucket{s.EntityID, s.Resource}
		if l.exhausted[of] == nil {
			l.exhausted[of] = dynalimit.Amounts{}
		}
		l.exhausted[of][s.Limit.Name] += s.Requested
	}
}

// DenyNext has the next Acquire, Do or Wait denied, whoever calls it for what: for its time
// the limits of the entity on the resource are exhausted. Afterwards they hold what they held.
// Called n times, it denies n calls.
func (l *Limiter) DenyNext() { l.denials.Add(1) }

// own marks the calls of this package, of which no observer hears.
type own struct{}

// exhaust takes what is left.
func (l *Limiter) exhaust(ctx context.Context, entity, resource string) (*dynalimit.Lease, error) {
	ctx = context.WithValue(context.WithoutCancel(ctx), own{}, true)
	report, err := l.Check(ctx, entity, resource, nil)
	if err != nil {
		return nil, err
	}
	left := report.Available()
	for name, n := range left {
		if n <= 0 { // nothing, or in debt
			delete(left, name)
		}
	}
	if len(left) == 0 {
		return &dynalimit.Lease{}, nil
	}
	return l.Acquire(ctx, entity, resource, left)
}

// isOwn reports whether it is a call of this package.
func isOwn(ctx context.Context) bool { return ctx.Value(own{}) != nil }

// denying is the observer of the service, with what DenyNext does, and without the calls of this
// package.
func (l *Limiter) denying(o observe.Observer) observe.Observer {
	service := o
	o.AcquireStart = func(ctx context.Context, e observe.AcquireStart) context.Context {
		if isOwn(ctx) {
			return ctx
		}
		if service.AcquireStart != nil {
			if given := service.AcquireStart(ctx, e); given != nil {
				ctx = given
			}
		}
		return l.beginDenial(ctx, e)
	}
	o.AcquireEnd = func(ctx context.Context, e observe.AcquireEnd) {
		if !isOwn(ctx) {
			l.endDenial(ctx, e)
		}
		forService(service.AcquireEnd)(ctx, e)
	}
	o.Denied, o.Corrected = forService(service.Denied), forService(service.Corrected)
	return o
}

// forService tells the service of calls that are not this package's.
func forService[E any](hear func(context.Context, E)) func(context.Context, E) {
	return func(ctx context.Context, e E) {
		if hear != nil && !isOwn(ctx) {
			hear(ctx, e)
		}
	}
}

// held is what a call that is to be denied finds exhausted, in its context.
type held struct{ lease *dynalimit.Lease }

// beginDenial exhausts the limits of a call that DenyNext denies.
func (l *Limiter) beginDenial(ctx context.Context, e observe.AcquireStart) context.Context {
	if l.denials.Add(-1) < 0 {
		l.denials.Add(1)
		return ctx
	}
	lease, err := l.exhaust(ctx, e.EntityID, e.Resource)
	if err != nil {
		l.t.Errorf("dynalimittest: deny %s on %s: %v", e.EntityID, e.Resource, err)
		return ctx
	}
	return context.WithValue(ctx, held{}, held{lease})
}

// endDenial gives back what beginDenial took.
func (l *Limiter) endDenial(ctx context.Context, e observe.AcquireEnd) {
	h, ok := ctx.Value(held{}).(held)
	if !ok {
		return
	}
	if e.Err == nil {
		l.t.Errorf("dynalimittest: %s on %s was admitted, though DenyNext was called: nothing limits what it asks for", e.EntityID, e.Resource)
	}
	if len(h.lease.Consumed()) > 0 {
		if err := h.lease.Rollback(context.WithValue(ctx, own{}, true)); err != nil {
			l.t.Errorf("dynalimittest: give back what DenyNext took: %v", err)
		}
	}
}
