package llm

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/budget"
)

// Meter counts a streamed reply as it arrives, so that a stream that is cut is
// settled at what was seen. While tokens arrive it extends the call's
// reservation. It is safe for concurrent use.
type Meter struct {
	call *Call

	mu        sync.Mutex
	seen      budget.Tokens
	stopped   bool
	extending bool
	nextTry   time.Time
	extends   sync.WaitGroup
}

// Meter is the call's meter, always the same one.
func (c *Call) Meter() *Meter {
	if c == nil || c.guard == nil {
		return nil
	}
	c.meter.once.Do(func() { c.meter.Meter = &Meter{call: c} })
	return c.meter.Meter
}

// Add counts tokens that arrived. Without a context it extends nothing, and the meter
// of no call counts nothing; Close says so.
func (m *Meter) Add(ctx context.Context, t budget.Tokens) {
	m.update(ctx, func(seen *budget.Tokens) {
		seen.Input += t.Input
		seen.CacheRead += t.CacheRead
		seen.CacheWrite5m += t.CacheWrite5m
		seen.CacheWrite1h += t.CacheWrite1h
		seen.Output += t.Output
	})
}

// Set replaces the count by the provider's own, which is cumulative.
func (m *Meter) Set(ctx context.Context, t budget.Tokens) {
	m.update(ctx, func(seen *budget.Tokens) { *seen = t })
}

// Seen is the count so far.
func (m *Meter) Seen() budget.Tokens {
	if m == nil {
		return budget.Tokens{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// used is what is billed for what was seen: of a reply without its prompt, the
// prompt's estimate, too.
func (m *Meter) used() budget.Tokens {
	t := m.Seen()
	if t.Output > 0 && InputTokens(t) == 0 {
		t.Input = m.call.request.Estimate.InputTokens
	}
	return t
}

// Close settles the call at what was seen, or gives everything back when that
// is nothing. A reply whose prompt nobody reported has the estimate's, and so
// has a call that ctx ended before its first token: its prompt was on its way.
// Call Rollback before Close when it was not. Close goes on when ctx has ended;
// the record's status is then StatusCut. Errors as of Settle and Rollback.
func (m *Meter) Close(ctx context.Context) error {
	var c *Call
	if m != nil {
		c = m.call
	}
	if err := c.usable(ctx); err != nil {
		return err
	}
	return m.call.end(ctx, Usage{}, ctx.Err())
}

func (m *Meter) update(ctx context.Context, change func(*budget.Tokens)) {
	if m == nil || m.call == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.seen)
	now := m.call.guard.opts.Now()
	if ctx == nil || !m.due(now) {
		return
	}
	m.extending = true
	m.extends.Go(func() { m.extend(ctx) })
}

// due says that less than half of the reservation's time is left.
func (m *Meter) due(now time.Time) bool {
	hold := m.call.hold
	if hold == nil || m.stopped || m.extending || now.Before(m.nextTry) {
		return false
	}
	if m.nextTry.IsZero() {
		end := hold.ExpiresAt()
		if end.IsZero() { // nothing is held
			return false
		}
		m.nextTry = end.Add(-m.call.guard.opts.HoldFor / 2)
	}
	return !now.Before(m.nextTry)
}

// extend moves the end of the reservation. The stream does not wait for it, and
// does not fail with it: the call is counted all the same.
func (m *Meter) extend(ctx context.Context) {
	ctx, cancel := m.call.guard.lasting(ctx)
	defer cancel()
	err := m.call.Extend(ctx)
	holdFor := m.call.guard.opts.HoldFor
	pause := holdFor / 2
	switch {
	case errors.Is(err, budget.ErrNotFound):
		pause = maxHold // there is nothing left to extend
	case err != nil:
		pause = holdFor / 16
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extending, m.nextTry = false, m.call.guard.opts.Now().Add(pause)
}

// stop waits for what is under way; nothing is extended afterwards.
func (m *Meter) stop() {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	m.extends.Wait()
}
