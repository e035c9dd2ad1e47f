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

// denying is the observer of the service, with what DenyNext does.
type denying struct {
	observe.Observer
	limiter *Limiter
}

func observerOr(o observe.Observer) observe.Observer {
	if o == nil {
		return observe.Nop{}
	}
	return o
}

// held is what a call that is to be denied finds exhausted, in its context.
type held struct{ lease *dynalimit.Lease }

func (d denying) AcquireStart(ctx context.Context, e observe.AcquireStart) context.Context {
	if ctx.Value(own{}) != nil {
		return ctx
	}
	if given := d.Observer.AcquireStart(ctx, e); given != nil {
		ctx = given
	}
	if d.limiter.denials.Add(-1) < 0 {
		d.limiter.denials.Add(1)
		return ctx
	}
	lease, err := d.limiter.exhaust(ctx, e.EntityID, e.Resource)
	if err != nil {
		d.limiter.t.Errorf("dynalimittest: deny %s on %s: %v", e.EntityID, e.Resource, err)
		return ctx
	}
	return context.WithValue(ctx, held{}, held{lease})
}

func (d denying) AcquireEnd(ctx context.Context, e observe.AcquireEnd) {
	if ctx.Value(own{}) != nil {
		return
	}
	if h, ok := ctx.Value(held{}).(held); ok {
		if e.Err == nil {
			d.limiter.t.Errorf("dynalimittest: %s on %s was admitted, though DenyNext was called: nothing limits what it asks for", e.EntityID, e.Resource)
		}
		if len(h.lease.Consumed()) > 0 {
			if err := h.lease.Rollback(ctx); err != nil {
				d.limiter.t.Errorf("dynalimittest: give back what DenyNext took: %v", err)
			}
		}
	}
	d.Observer.AcquireEnd(ctx, e)
}
