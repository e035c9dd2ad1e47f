package dynalimit

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
)

// Wait is Acquire that blocks until the amounts fit. Callers of one bucket in
// this process are served first come first served; one of them asks the store,
// at the exact time its last answer gives, and neither a smaller request nor an
// Acquire takes what it waits for. A changed limit is noticed within the
// configuration's TTL. Among processes it is chance who is served, and a wait may end
// some time behind the exact one, the more of them wait for the same bucket.
//
// It fails at once with a *LimitExceededError when an amount exceeds a burst, or
// when ctx's deadline is earlier than the computed wait; with ctx's error when
// ctx ends, keeping nothing; with ErrClosed when the limiter is closed; else as
// Acquire.
func (l *RateLimiter) Wait(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Lease, error) {
	return l.call(ctx, entity, resource, amounts, opts, l.wait)
}

// position is a waiter's place in the line of a bucket; the zero position is none.
type position struct {
	// waits says that the caller stands in line once it is denied.
	waits  bool
	waiter *lane.Waiter
	lane   *lane.Lane
	// patience is how long the caller waits altogether, 0 without end.
	patience time.Duration
}

// rank is the caller's seniority, at every level of its cascade.
func (p *position) rank() uint64 {
	if p.waiter == nil {
		return lane.LastRank
	}
	return p.waiter.Rank
}

// callFitting lets those behind the caller in the line of a level, who fit beside
// it, ride in its write.
func (p *position) callFitting(lv *level) {
	if p.lane == lv.lane {
		lv.lane.CallAlong(p.waiter, lv.cfg)
	}
}

func (p *position) quit() {
	if p.lane != nil {
		p.lane.Quit(p.waiter)
		p.lane = nil
	}
}

// wait acquires, and stands in line while it is denied.
func (l *RateLimiter) wait(ctx context.Context, r request) (*Lease, bool, error) {
	at := position{waits: true, patience: patienceOf(ctx)}
	defer at.quit()
	slept := false // the try came at the exact time
	for {
		lease, memory, err := l.acquireAt(ctx, r, at)
		if err == nil {
			return lease, memory, nil
		}
		if busy := contentionOf(err); busy != nil {
			if sitErr := l.waitOutContention(ctx, &at, busy, err); sitErr != nil {
				return nil, memory, sitErr
			}
			continue
		}
		denial := waitableDenial(err)
		if denial == nil || !l.standInLine(&at, lease, denial) {
			return nil, memory, err
		}
		if slept {
			l.noteLost(&r, lease, at)
		}
		if slept, err = l.awaitTurn(ctx, r, at, denial); err != nil {
			return nil, memory, err
		}
	}
}

// patienceOf is how long a caller waits altogether, 0 without end.
func patienceOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return time.Until(deadline)
}

// noteLost notes that a try at the exact time was denied, where no lane has carried it:
// in a transaction.
func (l *RateLimiter) noteLost(r *request, lease *Lease, at position) {
	if l.mode(r) == CascadeTransaction && lease.spread() > 1 {
		at.lane.Lost(at.waiter)
	}
}

// contentionOf is the ContentionError that err tells of; nil if it tells of none, or of
// something that may have been written.
func contentionOf(err error) *ContentionError {
	var busy *ContentionError
	if errors.As(err, &busy) && !errors.Is(err, ErrUnconfirmed) {
		return busy
	}
	return nil
}

// waitableDenial is the denial that err is, if a wait can outlast it; nil if it is
// none, or tells of something that may have been written.
func waitableDenial(err error) *LimitExceededError {
	var denial *LimitExceededError
	if errors.As(err, &denial) && denial.RetryAfter != Never && !errors.Is(err, ErrUnconfirmed) {
		return denial
	}
	return nil
}

// ensureWaiter makes the caller a waiter, if it is none yet.
func (l *RateLimiter) ensureWaiter(at *position) {
	if at.waiter == nil {
		at.waiter = l.lanes.NewWaiter()
		at.waiter.Patience = at.patience
	}
}

// waitOutContention waits until those who contend for a bucket have dispersed. It fails with
// the contention when ctx's deadline is earlier.
func (l *RateLimiter) waitOutContention(ctx context.Context, at *position, contention *ContentionError, err error) error {
	if deadline, ok := ctx.Deadline(); ok && contention.RetryAfter > time.Until(deadline) {
		return err
	}
	l.ensureWaiter(at)
	for until := time.Now().Add(contention.RetryAfter); time.Until(until) > 0; {
		if _, err := l.sleep(ctx, at.waiter, time.Until(until)); err != nil {
			return err
		}
	}
	return nil
}

// standInLine puts the waiter in the line of the level that denies the longest.
// It keeps its place while that is so, and its seniority when it changes lines:
// two waiters who each hold what the other lacks would change for ever. It is
// false when the denial names no level of the lease.
func (l *RateLimiter) standInLine(at *position, lease *Lease, denial *LimitExceededError) bool {
	longest := denial.Primary().EntityID
	var scarce []string
	for _, s := range denial.Statuses {
		if s.EntityID == longest && s.Exceeded {
			scarce = append(scarce, s.Limit.Name)
		}
	}
	for i := range lease.levels {
		lv := &lease.levels[i]
		if lv.lane.Entity != longest {
			continue
		}
		l.ensureWaiter(at)
		if at.lane != lv.lane {
			at.quit()
			at.lane = lv.lane
			lv.lane.Join(at.waiter)
		}
		lv.lane.Lacks(at.waiter, lv.asked, scarce, lv.cfg)
		return true
	}
	return false
}

// awaitTurn returns when the waiter may try: at the head of the line, at the exact
// time the bucket's last image gives; behind it, when called. It fails when that
// is later than ctx's deadline. slept says that it returns at that exact time.
func (l *RateLimiter) awaitTurn(ctx context.Context, r request, at position, denial *LimitExceededError) (slept bool, err error) {
	expected := l.clock().Add(denial.RetryAfter) // as the denial itself says
	next := try{behind: at.lane.Behind()}
	for unwoken := true; ; {
		t := l.turnOf(ctx, r, at, &expected, unwoken)
		if t.known && exceedsDeadline(ctx, t.left) {
			lateDenial := *denial
			lateDenial.RetryAfter = (t.left + time.Millisecond - 1).Truncate(time.Millisecond)
			return false, &lateDenial
		}
		left := next.left(t, l.clock())
		if t.mayTry(left) {
			return false, nil
		}
		woken, err := l.sleep(ctx, at.waiter, min(left, t.recheck))
		if err != nil {
			return false, err
		}
		if !woken && left <= t.recheck {
			return true, nil
		}
		unwoken = !woken
	}
}

// turn is what a waiter knows of when it may try.
type turn struct {
	// head says that nobody is before it, called that it may try all the same, or
	// that its limits were changed while it is the head.
	head, called bool
	// left is until its tokens are there; known says that this is sure enough to
	// give up for.
	left  time.Duration
	known bool
	// recheck is until it looks at the configuration again.
	recheck time.Duration
}

// mayTry reports whether the waiter may try now, when so much is left until its turn. The
// head does so too when it does not know its time.
func (t turn) mayTry(left time.Duration) bool {
	return t.called || t.head && (!t.known || left <= 0)
}

// try is when a head tries: so far behind the exact time that the heads of different
// processes do not meet.
type try struct {
	exact  time.Time
	behind time.Duration
	head   bool
}

// left is how long it is until the try, by what the waiter knows at now. Where the
// tokens turn out to be there earlier, for something was given back in this process,
// there is no herd to keep away from. Who is not at the head never tries.
func (next *try) left(t turn, now time.Time) time.Duration {
	exact := now.Add(t.left)
	switch {
	case next.exact.IsZero() || t.left > 0 && exact.After(next.exact):
		next.exact = exact
	case exact.Before(next.exact.Add(-time.Millisecond)):
		next.exact = exact
		if next.head {
			next.behind = 0
		}
	}
	if next.head = t.head; !t.head {
		return never
	}
	return next.exact.Add(next.behind).Sub(now)
}

// turnOf looks when the waiter may try. expected is when it last knew to be the
// time; same says that nothing has called it since.
func (l *RateLimiter) turnOf(ctx context.Context, r request, at position, expected *time.Time, unwoken bool) turn {
	head, called := at.lane.MayTry(at.waiter)
	if called {
		return turn{called: true}
	}
	recheck, changed := l.refreshWaiter(ctx, r, at)
	if changed && head {
		return turn{called: true}
	}
	left, known := l.waitLeft(at)
	if known {
		*expected = l.clock().Add(left)
	} else if left = expected.Sub(l.clock()); unwoken || at.lane.Disputed(at.waiter) {
		known = true
	}
	return turn{head: head, left: left, known: known, recheck: recheck}
}

// exceedsDeadline reports whether a wait that is not over would end after ctx's deadline.
// Durations are compared: the deadline is of the local clock, the wait of the
// corrected one.
func exceedsDeadline(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && wait > 0 && wait > time.Until(deadline)
}

// waitLeft is how long a waiter has to wait by the last image of its bucket; known is
// false when that is too old to say.
func (l *RateLimiter) waitLeft(at position) (left time.Duration, known bool) {
	now := l.clock()
	wait, known := at.lane.Due(at.waiter, now.UnixMilli())
	if !known || wait == 0 {
		return 0, known // what never fits is tried, which says so
	}
	return time.UnixMilli(now.UnixMilli()).Sub(now) + duration(wait), true
}

// never is longer than any wait for a turn.
const never = 100 * 365 * 24 * time.Hour

// leastRecheck bounds how often a waiter looks at the configuration when the
// one it has is past its TTL, for another reads it or it could not be read.
const leastRecheck = time.Second

// refreshWaiter gives the waiter the configuration that its level has in the
// cache, where it is read once a TTL however many wait. It returns for how long
// that is good, and whether it is another than before.
func (l *RateLimiter) refreshWaiter(ctx context.Context, r request, at position) (recheck time.Duration, changed bool) {
	ttl := l.repo.configs.ttl()
	recheck = min(ttl, leastRecheck)
	resolved, _, _, err := l.store.config(ctx, at.lane.Entity, r.resource, time.Time{})
	if err != nil {
		return recheck, false
	}
	age := time.Duration(l.repo.clock.NowMS()-resolved.readAt) * time.Millisecond
	cfg, _ := l.levelConfig(&r, at.lane.Entity, resolved) // none of a bad one: the waiter tries, and hears what is wrong
	return max(recheck, min(ttl, ttl-age)), at.lane.Reconfigure(at.waiter, cfg)
}

// sleep waits; woken says that something changed before the time was over.
func (l *RateLimiter) sleep(ctx context.Context, w *lane.Waiter, d time.Duration) (woken bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-w.Wake:
		return true, nil
	case <-l.closing:
		return false, ErrClosed
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
