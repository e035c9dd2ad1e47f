package dynalimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// taking is one try to take the amounts of a charge from its buckets. It belongs to its caller's
// goroutine.
type taking struct {
	charge *charge
	at     position
	// patience is how long the caller waits for the store.
	patience patience
}

// A transaction holds all buckets of the longest chain: each level has a resource and its groups.
const _ = uint(ddb.MaxTransact - schema.MaxDepth*(1+schema.MaxGroups))

// take charges the levels. The policy decides at those that do not answer, and the buckets decide at
// the others: side by side, or in one transaction. An unanswered transaction does not show which of its
// buckets is silent. So the levels are also charged side by side where one may be.
func (t *taking) take(ctx context.Context) error {
	c := t.charge
	if c.levels == nil {
		if !c.unlimited && !c.countUnlocated(nil, c.consumed) {
			c.desk.lanes.Drop(c.consumed) // closed meanwhile
		}
		return nil
	}
	t.patience.begin(ctx)
	var err error
	away := false
	for i := range c.levels {
		away = away || c.levels[i].lane.Contact.Away()
	}
	if away {
		err = c.admitSilent()
	}
	switch spread := c.spread(); {
	case err != nil || spread == 0: // no bucket is asked
	case spread > 1 && c.desk.modeOf(&c.request) == ChargeTransaction && !slices.ContainsFunc(c.levels, mayBeSilent):
		err = t.together(ctx)
	default:
		err = t.sideBySide(ctx)
	}
	if err != nil {
		c.undoLocal()
		c.putBackServed(ctx)
		return err
	}
	if c.desk.lanes.Horizon != nil {
		c.bookServed()
	}
	if !c.unasked && c.desk.observer.Overran == nil {
		return nil
	}
	for i := range c.levels {
		lv := &c.levels[i]
		if lv.unasked {
			c.countAdmitted(lv)
		}
		for _, h := range lv.holdings {
			lv.tellOverrun(&c.desk.observer, h.Name, h.Uncharged())
		}
	}
	return nil
}

// mayBeSilent reports whether a level was admitted without its bucket, or may have a silent bucket.
func mayBeSilent(lv level) bool {
	return lv.unasked || lv.lane.Contact.Suspected() && !lv.skipped()
}

// sideBySide asks the lanes of all levels at the same time: ChargeParallel. A call whose entity has no
// parents goes the same way, with one level. If one denies or fails, the grants of the others are given
// back. Lanes run in parallel. This goroutine drives the first one if that is idle.
func (t *taking) sideBySide(ctx context.Context) error {
	levels := t.charge.levels
	ops := make([]*lane.Op, len(levels))
	for i := range levels {
		lv := &levels[i]
		ops[i] = lane.NewTake(ctx, lv.asked, lv.cfg)
		if t.at.waits {
			if ops[i].Rank = t.at.rank(); lv.lane == t.at.lane {
				ops[i].Waiter = t.at.waiter
			}
		}
		if ops[i].Until = t.patience.until; lv.skipped() {
			close(ops[i].Done)
		}
	}
	driven := ctx
	if !t.patience.reserve.IsZero() {
		var cancel context.CancelFunc
		driven, cancel = context.WithDeadline(ctx, t.patience.reserve)
		defer cancel()
	}
	first, decides := -1, false
	if len(levels) > 1 {
		first, decides = t.firstLevel()
	}
	if first >= 0 {
		if over, err := t.writeFirst(ctx, ops, first, decides); over {
			return err
		}
	}
	own := -1 // driven by this goroutine
	for i := range levels {
		switch lv := &levels[i]; {
		case lv.skipped() || i == first:
		case own < 0:
			own = i
		default:
			lv.lane.Submit(ops[i])
		}
	}
	if own >= 0 {
		levels[own].lane.Ask(driven, ops[own])
	}
	for i, o := range ops {
		if !t.await(ctx, levels[i].lane, o) && !t.leaveAll(ops) {
			return ctx.Err()
		}
	}
	return t.conclude(ctx, ops, t.charge.policy)
}

// await waits until an op has its result, its bucket or table is known not to answer, or the call's
// time for the store is over. It returns false if ctx has ended.
func (t *taking) await(ctx context.Context, at *lane.Lane, o *lane.Op) bool {
	select {
	case <-o.Done:
		return true
	default:
	}
	p, table := &t.patience, t.charge.desk.table
	timer := time.NewTimer(time.Until(p.next()))
	defer timer.Stop()
	for {
		select {
		case <-o.Done:
			return true
		case <-ctx.Done():
			return false
		case <-table.Opened():
			at.GiveUp(o, table.away())
			return true
		case <-timer.C:
		}
		switch {
		case at.Contact.Quiet(p.began) >= leastSilence:
			at.GiveUp(o, table.unanswered(errOutOfTime))
			return true
		case !time.Now().Before(p.until):
			at.GiveUp(o, &UnavailableError{Op: "acquire", Err: outOfTimeFor(o.Cause())})
			return true
		}
		p.reserve = time.Time{} // too short a silence: the caller's deadline decides
		timer.Reset(time.Until(p.until))
	}
}

// leaveAll withdraws from every level because the caller's context ended. It returns
// true if there is only one level and that level has in fact answered.
func (t *taking) leaveAll(ops []*lane.Op) bool {
	levels := t.charge.levels
	if len(ops) == 1 {
		_, done := levels[0].lane.Leave(ops[0])
		return done
	}
	for j, o := range ops {
		lv := &levels[j]
		if lv.skipped() {
			continue
		}
		switch r, done := lv.lane.Leave(o); {
		case done && r.Pending: // its write is under way
			lv.lane.Follow(o)
		case done && r.Unconfirmed:
			t.charge.desk.lanes.Doubt(lv.asked)
		case done && r.Err == nil && !r.Denied:
			lv.lane.GiveBack(o, r)
		}
	}
	return false
}

// conclude turns the results of the levels into a charge or an error, by the policy.
func (t *taking) conclude(ctx context.Context, ops []*lane.Op, policy UnavailablePolicy) error {
	c := t.charge
	var err error
	unanswered := false
	switch o := t.bookResults(ops); {
	case o.denied:
		err = c.denial()
	case o.fault != nil:
		err = o.fault
	case o.failure == nil:
		return nil
	case !policy.admits() && !o.counted:
		err, unanswered = o.failure, true
	default:
		if err = c.admitFailed(ops); err == nil {
			return nil
		}
		unanswered = !errors.Is(err, ErrLimitExceeded)
	}
	unconfirmed := t.disownFailed(ops)
	if unconfirmed != nil && unanswered {
		err, unconfirmed = unconfirmed, nil // it wraps the failure
	}
	return joined(err, unconfirmed, c.undo(ctx))
}

// outcome is the combined result of an acquire's levels.
type outcome struct {
	// denied means that the bucket of some level denied.
	denied bool
	// failure is an error of the store; the policy decides about it. fault is a bug or a bad request.
	// It never fails open, whatever the other levels did.
	failure, fault error
	// counted means that every failed level only counts, because a level is unlimited.
	counted bool
}

// bookResults books the result of every level.
func (t *taking) bookResults(ops []*lane.Op) outcome {
	sum := outcome{counted: true}
	for i, o := range ops {
		lv := &t.charge.levels[i]
		if o.Result.Err != nil {
			o.Result.Err = t.charge.desk.table.userError(lv.lane, o.Result.Err)
		}
		r := o.Result
		lv.noteAnswer(r)
		switch {
		case lv.skipped():
		case r.Denied:
			sum.denied = true
		case r.Err == nil:
			lv.grant(&r)
		case leftToPolicy(r.Err) || lv.onlyCounts() && (unavailable(r.Err) || errors.Is(r.Err, ErrContended)):
			sum.failure, sum.counted = r.Err, sum.counted && lv.onlyCounts()
		default:
			sum.fault = cmp.Or(sum.fault, r.Err)
		}
	}
	return sum
}

// disownFailed returns the error for amounts that a failed acquire may have charged although no answer
// came. It follows a write in flight, and its grant is given back.
func (t *taking) disownFailed(ops []*lane.Op) error {
	var unconfirmed error
	for i, o := range ops {
		lv, r := &t.charge.levels[i], o.Result
		if lv.skipped() || !r.Unconfirmed {
			continue
		}
		if r.Pending {
			lv.lane.Follow(o)
		} else {
			t.charge.desk.lanes.Doubt(lv.asked)
		}
		unconfirmed = errors.Join(unconfirmed, lv.unconfirmed(lv.asked, r.Err, false))
	}
	return unconfirmed
}
