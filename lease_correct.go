package dynalimit

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// correction is one change of the amounts that a lease holds.
type correction struct {
	// target computes the new amounts from those that the lease holds.
	target func(consumed []plan.Signed) []plan.Signed
	// ends means that the lease ends with the correction.
	ends bool
	// ended is returned if the lease has already ended.
	ended error
}

// correct makes a correction at every level.
func (lease *Lease) correct(ctx context.Context, c correction) error {
	if err := lease.usable(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.limiter.opts.CleanupTimeout)
	defer cancel()
	if !lease.begin(ctx) {
		return &UnavailableError{Op: "correct a lease while another correction of it is under way", Err: ctx.Err()}
	}
	defer lease.finish()
	if lease.ended {
		return c.ended
	}
	target := lease.known(c.target(lease.consumed))
	if err := lease.checkTarget(target); err != nil {
		return err
	}
	done, err := lease.reconcile(ctx, target)
	if done {
		lease.consumed, lease.ended = target, c.ends
	}
	return err
}

// checkTarget refuses amounts below 0 or above the maximum, and limits that no level
// has.
func (lease *Lease) checkTarget(target []plan.Signed) error {
	for _, t := range target {
		if t.Amount != 0 && lease.levels != nil && !lease.has(t.Name) {
			return lease.limiter.unknownLimit(&lease.request, t.Name, configs(lease.levels))
		}
		if t.Amount < 0 {
			held, _ := plan.AmountOf(lease.consumed, t.Name)
			return invalid("amounts["+t.Name+"]", "gives back %d more than the lease holds (%d)", -t.Amount/milli, held/milli)
		}
		if t.Amount > maxTokens*milli {
			return invalid("amounts["+t.Name+"]", "makes the lease %d tokens; at most %d are allowed", t.Amount/milli, int64(maxTokens))
		}
	}
	return nil
}

// locate finds the levels of a lease that was granted while the configuration could not
// be read.
func (lease *Lease) locate(ctx context.Context) error {
	if lease.levels != nil || lease.unlimited {
		return nil
	}
	var c cascade
	var err error
	lease.unlocked(func() { c, _, err = lease.limiter.chain(ctx, &lease.request, c, nil) })
	if err != nil {
		return err
	}
	lease.levels, lease.unlimited = c.levels(nil, nil), c.unlimited
	for i := range lease.levels { // the buckets are told already, or will be
		lv := &lease.levels[i]
		lv.degraded = true
		for _, a := range lease.consumed {
			if lv.has(a.Name) {
				lv.holding(a.Name).Counted += a.Amount
			}
		}
	}
	return nil
}

// reconcile brings every level to the target. It writes what is missing; what a bucket that
// does not answer cannot be charged is counted, and what it cannot be given back waits. done
// is false if something was neither written nor kept, so that the same call again has to
// write it.
func (lease *Lease) reconcile(ctx context.Context, target []plan.Signed) (done bool, err error) {
	if err := lease.locate(ctx); err != nil {
		if leftToPolicy(err) && lease.countUnlocated(target) {
			return true, nil
		}
		return false, &UnconfirmedError{
			EntityID: lease.request.entity, Resource: lease.request.resource, Amounts: tokensOf(target), Err: err, NotWritten: true,
		}
	}
	ops, results, errs := lease.corrections(ctx, target)
	lease.unlocked(func() { lease.sendCorrections(ctx, ops, results) })
	done = len(errs) == 0
	for i, o := range ops {
		if o == nil {
			continue
		}
		if err := lease.book(&lease.levels[i], o, results[i]); err != nil {
			done = done && !err.NotWritten
			errs = append(errs, err)
		}
	}
	return done, errors.Join(errs...)
}

// countUnlocated counts the way to a target for buckets that are not known yet.
func (lease *Lease) countUnlocated(target []plan.Signed) bool {
	change := plan.Plus(target, plan.Negated(lease.consumed))
	return lease.limiter.lanes.CountUnlocated(lease.request.entity, lease.request.resource, change)
}

// corrections makes the op that each level has to write for the target; nil where nothing
// is missing. What is counted is corrected here: the errors are of what cannot be, because
// the limiter is closed. A level that does not answer gets its result here, without a request.
func (lease *Lease) corrections(ctx context.Context, target []plan.Signed) (ops []*lane.Op, results []lane.Result, errs []error) {
	ops, results = make([]*lane.Op, len(lease.levels)), make([]lane.Result, len(lease.levels))
	for i := range lease.levels {
		lv := &lease.levels[i]
		lv.resolve()
		writes, uncounts, givenUp := lv.corrections(lv.withAllLimits(target), func(limit string) bool { return lease.passes(i, limit) })
		if !lease.count(lv, uncounts) {
			errs = append(errs, lv.unconfirmed(uncounts, ErrClosed, true))
		}
		lease.limiter.lanes.Doubt(givenUp)
		if len(writes) == 0 {
			continue
		}
		ops[i] = lane.NewAdjust(ctx, writes, lv.incarnation, lv.cfg)
		if lv.lane.Contact.Away() { // no request: the caller would wait for nothing
			results[i] = lane.Result{Err: lease.limiter.unanswered(lease.limiter.cause())}
			lv.lane.GiveUp(ops[i], results[i].Err)
		}
	}
	return ops, results, errs
}

// unconfirmed is the error of a correction that was not written, or perhaps not.
func (lv *level) unconfirmed(amounts []plan.Signed, err error, notWritten bool) *UnconfirmedError {
	return &UnconfirmedError{EntityID: lv.lane.Entity, Resource: lv.lane.Resource, Amounts: tokensOf(amounts), Err: err, NotWritten: notWritten}
}

// count corrects what is counted at a level and, under Local, the process's share. It
// returns false if the limiter is closed: then no bucket is told.
func (lease *Lease) count(lv *level, changes []plan.Signed) bool {
	if len(changes) > 0 && lease.policy == Local {
		lv.changeLocally(changes, lease.limiter.opts.LocalShare, lease.limiter.nowMS())
	}
	return lv.count(lease.limiter.lanes, changes)
}

// book enters the result of a level's correction. If no answer came and it was surely not
// written, or nobody is there who would write it again, a charge is counted and a give-back
// waits. If it may have been written, a charge stays consumed, and neither is sent again.
func (lease *Lease) book(lv *level, o *lane.Op, r lane.Result) *UnconfirmedError {
	lv.noteAnswer(r)
	switch {
	case r.Err == nil:
		lv.bookLanded(o.Amounts, r)
		return nil
	case r.Pending:
		lv.bookUnconfirmed(o.Amounts)
		lv.underWay = append(lv.underWay, o)
		lv.lane.Follow(o)
	case r.Unconfirmed:
		lv.bookUnconfirmed(o.Amounts)
		lease.limiter.lanes.Doubt(o.Amounts)
	case (silent(r.Err) || lease.failed) && lease.keep(lv, o.Amounts):
		return nil
	default:
		for _, a := range o.Amounts {
			lv.holding(a.Name) // known to the lease, though nothing of it is held
		}
	}
	return lv.unconfirmed(o.Amounts, r.Err, !r.Unconfirmed)
}

// keep counts charges that could not be written, and has give-backs wait for the bucket. It
// returns false if the limiter is closed, so that nothing is kept.
func (lease *Lease) keep(lv *level, amounts []plan.Signed) bool {
	charges, backs := plan.Split(amounts)
	if !lease.limiter.lanes.GiveBackLater(lv.lane, plan.Negated(backs), lv.incarnation, lv.cfg) || !lease.count(lv, charges) {
		return false
	}
	for _, a := range backs {
		lv.holding(a.Name).GiveBack(-a.Amount)
	}
	lv.degraded = true
	return true
}

// sendCorrections sends the ops of all levels at once and waits for their results. The
// first lane is driven on this goroutine if it rests.
func (lease *Lease) sendCorrections(ctx context.Context, ops []*lane.Op, results []lane.Result) {
	first := -1
	for i, o := range ops {
		switch {
		case o == nil || results[i].Err != nil:
		case first < 0:
			first = i
		default:
			lease.levels[i].lane.Submit(o)
		}
	}
	if first >= 0 {
		lease.levels[first].lane.Ask(ctx, ops[first])
	}
	for i, o := range ops {
		if o != nil && results[i].Err == nil {
			results[i] = awaitCorrection(ctx, lease.levels[i].lane, o, lease.limiter.lanes.Table.Opened())
			results[i].Err = lease.limiter.userError(lease.levels[i].lane, results[i].Err)
		}
	}
}

// awaitCorrection waits for the result of an adjust, until the table is known not to answer,
// which closes opened, or ctx ends. An adjust that is still queued then is never written; the outcome of one in
// flight can be followed.
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
