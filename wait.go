package dynalimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Wait is Acquire that blocks until the amounts fit. Callers of one bucket in
// this process are served first come first served; one of them asks the store,
// at the exact time its last answer gives, and neither a smaller request nor an
// Acquire takes what it waits for.
//
// It fails at once with a *LimitExceededError when an amount exceeds a burst, or
// when ctx's deadline is earlier than the computed wait; with ctx's error when
// ctx ends, keeping nothing; with ErrClosed when the limiter is closed; else as
// Acquire.
func (l *RateLimiter) Wait(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Lease, error) {
	return l.call(ctx, entity, resource, amounts, opts, l.wait)
}

// place is a waiter's place in the line of a bucket; the zero place is none.
type place struct {
	waiter *waiter
	lane   *lane
}

func (p *place) quit() {
	if p.lane != nil {
		p.lane.quit(p.waiter)
		p.lane = nil
	}
}

// wait acquires, and stands in line while it is denied.
func (l *RateLimiter) wait(ctx context.Context, r request) (*Lease, bool, error) {
	at := place{}
	defer at.quit()
	lost := 0 // tries that were denied although they came at the exact time
	for {
		lease, memory, err := l.acquireAt(ctx, r, at)
		var denial *LimitExceededError
		if !errors.As(err, &denial) || denial.RetryAfter == Never || errors.Is(err, ErrUnconfirmed) {
			return lease, memory, err
		}
		cfg := l.standInLine(&at, lease, denial)
		slept, err := l.pause(ctx, at, cfg, denial, lost)
		if err != nil {
			return nil, memory, err
		}
		if slept {
			lost++
		}
	}
}

// standInLine puts the waiter in the line of the level that denies the longest,
// and returns that level's configuration. It keeps its place while that is so.
func (l *RateLimiter) standInLine(at *place, lease *Lease, denial *LimitExceededError) *bucketConfig {
	longest := denial.Primary().EntityID
	var scarce []string
	for _, s := range denial.Statuses {
		if s.EntityID == longest && s.Exceeded {
			scarce = append(scarce, s.Limit.Name)
		}
	}
	for i := range lease.levels {
		lv := &lease.levels[i]
		if lv.lane.entity != longest {
			continue
		}
		if at.lane != lv.lane {
			at.quit()
			at.waiter, at.lane = newWaiter(), lv.lane
			lv.lane.join(at.waiter, lv.asked, scarce)
		} else {
			lv.lane.lacks(at.waiter, scarce)
		}
		return lv.cfg
	}
	return nil // a denial names a level of its lease
}

// pause returns when the waiter may try: at the head of the line, at the exact
// time the bucket's last image gives; behind it, when called. It fails when that
// is later than ctx's deadline. slept says that it returns at that exact time.
func (l *RateLimiter) pause(ctx context.Context, at place, cfg *bucketConfig, denial *LimitExceededError, lost int) (slept bool, err error) {
	answered := l.clock().Add(denial.RetryAfter) // what the denial itself says
	for first := true; ; first = false {
		head, called := at.lane.mayTry(at.waiter)
		if called {
			return false, nil
		}
		due, recent := l.due(at, cfg)
		if !recent && first {
			due, recent = answered, true
		}
		now := l.clock()
		if deadline, ok := ctx.Deadline(); ok && recent && due.After(deadline) {
			late := *denial
			late.RetryAfter = due.Sub(now)
			return false, &late
		}
		left := due.Sub(now)
		if head && (!recent || left <= 0) {
			return false, nil
		}
		if !head {
			left = never
		}
		woken, err := l.slumber(ctx, at.waiter, left+herdJitter(left, lost))
		if !woken || err != nil {
			return err == nil, err
		}
	}
}

// never is longer than any wait for a turn.
const never = 100 * 365 * 24 * time.Hour

// slumber waits; woken says that something changed before the time was over.
func (l *RateLimiter) slumber(ctx context.Context, w *waiter, d time.Duration) (woken bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-w.wake:
		return true, nil
	case <-l.closing:
		return false, ErrClosed
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// due is when the waiter's amounts fit once those before it have theirs, and
// whether the image that says so is recent.
func (l *RateLimiter) due(at place, cfg *bucketConfig) (time.Time, bool) {
	last, recent := at.lane.outlook(cfg)
	if !recent {
		return time.Time{}, false
	}
	ahead := at.lane.ahead(at.waiter)
	longest := int64(0)
	for _, a := range at.waiter.amounts {
		state, _ := last.state(a.name)
		before, _ := amountOf(ahead, a.name)
		state.Tokens -= before
		longest = max(longest, state.Wait(last.now, a.amount))
	}
	return time.UnixMilli(last.now).Add(duration(longest)), true
}

// herdJitter spreads the heads of different processes once they have met: the
// first try is exact.
func herdJitter(wait time.Duration, lost int) time.Duration {
	if lost == 0 || wait <= 0 || wait == never {
		return 0
	}
	return time.Duration(rand.Int64N(int64(min(wait/10, 100*time.Millisecond)) + 1))
}
