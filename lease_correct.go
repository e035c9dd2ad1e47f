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
	levels := c.levels(nil, nil)
	for i := range levels {
		levels[i].degraded = true
	}
	lease.levels, lease.unlimited = levels, c.unlimited
	return nil
}

// reconcile brings every level to the target. It writes what is missing, or owes it to a
// bucket that does not answer. done is false if something was neither written nor kept,
// so that the same call again has to write it.
func (lease *Lease) reconcile(ctx context.Context, target []plan.Signed) (done bool, err error) {
	if lease.levels == nil && !owes(target) {
		return true, nil
	}
	if err := lease.locate(ctx); err != nil {
		return false, &UnconfirmedError{
			EntityID: lease.request.entity, Resource: lease.request.resource, Amounts: tokensOf(target), Err: err, NotWritten: true,
		}
	}
	stoodBefore := lease.localStanding()
	ops, results := lease.corrections(ctx, target)
	lease.unlocked(func() { lease.sendCorrections(ctx, ops, results) })
	defer lease.correctLocal(stoodBefore)
	done = true
	var errs []error
	for i, o := range ops {
		if o == nil {
			continue
		}
		if err := lease.limiter.book(&lease.levels[i], o, results[i]); err != nil {
			done = done && !err.NotWritten
			errs = append(errs, err)
		}
	}
	return done, errors.Join(errs...)
}

// localStanding is what each level that the process's share admitted holds; nil if there
// is no such level.
func (lease *Lease) localStanding() [][]plan.Signed {
	var stood [][]plan.Signed
	for i := range lease.levels {
		if lv := &lease.levels[i]; lv.local {
			if stood == nil {
				stood = make([][]plan.Signed, len(lease.levels))
			}
			stood[i] = lv.standing()
		}
	}
	return stood
}

// correctLocal changes the process's shares by what a correction has changed. A
// correction that was neither written nor kept changes nothing, and may be made again.
func (lease *Lease) correctLocal(stoodBefore [][]plan.Signed) {
	l := lease.limiter
	for i := range stoodBefore {
		if lv := &lease.levels[i]; lv.local {
			changes := plan.Plus(lv.standing(), plan.Negated(stoodBefore[i]))
			lv.lane.CorrectLocally(changes, lv.cfg, l.opts.LocalShare, l.nowMS())
		}
	}
}

// corrections makes the op that each level has to write for the target; nil where
// nothing is missing. A level that does not answer gets its result here, without a
// request.
func (lease *Lease) corrections(ctx context.Context, target []plan.Signed) ([]*lane.Op, []lane.Result) {
	now := lease.limiter.nowMS()
	ops, results := make([]*lane.Op, len(lease.levels)), make([]lane.Result, len(lease.levels))
	for i := range lease.levels {
		lv := &lease.levels[i]
		lv.resolve()
		target := lv.withAllLimits(target)
		delta := lv.corrections(target, now)
		if len(delta) == 0 {
			continue
		}
		ops[i] = lane.NewAdjust(ctx, delta, lv.incarnation, lv.cfg)
		if lv.lane.Away() { // no request: the caller would wait for nothing
			results[i] = lane.Result{Err: lease.limiter.unanswered(lease.limiter.cause())}
			lv.lane.GiveUp(ops[i], results[i].Err)
		}
	}
	return ops, results
}

// book enters the result of a level's correction. A charge that was not written because
// no answer came is owed, and one that is under way is followed. A give-back that was
// surely not written is owed as well; one that may have been written stays consumed.
func (l *RateLimiter) book(lv *level, o *lane.Op, r lane.Result) *UnconfirmedError {
	lv.noteAnswer(r)
	if r.Err != nil && !silent(r.Err) || r.Err == nil || r.Unconfirmed && !r.Pending {
		lv.bookWrite(o.Amounts, r)
		if r.Unconfirmed {
			l.lanes.Doubt(o.Amounts)
		}
		return lv.unconfirmed(o.Amounts, r)
	}
	charges, backs := plan.Split(o.Amounts)
	switch {
	case r.Pending:
		l.follow(lv, o, charges)
		lv.bookWrite(backs, r)
		l.lanes.Doubt(backs)
		return lv.unconfirmed(o.Amounts, r)
	case !l.keep(lv, charges, backs):
		return lv.unconfirmed(o.Amounts, r)
	}
	return nil
}

// keep owes a bucket what could not be written. It returns false if no more can be kept.
func (l *RateLimiter) keep(lv *level, charges, backs []plan.Signed) bool {
	if len(charges) > 0 && !l.owe(lv, charges) {
		return false
	}
	lv.degraded = true
	if len(backs) == 0 {
		return true
	}
	if !lv.lane.OweBack(plan.Negated(backs), lv.incarnation, lv.cfg) {
		return false
	}
	for _, a := range backs { // in the bucket that it was taken from, which nothing says is gone
		lv.holding(a.Name).GivenBack(-a.Amount)
	}
	return true
}

// unconfirmed is the error for amounts that are not known to be written; nil if all are.
func (lv *level) unconfirmed(amounts []plan.Signed, r lane.Result) *UnconfirmedError {
	if r.Err == nil || len(amounts) == 0 {
		return nil
	}
	return &UnconfirmedError{
		EntityID: lv.lane.Entity, Resource: lv.lane.Resource, Amounts: tokensOf(amounts), Err: r.Err, NotWritten: !r.Unconfirmed,
	}
}

// owes reports whether a target holds anything.
func owes(target []plan.Signed) bool {
	for _, t := range target {
		if t.Amount > 0 {
			return true
		}
	}
	return false
}

// sendCorrections sends the ops of all levels at once and waits for their results. The
// first lane that rests is driven on this goroutine.
func (lease *Lease) sendCorrections(ctx context.Context, ops []*lane.Op, results []lane.Result) {
	drive := -1
	for i, o := range ops {
		if o == nil || results[i].Err != nil {
			continue
		}
		lane := lease.levels[i].lane
		switch rests := lane.Enqueue(o); {
		case rests && drive < 0:
			drive = i
		case rests:
			go lane.Run()
		}
	}
	if drive >= 0 {
		lease.levels[drive].lane.Drive(ctx, ops[drive])
	}
	for i, o := range ops {
		if o != nil && results[i].Err == nil {
			results[i] = lease.levels[i].lane.Await(ctx, o)
			results[i].Err = lease.limiter.userError(lease.levels[i].lane, results[i].Err)
		}
	}
}
