package call

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Wait takes the amounts of a request as Take does, and waits until they fit. It fails for a denial that no
// wait helps, or whose wait exceeds ctx's deadline; err is a reason. memory reports whether the call was
// decided without a bucket.
func (d *Desk) Wait(ctx context.Context, r *Request) (c *Call, memory bool, err error) {
	w := waiting{desk: d, request: r, came: d.Clock()}
	return w.wait(ctx)
}

// waiting is one Wait. It acquires, stands in the line of the level that denies the longest, and
// acquires again when its turn has come. It belongs to its caller's goroutine.
type waiting struct {
	desk    *Desk
	request *Request
	at      Position
	// came is the time of its arrival.
	came time.Time
	// expected is the time at which its tokens are there, as last known.
	expected time.Time
	// looked is the time of its last look at the bucket, or that at which it began to wait for its turn.
	looked time.Time
}

// wait takes the amounts, and while they are denied stands in line and tries again. It fails for a denial that
// no wait helps, or whose wait exceeds ctx's deadline. It leaves the line at its end; the error is a reason.
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
		stands, isAside := findReason[*aside](err)
		switch {
		case isAside:
			w.joinLine(c, stands.level, namesOf(stands.level.asked))
		case denial == nil || !w.standInLine(c, denial):
			return nil, memory, err
		}
		if slept && w.desk.modeOf(w.request) == Transaction && c.levels.countAsked() > 1 {
			beside := lane.BesideOf(w.at.lane)
			beside.RecordLoss(w.at.waiter, w.desk.Clock()) // in a transaction: no lane carried the try
		}
		if slept, err = w.awaitTurn(ctx, denial); err != nil {
			return nil, memory, err
		}
	}
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
		return paused.spreadWait(), true
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
		w.at.waiter = w.desk.Lanes.NewWaiter(w.came, w.request.Batch)
	}
}

// waitOut waits for d and returns nil. It returns err at once if ctx's deadline is earlier than that, and the
// error of ctx or ErrClosed if the wait is cut short.
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
		if lv := &c.levels[i]; lv.lane == longest {
			w.joinLine(c, lv, scarce)
			return true
		}
	}
	return false
}

// joinLine puts the waiter into the line of a level of its call, and out of another line. It stores there the
// level's amounts, and the scarce limits that deny them.
func (w *waiting) joinLine(c *Call, lv *level, scarce []string) {
	w.ensureWaiter()
	at := &w.at
	at.of = lv.placeOf(&c.request)
	if remembered := w.desk.Lanes.Of(lv.lane.Entity, lv.lane.Resource); at.lane != remembered { // lv's may be forgotten
		at.quit()
		at.lane, at.line = remembered, lane.LineOf(remembered, w.request.Batch)
		at.line.Join(at.waiter)
	}
	at.line.RecordDenial(at.waiter, lv.asked, scarce, lv.cfg)
}

// aside is the reason of a waiter that stands in line before its first try, because the waiters of other processes
// compete for a level's bucket.
type aside struct{ level *level }

// Error says that others compete for the bucket. No user sees it.
func (*aside) Error() string { return "others compete for the bucket" }

// checkContest returns an *aside if waiters of other processes compete for the bucket of a level: Wait then joins
// the line before its first try. It returns nil if nobody competes, or if the caller stands in a line already.
func (t *taking) checkContest() error {
	if t.at.waiter != nil {
		return nil
	}
	now := t.desk.Clock()
	for i := range t.levels {
		lv := &t.levels[i]
		if !lv.isSkipped() && lv.lane.Memory.Contended(now, t.by.Batch) {
			return &aside{lv}
		}
	}
	return nil
}

// namesOf returns the names of the limits of amounts, in their order.
func namesOf(amounts []plan.Signed) (names []string) {
	for _, a := range amounts {
		names = append(names, a.Name)
	}
	return names
}

// awaitTurn returns when the waiter may try. A head tries at the exact time that the bucket's last image
// gives or, if the waiters of other processes compete, at that of the contest. Meanwhile it looks for their
// give-backs. A waiter behind it tries when it is called. It fails if the exact time is later than ctx's
// deadline. denial is nil for a waiter that has not tried. slept means that it returned because that time has
// come.
func (w *waiting) awaitTurn(ctx context.Context, denial *Denied) (slept bool, err error) {
	at, clock, configs := &w.at, w.desk.Clock, w.desk.Routes.configs
	w.expected, w.looked = clock(), clock()
	if denial != nil { // as it says itself
		w.expected = w.expected.Add(denial.nextTryIn())
	}
	beside := lane.BesideOf(at.lane)
	for unwoken := true; ; {
		changed := configs.NextEviction() // asked before the configuration is
		t := w.turnOf(ctx, unwoken)
		beside.LeaveNote(ctx, at.waiter)
		if late := t.known && exceedsDeadline(ctx, t.left); late && denial == nil {
			return false, nil // a try says so
		} else if late && !denial.isByEstimates() {
			lateDenial := *denial
			lateDenial.RetryAfter = (t.left + time.Millisecond - 1).Truncate(time.Millisecond)
			return false, &lateDenial
		}
		if t.mayTry() {
			return false, nil
		}
		ended, err := w.sleep(ctx, changed, at.lane.Contact.Back(), min(t.try, t.look, t.recheck))
		if err != nil {
			return false, err
		}
		if ended == byTime && t.try <= min(t.look, t.recheck) {
			return true, nil
		}
		if unwoken = ended != byWake; ended == byTime && t.look <= t.recheck {
			beside = lane.BesideOf(at.lane)
			_ = beside.ReadBucket(ctx) // others may have filled it, by hand or by give-backs
			w.looked = clock()
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
	// try is the time until its try and look that until it reads the bucket: never of a waiter behind the head.
	try, look time.Duration
	// recheck is the time until the waiter reads the configuration again.
	recheck time.Duration
}

// mayTry reports whether the waiter may try now. A head that does not know its time tries, too.
func (t turn) mayTry() bool { return t.called || t.head && (!t.known || t.try <= 0) }

// turnOf returns the waiter's turn, and resets its call to try. It gives the line a changed configuration, and
// draws the head's next try. unwoken means that nothing has woken the waiter since the last call.
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
	t := turn{head: head, left: left, known: known, try: never, look: never, recheck: recheck}
	if head {
		now, beside := clock(), lane.BesideOf(at.lane)
		try, look := beside.NextTry(at.waiter, now.Add(left), w.looked, w.desk.Routes.configs.TTL(), now)
		t.try, t.look = try.Sub(now), look.Sub(now)
	}
	return t
}

// exceedsDeadline reports whether a wait above 0 would end after ctx's deadline; false without one. It compares
// durations, because the deadline is by the local clock and the wait by the corrected one.
func exceedsDeadline(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && wait > 0 && wait > time.Until(deadline)
}

// waitLeft returns the waiter's remaining wait by the last image of its bucket; 0 if its amounts fit, or never
// can. known is false if the image is too old to say, or if the bucket does not answer.
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
