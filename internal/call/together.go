package call

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Transaction: the buckets of an entity and its parents, charged by one transaction. A
// transaction without an answer does not show which of its buckets is silent. So each of them is asked
// by itself next, side by side, and a silent one trips its lane.

// takeTogether charges all levels in one transaction. A denial by a recent image writes nothing. A denial
// falls back to takeSideBySide if the level has to write a newer configuration, or if a give-back to it is
// in flight.
func (t *taking) takeTogether(caller context.Context) error {
	ctx, cancel := context.WithDeadline(caller, t.patience.bound())
	defer cancel()
	var tries rounds
	for tries.refused < lane.MaxRefusals {
		proposals, err := t.proposeAll(ctx, tries.refused)
		if err != nil {
			return t.concludeTogether(ctx, caller, err)
		}
		switch denied, alone := findDenial(proposals); {
		case alone:
			return t.takeSideBySide(caller)
		case denied:
			return t.denyProposed(proposals)
		}
		a, err := newTransaction(t.desk, t.request, t.levels, proposals).commit(ctx, tries.refused)
		if err != nil && ddb.DeniesAccess(err) && dropMoney(proposals) { // the role may lack these attributes alone
			if a, err = newTransaction(t.desk, t.request, t.levels, proposals).commit(ctx, tries.refused); err == nil {
				t.desk.Lanes.Models.LeaveOut()
			}
		}
		switch {
		case err != nil:
			return t.concludeTogether(ctx, caller, err)
		case a.verdict == ddb.Landed:
			return nil
		}
		if !tries.pause(ctx, a.verdict) {
			err := ctx.Err()
			if a.verdict == ddb.Throttled { // return the cause of the throttling
				err = a.err
			}
			return t.concludeTogether(ctx, caller, err)
		}
	}
	r := t.request
	return t.concludeTogether(ctx, caller, newContended(r.Entity, r.Resource))
}

// dropMoney removes the parts about limits of money from the proposals, in place, and their counters by model.
// It returns false without such a part.
func dropMoney(proposals []lane.Proposal) (dropped bool) {
	for i := range proposals {
		if p := &proposals[i]; p.Write.Money != nil {
			p.Write.SetMoney(nil)
			p.Model, dropped = plan.Model{}, true
		}
	}
	return dropped
}

// rounds counts how often a transaction was decided again. Throttling counts apart: it is not a failure
// as long as there is time.
type rounds struct{ refused, throttled int }

// throttledBackoff is the wait before a throttled transaction is decided again.
var throttledBackoff = ddb.Backoff{First: 10 * time.Millisecond, Most: time.Second}

// pause counts an answer after which a transaction is decided again, and waits. It returns false if ctx ends
// first.
func (r *rounds) pause(ctx context.Context, v ddb.Verdict) bool {
	if v == ddb.Throttled {
		r.throttled++
		return throttledBackoff.Pause(ctx, r.throttled-1)
	}
	r.refused++
	return lane.Backoff.Pause(ctx, r.refused-1)
}

// proposeAll decides the write of every level, and sends nothing. If a level denies, all of them are decided
// again from recent images, so that no level passes by an image too old to deny from.
func (t *taking) proposeAll(ctx context.Context, round int) ([]lane.Proposal, error) {
	proposals, err := t.propose(ctx, round, false)
	if denied, _ := findDenial(proposals); err == nil && denied {
		return t.propose(ctx, round, true)
	}
	return proposals, err
}

// propose decides the write of every level that is asked, for a call that was refused round times, and sends
// nothing. certain means that images too old to deny from are read again. It fails if a level's bucket or
// configuration cannot be read.
func (t *taking) propose(ctx context.Context, round int, certain bool) ([]lane.Proposal, error) {
	proposals := make([]lane.Proposal, len(t.levels))
	for i := range t.levels {
		lv, p := &t.levels[i], &proposals[i]
		if lv.isSkipped() {
			continue
		}
		var err error
		beside := lane.BesideOf(lv.lane)
		if *p, err = beside.Propose(ctx, lv.cfg, lv.asked, lv.model, t.by, round, certain); err != nil {
			return nil, t.desk.Table.reasonAt(lv.lane, err)
		}
	}
	return proposals, nil
}

// findDenial reports whether the proposal of some level does not fit. alone means that such a level must decide
// by itself: it has a newer configuration to write, or a give-back to it is in flight.
func findDenial(proposals []lane.Proposal) (denied, alone bool) {
	for i := range proposals {
		p := &proposals[i]
		denied = denied || p.Waits
		alone = alone || p.Waits && (p.Returning || p.View.Adopt && p.View.Image != nil)
	}
	return denied, alone
}

// denyProposed returns the denial of a call with a level whose take does not fit. It stores the levels'
// readings for the balances, under the configurations in force.
func (t *taking) denyProposed(proposals []lane.Proposal) error {
	for i := range proposals {
		if v := proposals[i].View; v.Config != nil {
			t.levels[i].noteAnswer(lane.Result{Image: v.Projected(), Config: v.Config, Now: v.Now, Before: plan.Precedence{Left: proposals[i].Left}})
		}
	}
	return t.levels.denial(t.request)
}

// concludeTogether ends a call whose transaction failed with err, and returns the reason, or caller's error if
// that has ended. If nothing was answered and time is left, it charges each level by itself instead, side by
// side, and returns nil if that succeeds. The transaction's charges are given back.
func (t *taking) concludeTogether(ctx, caller context.Context, err error) error {
	if caller.Err() != nil {
		return caller.Err()
	}
	if ctx.Err() != nil && !isRefusal(err) && !isSilent(err) && !ddb.Classify(err, context.Background()).Answered {
		err = t.timeOverError(err)
	}
	if !leftToPolicy(err) || !time.Now().Before(t.patience.until) {
		ops := make([]*lane.Op, len(t.levels))
		for i := range ops {
			ops[i] = &lane.Op{Result: lane.Result{Err: err}}
		}
		return t.finishTake(caller, ops, Refuse)
	}
	if err := t.admitSilent(); err != nil {
		return err
	}
	t.patience.began = time.Now() // each level gets the time that is left
	return t.takeSideBySide(caller)
}

// timeOverError returns the *UnavailableError of a call after its time for the store. It is a silence if every
// asked bucket was silent for long enough. err is its last error.
func (t *taking) timeOverError(err error) error {
	for i := range t.levels {
		if lv := &t.levels[i]; !lv.isSkipped() && lv.lane.Contact.Quiet(t.patience.began) < leastSilence {
			return &fault.UnavailableError{Op: "acquire", Err: outOfTimeFor(err)}
		}
	}
	return t.desk.Table.unanswered(errOutOfTime)
}
