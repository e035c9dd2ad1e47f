package call

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
)

// Wait is Take that blocks until the amounts fit.
func (d *Desk) Wait(ctx context.Context, r *Request) (c *Call, memory bool, err error) {
	w := waiting{desk: d, request: r, patience: patienceOf(ctx)}
	return w.wait(ctx)
}

// waiting is one Wait. It acquires, stands in the line of the level that denies the longest, and
// acquires again when its turn has come. It belongs to its caller's goroutine.
type waiting struct {
	desk    *Desk
	request *Request
	at      Position
	// patience is the whole time that the caller waits; 0 means without end.
	patience time.Duration
	// expected is the time at which its tokens are there, as last known.
	expected time.Time
}

// wait acquires, and stands in line while it is denied.
func (w *waiting) wait(ctx context.Context) (*Call, bool, error) {
	defer w.at.quit()
	slept := false // the try came at the exact time
	for {
		c, memory, err := w.desk.Take(ctx, w.request, &w.at)
		if err == nil {
			return c, memory, nil
		}
		if d, outside := waitOutside(err); outside {
			if sitErr := w.waitOut(ctx, d, err); sitErr != nil {
				return nil, memory, sitErr
			}
			continue
		}
		denial := waitableDenial(err)
		if denial == nil || !w.standInLine(c, denial) {
			return nil, memory, err
		}
		if slept && w.desk.modeOf(w.request) == Transaction && c.levels.countAsked() > 1 {
			w.at.line.Lost(w.at.waiter) // in a transaction: no lane carried the try
		}
		if slept, err = w.awaitTurn(ctx, denial); err != nil {
			return nil, memory, err
		}
	}
}

// patienceOf returns the whole time that a caller waits; 0 means without end.
func patienceOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return time.Until(deadline)
}

// waitOutside returns the wait of a caller that need not stand in line: until the contending processes
// have spread out, or until a pause has ended. It is false for any other err, and if something may have
// been written.
func waitOutside(err error) (time.Duration, bool) {
	if isUnconfirmed(err) {
		return 0, false
	}
	if busy, ok := findReason[*Contended](err); ok {
		return busy.RetryAfter, true
	}
	if paused, ok := findReason[*Paused](err); ok {
		return paused.spread(), true
	}
	return 0, false
}

// waitableDenial returns the denial in err if waiting can help. It is nil if err is not a denial, or if
// something may have been written.
func waitableDenial(err error) *Denied {
	if denial, denied := findReason[*Denied](err); denied && denial.RetryAfter != Never && !isUnconfirmed(err) {
		return denial
	}
	return nil
}

// ensureWaiter makes the caller a waiter, unless it is one.
func (w *waiting) ensureWaiter() {
	if w.at.waiter == nil {
		w.at.waiter = w.desk.Lanes.NewWaiter()
		w.at.waiter.Patience = w.patience
	}
}

// waitOut waits for d. It returns err if ctx's deadline is earlier than that.
func (w *waiting) waitOut(ctx context.Context, d time.Duration, err error) error {
	if deadline, ok := ctx.Deadline(); ok && d > time.Until(deadline) {
		return err
	}
	w.ensureWaiter()
	for until := time.Now().Add(d); time.Until(until) > 0; {
		if _, err := w.sleep(ctx, nil, nil, time.Until(until)); err != nil {
			return err
		}
	}
	return nil
}

// standInLine puts the waiter into the line of the level that denies the longest. The waiter stays
// there while that level denies the longest, and keeps its rank when it changes lines. Otherwise two
// waiters that each hold the tokens of the other would change lines for ever. It returns false if the
// denial names no level of the charge.
func (w *waiting) standInLine(c *Call, denial *Denied) bool {
	at := &w.at
	most := denial.longest()
	if most == nil {
		return false
	}
	longest := most.Lane
	var scarce []string
	for i := range denial.Balances {
		if b := &denial.Balances[i]; b.Lane == longest && b.Exceeded {
			scarce = append(scarce, b.Limit)
		}
	}
	for i := range c.levels {
		lv := &c.levels[i]
		if lv.lane != longest {
			continue
		}
		w.ensureWaiter()
		at.of = lv.placeOf(&c.request)
		if remembered := w.desk.Lanes.Of(longest.Entity, longest.Resource); at.lane != remembered { // lv's may be forgotten
			at.quit()
			at.lane, at.line = remembered, lane.LineOf(remembered)
			at.line.Join(at.waiter)
		}
		at.line.Lacks(at.waiter, lv.asked, scarce, lv.cfg)
		return true
	}
	return false
}

// awaitTurn returns when the waiter may try. A head tries at the exact time that the bucket's last
// image gives, or somewhat later if the heads of other processes try too. A waiter behind it tries when
// it is called. It fails if the exact time is later than ctx's deadline. slept means that it returned
// because that time has come.
func (w *waiting) awaitTurn(ctx context.Context, denial *Denied) (slept bool, err error) {
	at, clock, configs := &w.at, w.desk.Clock, w.desk.Routes.configs
	w.expected = clock().Add(denial.RetryAfter) // as the denial itself says
	next, looked := try{behind: at.line.Behind()}, clock()
	for unwoken := true; ; {
		changed := configs.NextEviction() // asked before the configuration is
		t := w.turnOf(ctx, unwoken)
		if t.known && !denial.isByEstimates() && exceedsDeadline(ctx, t.left) {
			lateDenial := *denial
			lateDenial.RetryAfter = (t.left + time.Millisecond - 1).Truncate(time.Millisecond)
			return false, &lateDenial
		}
		left := next.left(t, clock())
		if t.mayTry(left) {
			return false, nil
		}
		ended, err := w.sleep(ctx, changed, at.lane.Contact.Back(), min(left, t.recheck))
		if err != nil {
			return false, err
		}
		if ended == byTime && left <= t.recheck {
			return true, nil
		}
		if unwoken = ended != byWake; t.head && clock().Sub(looked) >= configs.TTL() {
			beside := lane.BesideOf(at.lane)
			_ = beside.Look(ctx) // others may have filled it, by hand or by give-backs
			looked = clock()
		}
	}
}

// turn is a waiter's state in its line: whether and when it may try.
type turn struct {
	// head means that no waiter is before it. called means that it may try all the same, or that it is
	// the head and its limits were changed.
	head, called bool
	// left is the time until its tokens are there. known means that this is certain enough to give up
	// because of it.
	left  time.Duration
	known bool
	// recheck is the time until the waiter reads the configuration again.
	recheck time.Duration
}

// mayTry reports whether the waiter may try now. left is the time until its turn. A head that does not
// know its time tries, too.
func (t turn) mayTry(left time.Duration) bool {
	return t.called || t.head && (!t.known || left <= 0)
}

// try is the time of a head's try. It is so long after the exact time that the heads of different
// processes do not collide.
type try struct {
	exact  time.Time
	behind time.Duration
	head   bool
}

// left returns the time until the try, as of now. If the tokens turn out to be there earlier, because
// of a give-back in this process, the head tries at the exact time. A waiter that is not at the head
// never tries.
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

// turnOf computes the waiter's turn. unwoken means that nothing has woken it since the last call.
func (w *waiting) turnOf(ctx context.Context, unwoken bool) turn {
	at, clock := &w.at, w.desk.Clock
	head, called := at.line.MayTry(at.waiter)
	if called {
		return turn{called: true}
	}
	recheck, changed, outside := w.refreshConfig(ctx)
	if changed && head || outside {
		return turn{called: true} // the try finds the new limits
	}
	left, known := w.waitLeft()
	if known {
		w.expected = clock().Add(left)
	} else if left = w.expected.Sub(clock()); !unwoken {
		beside := lane.BesideOf(at.lane)
		known = beside.Disputed(at.waiter)
	} else {
		known = true
	}
	return turn{head: head, left: left, known: known, recheck: recheck}
}

// exceedsDeadline reports whether a wait would end after ctx's deadline. It compares
// durations, because the deadline is by the local clock and the wait by the corrected
// one.
func exceedsDeadline(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && wait > 0 && wait > time.Until(deadline)
}

// waitLeft returns the waiter's remaining wait by the last image of its bucket. known is false if the
// image is too old to say.
func (w *waiting) waitLeft() (left time.Duration, known bool) {
	at := &w.at
	if at.lane.Contact.Away() { // the process's share denied it, not the bucket
		return 0, false
	}
	now := w.desk.Clock()
	beside := lane.BesideOf(at.lane)
	wait, known := beside.Due(at.waiter, now.UnixMilli())
	if !known || wait == 0 {
		return 0, known // a try of an amount that never fits returns the error
	}
	return time.UnixMilli(now.UnixMilli()).Sub(now) + Duration(wait), true
}

// never is longer than any wait for a turn.
const never = 100 * 365 * 24 * time.Hour

// leastRecheck is the least time before a waiter reads the configuration again if its own is past its
// TTL, because another caller reads it or it could not be read.
const leastRecheck = time.Second

// refreshConfig gives the waiter the cached configuration of its level. The cache reads it once a TTL,
// however many callers wait.
//
// recheck is the time for which the configuration of all levels is good. changed reports whether the
// waiter's differs from its last one. outside reports whether the waiter must leave the line: a level
// is blocked, or the call no longer charges the bucket, because the resource left the group or the
// entity the parent.
func (w *waiting) refreshConfig(ctx context.Context) (recheck time.Duration, changed, outside bool) {
	routes, at := w.desk.Routes, &w.at
	ttl := routes.configs.TTL()
	recheck = min(ttl, leastRecheck)
	oldest, gone, block := routes.blockFor(ctx, w.request, at.of.Key)
	outside = gone || block != nil
	resolved, err := routes.configs.Get(ctx, at.of.GivenKey)
	if err != nil {
		return recheck, false, outside
	}
	age := time.Duration(routes.clock.NowMS()-min(oldest, resolved.ReadAt)) * time.Millisecond
	cfg, _ := routes.levelConfig(w.request, at.of, resolved.Resolved) // nil if it is bad: the waiter tries, and gets the error
	return max(recheck, min(ttl, ttl-age)), at.line.Reconfigure(at.waiter, cfg), outside
}

// ending is the cause of the end of a sleep: its time, a wake-up, or a change of configuration.
type ending uint8

const (
	byTime ending = iota
	byWake
	byChange
)

// sleep waits for d, for a wake-up of the waiter, or until changed or back is closed, and returns
// which of them ended it. back means that the bucket answers again, and counts as a wake-up. It returns
// ErrClosed if the limiter closes, or the error of ctx.
func (w *waiting) sleep(ctx context.Context, changed, back <-chan struct{}, d time.Duration) (ending, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return byTime, nil
	case <-w.at.waiter.Wake:
		return byWake, nil
	case <-back:
		return byWake, nil
	case <-changed:
		return byChange, nil
	case <-w.desk.Closing:
		return byTime, ErrClosed
	case <-ctx.Done():
		return byTime, ctx.Err()
	}
}
