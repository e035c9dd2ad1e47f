package dynalimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// The buckets of an entity and its parents, asked side by side: CascadeParallel.
// A call whose entity has no parents goes the same way, with one level.

// takeAtOnce asks the lanes of all levels at the same time. If one denies or fails, the
// grants of the others are given back.
func (l *RateLimiter) takeAtOnce(ctx context.Context, lease *Lease, policy UnavailablePolicy, at position, p patience) error {
	ops := make([]*lane.Op, len(lease.levels))
	for i := range lease.levels {
		lv := &lease.levels[i]
		ops[i] = lane.NewTake(ctx, lv.asked, lv.cfg)
		if ops[i].Rank = at.rank(); lv.lane == at.lane {
			ops[i].Waiter = at.waiter
		}
		if ops[i].Until = p.until; lv.skipped() {
			close(ops[i].Done)
		}
	}
	driven := ctx
	if !p.reserve.IsZero() {
		var cancel context.CancelFunc
		driven, cancel = context.WithDeadline(ctx, p.reserve)
		defer cancel()
	}
	paced := lease.pacedLevel()
	if paced >= 0 {
		if over, err := l.writePacedFirst(ctx, lease, ops, paced, at, policy, &p); over {
			return err
		}
	}
	l.start(driven, lease, ops, paced, at)
	for i, o := range ops {
		if !l.await(ctx, lease.levels[i].lane, o, &p) && !l.leaveAll(lease, ops) {
			return ctx.Err()
		}
	}
	return l.conclude(ctx, lease, ops, policy)
}

// start queues the op of every level but the paced one, whose op is on its way. Lanes
// run beside each other; the first one runs on this goroutine if it rests.
func (l *RateLimiter) start(ctx context.Context, lease *Lease, ops []*lane.Op, paced int, at position) {
	first := -1
	for i := range lease.levels {
		switch lv := &lease.levels[i]; {
		case lv.skipped() || i == paced:
		case first < 0:
			first = i
		default:
			lv.lane.Submit(ops[i])
		}
	}
	if first < 0 {
		return
	}
	lv := &lease.levels[first]
	lv.lane.Ask(ctx, ops[first])
}

// leaveAll withdraws from every level because the caller's context ended. It returns
// true if there is only one level and that level has in fact answered.
func (l *RateLimiter) leaveAll(lease *Lease, ops []*lane.Op) bool {
	if len(ops) == 1 {
		_, done := lease.levels[0].lane.Leave(ops[0])
		return done
	}
	for j, o := range ops {
		lv := &lease.levels[j]
		if lv.skipped() {
			continue
		}
		switch r, done := lv.lane.Leave(o); {
		case done && r.Pending: // its write is under way
			lv.lane.Follow(o)
		case done && r.Unconfirmed:
			l.lanes.Doubt(lv.asked)
		case done && r.Err == nil && !r.Denied:
			lv.lane.GiveBack(o, r)
		}
	}
	return false
}

// conclude turns the results of the levels into a lease or an error.
func (l *RateLimiter) conclude(ctx context.Context, lease *Lease, ops []*lane.Op, policy UnavailablePolicy) error {
	var err error
	unanswered := false
	switch o := l.bookResults(lease, ops); {
	case o.denied:
		err = lease.denial()
	case o.fault != nil:
		err = o.fault
	case o.failure == nil:
		return nil
	case !policy.admits():
		err, unanswered = o.failure, true
	default:
		if err = l.admitFailed(lease, ops, policy); err == nil {
			return nil
		}
		unanswered = !errors.Is(err, ErrLimitExceeded)
	}
	unconfirmed := l.disownFailed(lease, ops)
	if unconfirmed != nil && unanswered {
		err, unconfirmed = unconfirmed, nil // it wraps the failure
	}
	return joined(err, unconfirmed, l.undo(ctx, lease))
}

// outcome is what the levels of an acquire came to together.
type outcome struct {
	// denied means that the bucket of some level denied.
	denied bool
	// failure is an error of the store, about which the policy decides. fault is a bug
	// or a bad request; it never fails open, whatever the other levels did.
	failure, fault error
}

// bookResults books the result of every level.
func (l *RateLimiter) bookResults(lease *Lease, ops []*lane.Op) outcome {
	var sum outcome
	for i, o := range ops {
		lv := &lease.levels[i]
		o.Result.Err = l.userError(lv.lane, o.Result.Err)
		r := o.Result
		lv.noteAnswer(r)
		switch {
		case lv.skipped():
		case r.Denied:
			sum.denied = true
		case r.Err == nil:
			lv.grant(r.Image)
		case leftToPolicy(r.Err):
			sum.failure = r.Err
		default:
			sum.fault = cmp.Or(sum.fault, r.Err)
		}
	}
	return sum
}

// admitFailed lets the policy decide at the levels whose buckets did not answer in time.
// If the process's share denies, it books nothing and returns the denial.
func (l *RateLimiter) admitFailed(lease *Lease, ops []*lane.Op, policy UnavailablePolicy) error {
	for i, o := range ops {
		lv := &lease.levels[i]
		if lv.skipped() || o.Result.Err == nil {
			continue
		}
		if err := l.admitByPolicy(lease, lv, policy); err != nil {
			l.undoLocal(lease)
			return err
		}
	}
	for i, o := range ops {
		if lv := &lease.levels[i]; !lv.skipped() && o.Result.Err != nil {
			l.bookAdmitted(lv, o)
		}
	}
	return nil
}

// disownFailed names what a failed acquire may have been charged although no answer
// came. If a write is still under way, what it is granted is given back.
func (l *RateLimiter) disownFailed(lease *Lease, ops []*lane.Op) error {
	var unconfirmed error
	for i, o := range ops {
		lv, r := &lease.levels[i], o.Result
		if lv.skipped() || !r.Unconfirmed {
			continue
		}
		if r.Pending {
			lv.lane.Follow(o)
		} else {
			l.lanes.Doubt(lv.asked)
		}
		unconfirmed = errors.Join(unconfirmed, lv.unconfirmed(lv.asked, r.Err, false))
	}
	return unconfirmed
}

// joined adds to an error what could not be confirmed.
func joined(err error, others ...error) error {
	for _, other := range others {
		if other != nil {
			err = errors.Join(err, other)
		}
	}
	return err
}

// undo gives back what levels granted to an acquire that failed as a whole. Nobody does so
// again: what cannot be given back now waits for its bucket.
func (l *RateLimiter) undo(ctx context.Context, lease *Lease) error {
	granted := false
	for i := range lease.levels {
		granted = granted || lease.levels[i].holds()
	}
	if !granted {
		return nil
	}
	lease.failed = true
	return lease.Rollback(ctx)
}

// serve takes the amounts from what the lanes debited ahead. It returns true if every
// level had enough.
func (l *RateLimiter) serve(ctx context.Context, r *request, c *cascade) bool {
	if l.lanes.Horizon == nil || l.mode(r) == CascadeTransaction && len(c.rungs) > 1 {
		return false
	}
	some, all := false, true
	for i := range c.rungs {
		at := &c.rungs[i]
		if at.from == at.to {
			continue
		}
		var shown lane.Result
		shown, at.servedAt, at.served = at.lane.Ahead.Serve(ctx, c.askedOf(i), at.cfg)
		at.shown, at.now = shown.Image, shown.Now
		some, all = some || at.served, all && at.served
	}
	return some && all
}

// putBack returns what was served to a call that memory denies.
func (c *cascade) putBack(ctx context.Context) {
	for i := range c.rungs {
		if at := &c.rungs[i]; at.served {
			at.served = false
			at.lane.Ahead.PutBack(ctx, slices.Clone(c.askedOf(i)), plan.Reading{Image: at.shown, Config: at.cfg, Now: at.now}, at.servedAt)
		}
	}
}

// bookServed books what levels were served as granted.
func (lease *Lease) bookServed() *Lease {
	for i := range lease.levels {
		if lv := &lease.levels[i]; lv.served {
			lv.served = false
			lv.grant(lv.last.Image)
		}
	}
	return lease
}

// putBackServed returns what levels were served to a call that failed as a whole.
func (lease *Lease) putBackServed(ctx context.Context) {
	for i := range lease.levels {
		if lv := &lease.levels[i]; lv.served {
			lv.served = false
			lv.lane.Ahead.PutBack(ctx, lv.asked, lv.last.Reading, lv.servedAt)
		}
	}
}

// A cascade one of whose buckets is paced: the paced level's take queues first, and
// the others go out with its write, so that no child is debited while its parent
// waits for its turn.

// pacedLevel is the level whose lane has to wait longest for its turn. It is -1 if none
// has to wait, or if there is only one level.
func (lease *Lease) pacedLevel() int {
	paced, longest := -1, time.Duration(0)
	if lease.spread() < 2 {
		return paced
	}
	for i := range lease.levels {
		lv := &lease.levels[i]
		if lv.skipped() {
			continue
		}
		if turn := lv.lane.Turn(); turn > longest {
			paced, longest = i, turn
		}
	}
	return paced
}

// writePacedFirst queues the take of the paced level and waits until its write is sent.
// over means that this level ended the call before the others were asked.
func (l *RateLimiter) writePacedFirst(ctx context.Context, lease *Lease, ops []*lane.Op, first int, at position, policy UnavailablePolicy, p *patience) (over bool, err error) {
	o, lv := ops[first], &lease.levels[first]
	sent := o.TellSent()
	lv.lane.Submit(o)
	if !l.awaitSent(ctx, lv.lane, o, sent, p) {
		l.leaveAll(lease, ops)
		return true, ctx.Err()
	}
	select {
	case <-o.Done:
	default:
		return false, nil // its write is under way
	}
	switch r := o.Result; {
	case r.Denied && l.noteOthers(ctx, lease, first, at.rank()):
		lv.noteAnswer(r)
		return true, lease.denial()
	case r.Err == nil || policy.admits():
		return false, nil
	default:
		for i, other := range ops {
			if i != first {
				other.Result.Err = r.Err // nothing of it was written
			}
		}
		return true, l.conclude(ctx, lease, ops, policy)
	}
}

// awaitSent waits until an op's write is sent or the op has ended. It returns false if
// ctx has ended.
func (l *RateLimiter) awaitSent(ctx context.Context, at *lane.Lane, o *lane.Op, sent <-chan struct{}, p *patience) bool {
	timer := time.NewTimer(time.Until(p.next()))
	defer timer.Stop()
	select {
	case <-sent:
		return true
	case <-o.Done:
	case <-ctx.Done():
	case <-l.lanes.Table.Opened():
	case <-timer.C:
	}
	return l.await(ctx, at, o, p) // decides, as of any op that takes too long
}

// noteOthers notes what the other levels hold, for a denial by the level that was asked
// first. It returns false if a lane has to say it.
func (l *RateLimiter) noteOthers(ctx context.Context, lease *Lease, asked int, rank uint64) bool {
	now := l.nowMS()
	for i := range lease.levels {
		lv := &lease.levels[i]
		if i == asked || lv.skipped() {
			continue
		}
		r, _ := lv.lane.Recall(lv.asked, lv.cfg, rank, now)
		if r.Config == nil {
			var ok bool
			if r, ok = inspect(ctx, lv.lane, lv.cfg, lv.asked, rank); !ok {
				return false
			}
		}
		lv.noteAnswer(r)
	}
	return true
}
