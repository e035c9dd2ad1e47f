package dynalimit

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// checkTarget refuses amounts below 0 or above the maximum, and limits that no level
// has.
func (c *charge) checkTarget(target []plan.Signed) error {
	for _, t := range target {
		if t.Amount != 0 && c.levels != nil && !c.has(t.Name) {
			return refusedBy(c.desk.routes.fallback.UnknownLimit(c.request.named(namedBuckets(c.levels), c.unlimited), t.Name))
		}
		if t.Amount < 0 {
			held, _ := plan.AmountOf(c.consumed, t.Name)
			return invalid("amounts["+t.Name+"]", "gives back %d more than the lease holds (%d)", -t.Amount/milli, held/milli)
		}
		if t.Amount > maxTokens*milli {
			return invalid("amounts["+t.Name+"]", "makes the lease %d tokens; at most %d are allowed", t.Amount/milli, int64(maxTokens))
		}
	}
	return nil
}

// correcting is one correction of a charge at every level. It writes the difference to the target. If a
// bucket does not answer, charges are counted and give-backs wait. correct makes it; then it is sent
// and booked.
type correcting struct {
	charge *charge
	// ops are the writes of the levels, nil for a level that needs no write. results are their
	// outcomes.
	ops     []*lane.Op
	results []lane.Result
	// errs are for counted amounts that cannot be corrected, because the limiter is closed.
	errs []error
}

// correct starts a correction of every level to a target. A level that does not answer gets its result
// here, without a request.
func (c *charge) correct(ctx context.Context, target []plan.Signed) correcting {
	if c.hasRenewedLevel() {
		c.placeCounts(target)
	}
	k := correcting{charge: c, ops: make([]*lane.Op, len(c.levels)), results: make([]lane.Result, len(c.levels))}
	for i := range c.levels {
		lv := &c.levels[i]
		if len(lv.underWay) > 0 {
			lv.resolve(c.desk.lanes, &c.desk.observer)
		}
		writes, uncounts, givenUp := lv.corrections(lv.withAllLimits(target), func(limit string) bool { return len(c.levels) > 1 && c.passes(i, limit) })
		if len(uncounts) > 0 && !c.count(lv, uncounts) {
			k.errs = append(k.errs, lv.unconfirmed(uncounts, ErrClosed, true))
		}
		if len(givenUp) > 0 {
			c.desk.lanes.Doubt(givenUp)
		}
		if len(writes) == 0 {
			continue
		}
		k.ops[i] = lane.NewAdjust(ctx, writes, lv.incarnation, lv.cfg)
		if lv.lane.Contact.Away() { // no request: the caller would wait for nothing
			k.results[i] = lane.Result{Err: c.desk.table.away()}
			lv.lane.GiveUp(k.ops[i], k.results[i].Err)
		}
	}
	return k
}

// send sends the ops of all levels at once and waits for their results. It releases held, a held lock
// or nil, meanwhile. This goroutine drives the first lane if that is idle.
func (k *correcting) send(ctx context.Context, held sync.Locker) {
	if held != nil {
		held.Unlock()
		defer held.Lock()
	}
	levels, first := k.charge.levels, -1
	for i, o := range k.ops {
		switch {
		case !k.sends(i):
		case first < 0:
			first = i
		default:
			levels[i].lane.Submit(o)
		}
	}
	if first >= 0 {
		levels[first].lane.Ask(ctx, k.ops[first])
	}
	k.await(ctx)
}

// sends reports whether a level has something to write, to a bucket that may answer.
func (k *correcting) sends(i int) bool { return k.ops[i] != nil && k.results[i].Err == nil }

// charges reports whether some level has to charge something.
func (k *correcting) charges() bool {
	return slices.ContainsFunc(k.ops, func(o *lane.Op) bool {
		return o != nil && slices.ContainsFunc(o.Amounts, func(a plan.Signed) bool { return a.Amount > 0 })
	})
}

// lanes returns the lanes of the ops in flight.
func (k *correcting) lanes() (lanes []*lane.Lane) {
	for i := range k.ops {
		if k.sends(i) {
			lanes = append(lanes, k.charge.levels[i].lane)
		}
	}
	return lanes
}

// await waits for the results of the ops in flight.
func (k *correcting) await(ctx context.Context) {
	for i, o := range k.ops {
		if at := k.charge.levels[i].lane; k.sends(i) {
			k.results[i] = awaitCorrection(ctx, at, o, k.charge.desk.table.Opened())
			if k.results[i].Err != nil {
				k.results[i].Err = k.charge.desk.table.userError(at, k.results[i].Err)
			}
		}
	}
}

// awaitCorrection waits for the result of an adjust, until the table is known not to answer,
// which closes opened, or ctx ends. An adjust that is still queued then is never written;
// the outcome of one in flight can be followed.
func awaitCorrection(ctx context.Context, at *lane.Lane, o *lane.Op, opened <-chan struct{}) lane.Result {
	select {
	case <-o.Done:
	case <-ctx.Done():
		at.GiveUp(o, &lane.Failure{Reason: lane.Unconfirmed, Op: "adjust", Err: ctx.Err()})
	case <-opened:
		at.GiveUp(o, &lane.Failure{Reason: lane.Silent, Err: lane.ErrTripped})
	}
	<-o.Done
	return o.Result
}

// book enters the results. done is false if something was neither written nor kept, so
// that the same call again has to write it.
func (k *correcting) book() (done bool, err error) {
	errs := k.errs
	done = len(errs) == 0
	for i, o := range k.ops {
		if o == nil {
			continue
		}
		if err := k.charge.book(&k.charge.levels[i], o, k.results[i]); err != nil {
			done = done && !err.NotWritten
			errs = append(errs, err)
		}
	}
	return done, errors.Join(errs...)
}

// book enters the result of a level's correction. If nothing was written, and the bucket did not answer
// or no retry will follow, a charge is counted and a give-back waits. If it may have been written, a
// charge stays consumed, and neither is sent again.
func (c *charge) book(lv *level, o *lane.Op, r lane.Result) *UnconfirmedError {
	lv.noteAnswer(r)
	switch {
	case r.Err == nil:
		lv.bookLanded(o.Amounts, r)
		for _, d := range r.Down {
			lv.tellOverrun(&c.desk.observer, d.Name, d.Amount)
		}
		return nil
	case r.Pending:
		lv.bookUnconfirmed(o.Amounts)
		lv.underWay = append(lv.underWay, o)
		lv.lane.Follow(o)
	case r.Unconfirmed:
		lv.bookUnconfirmed(o.Amounts)
		c.desk.lanes.Doubt(o.Amounts)
	case (silent(r.Err) || c.final) && c.keep(lv, o.Amounts):
		return nil
	default:
		for _, a := range o.Amounts {
			lv.holding(a.Name) // known to the lease, though nothing of it is held
		}
	}
	return lv.unconfirmed(o.Amounts, r.Err, !r.Unconfirmed)
}

// keep counts charges that could not be written, and queues give-backs for the bucket. It returns
// false, and keeps nothing, if the limiter is closed.
func (c *charge) keep(lv *level, amounts []plan.Signed) bool {
	charges, backs := plan.Split(amounts)
	if !c.desk.lanes.GiveBackLater(lv.lane, plan.Negated(backs), lv.incarnation, lv.cfg) {
		return false
	}
	for _, a := range backs { // at once: what waits is not given back again, though nothing is counted
		lv.holding(a.Name).GiveBack(-a.Amount)
	}
	lv.degraded = true
	return c.count(lv, charges)
}

// count corrects the counted amounts of a level and, under Local, the process's share. It returns false
// if the limiter is closed. Then no bucket gets the update, and the share, which other limiters on the
// repository use too, stays.
func (c *charge) count(lv *level, changes []plan.Signed) bool {
	without, kept := lv.count(c.desk.lanes, &c.desk.observer, changes)
	if !kept {
		return false
	}
	if len(without) > 0 && lv.policyOf(c.policy) == Local {
		lv.changeLocally(without, c.desk.share, c.desk.nowMS())
	}
	return true
}

// countUnlocated counts the change of the used amounts from was to is, for buckets that are not known
// yet.
func (c *charge) countUnlocated(was, is []plan.Signed) bool {
	change := plan.Plus(is, plan.Negated(was))
	change = slices.DeleteFunc(slices.Clone(change), func(a plan.Signed) bool { return a.Amount == 0 })
	return c.desk.lanes.CountUnlocated(c.request.entity, c.request.resource, c.request.opts.given.kept(), change)
}

// locate sets the levels of a charge that was made while the configuration could not be read. The
// counter updates of the buckets are written or pending.
func (c *charge) locate(found *cascade) {
	c.levels, c.unlimited = found.levels(nil, nil), found.unlimited
	for i := range c.levels {
		lv := &c.levels[i]
		lv.degraded = true
		for _, a := range c.consumed {
			if lv.has(a.Name) {
				lv.holding(a.Name).Counted += a.Amount
			}
		}
	}
}

// undo gives back the grants and counts of an acquire that failed as a whole, even if ctx has ended. No
// retry follows: give-backs that cannot be written now wait for their bucket.
func (c *charge) undo(ctx context.Context) error {
	if !slices.ContainsFunc(c.levels, func(lv level) bool { return len(lv.holdings) > 0 }) {
		return nil
	}
	c.final = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.desk.cleanup)
	defer cancel()
	k := c.correct(ctx, plan.Merged(c.consumed, nil, func(int64, int64) int64 { return 0 }))
	k.send(ctx, nil)
	_, err := k.book()
	return err
}
