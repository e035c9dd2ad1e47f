package dynalimittest

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/observe"
)

// Exhaust takes all remaining tokens of every limit of an entity on a resource, and of its parents. AssertTaken
// and Taken do not count them. It fails the test at once if it cannot.
func (l *Limiter) Exhaust(entity, resource string) {
	l.t.Helper()
	lease, err := l.takeAllTokens(l.endlessContext(), entity, resource)
	l.requireNoError("exhaust "+entity+" on "+resource, err)
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

// DenyNext makes the next Acquire, Do or Wait fail with a *dynalimit.LimitExceededError, for any entity and
// resource. For the time of that call their limits are exhausted; afterwards they are as before.
// Called n times, it denies n calls, also among concurrent ones: calls that begin during a
// denial wait for its end.
func (l *Limiter) DenyNext() { l.denials.Add(1) }

// own marks the calls of this package, which no observer receives.
type own struct{}

// takeAllTokens takes all remaining tokens in a lease, hidden from observers and also after ctx has ended. If
// other calls take tokens meanwhile, it tries again, and after 100 tries it returns the denial. The lease is
// empty if nothing is left.
func (l *Limiter) takeAllTokens(ctx context.Context, entity, resource string) (lease *dynalimit.Lease, err error) {
	ctx = context.WithValue(context.WithoutCancel(ctx), own{}, true)
	for range mostTries {
		if lease, err = l.tryTakeAll(ctx, entity, resource); !errors.Is(err, dynalimit.ErrLimitExceeded) {
			break
		}
	}
	return lease, err
}

const mostTries = 100

// tryTakeAll acquires all available tokens of every limit once. It returns an empty lease if nothing is left.
// It fails with a denial if another call took some meanwhile.
func (l *Limiter) tryTakeAll(ctx context.Context, entity, resource string) (*dynalimit.Lease, error) {
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

// isOwn reports whether ctx belongs to a call of this package.
func isOwn(ctx context.Context) bool { return ctx.Value(own{}) != nil }

// withDenials returns the service's observer o, extended: it denies calls as DenyNext demands, and does not
// pass this package's own calls to o. It fails the test if a call is made inside a bubble and the limiter was
// made outside, or the reverse.
func (l *Limiter) withDenials(o observe.Observer) observe.Observer {
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
		if inBubble() != l.clock.bubble {
			l.t.Errorf("dynalimittest: %s on %s is called inside of a bubble of testing/synctest, or outside, and the limiter was not made there: make it where it is used", e.EntityID, e.Resource)
			ctx, cancel := context.WithCancel(ctx) // a Wait would never end
			cancel()
			return ctx
		}
		return l.enterCall(ctx, e)
	}
	o.AcquireEnd = func(ctx context.Context, e observe.AcquireEnd) {
		if c, begun := ctx.Value(callKey{}).(call); begun && !isOwn(ctx) {
			l.leaveCall(ctx, c, e)
		}
		forService(service.AcquireEnd)(ctx, e)
	}
	o.Denied, o.Corrected = forService(service.Denied), forService(service.Corrected)
	return o
}

// forService returns an observer's function that passes events to hear, except those of this package's own
// calls. hear may be nil.
func forService[E any](hear func(context.Context, E)) func(context.Context, E) {
	return func(ctx context.Context, e E) {
		if hear != nil && !isOwn(ctx) {
			hear(ctx, e)
		}
	}
}

// call is a call of the service, in its context. leave ends it at the gate, and lease holds the tokens
// taken to deny it, nil for another call.
type call struct {
	leave func()
	lease *dynalimit.Lease
}

type callKey struct{}

// enterCall begins a call, and waits while another call runs alone. If a denial of DenyNext is left, it uses
// that up: it waits until the call is alone, and takes all tokens of its buckets. The returned context holds
// the call with these tokens, for leaveCall; a failure is an error of the test.
func (l *Limiter) enterCall(ctx context.Context, e observe.AcquireStart) context.Context {
	denies := l.denials.Add(-1) >= 0
	if !denies {
		l.denials.Add(1)
	}
	c := call{leave: l.gate.enter(ctx, denies, l.clock.settleTime())}
	if denies {
		lease, err := l.takeAllTokens(ctx, e.EntityID, e.Resource)
		if err != nil {
			l.t.Errorf("dynalimittest: deny %s on %s: %v", e.EntityID, e.Resource, err)
		} else {
			c.lease = lease
		}
	}
	return context.WithValue(ctx, callKey{}, c)
}

// leaveCall ends a call: it gives back the tokens that enterCall took, and lets other calls begin. It fails the
// test if a call that DenyNext should deny was admitted.
func (l *Limiter) leaveCall(ctx context.Context, c call, e observe.AcquireEnd) {
	defer c.leave()
	if c.lease == nil {
		return
	}
	if e.Err == nil {
		l.t.Errorf("dynalimittest: %s on %s was admitted, though DenyNext was called: nothing limits what it asks for", e.EntityID, e.Resource)
	}
	if len(c.lease.Used()) > 0 {
		if err := c.lease.Rollback(context.WithValue(context.WithoutCancel(ctx), own{}, true)); err != nil {
			l.t.Errorf("dynalimittest: give back what DenyNext took: %v", err)
		}
	}
}
