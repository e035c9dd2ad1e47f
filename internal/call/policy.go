package call

import (
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// The outage policy of an acquire, applied once a level: Refuse fails, Allow admits, Local asks the
// process's share of the limits. Admitted amounts are counted: when the bucket answers, they are added
// to its counter and never taken from its tokens.

// admitSilent applies the policy to the levels whose buckets are known not to answer, before any other level is
// asked, and marks them as unasked. It skips levels served from memory. It returns an *UnavailableError under
// Refuse, and the denial of the process's share, which then gets its other amounts back.
func (t *taking) admitSilent() error {
	for i := range t.levels {
		lv := &t.levels[i]
		if lv.isSkipped() || !lv.lane.Contact.Away() {
			continue
		}
		if !lv.policyOf(t.policy).Admits() {
			return t.desk.Table.away()
		}
		if err := t.admitByPolicy(lv); err != nil {
			t.undoLocal()
			return err
		}
		lv.unasked, t.unasked = true, true
	}
	return nil
}

// admitByPolicy admits at a level without its bucket, and marks it degraded: Allow admits all, Local asks the
// process's share. The error is the denial of the share, or a *fault.UnavailableError without room for a share.
func (t *taking) admitByPolicy(lv *level) error {
	lv.degraded = true
	beside := lane.BesideOf(lv.lane)
	if lv.policyOf(t.policy) == Allow {
		lv.noteAnswer(beside.LastResult(lv.cfg))
		return nil
	}
	r, admitted, room := beside.AdmitLocally(lv.asked, lv.cfg, t.desk.Share, t.by.Batch, t.desk.NowMS())
	if !room {
		return t.desk.Table.away()
	}
	lv.noteAnswer(r)
	if lv.local = admitted; !admitted {
		return t.levels.denial(t.request)
	}
	return nil
}

// admitFailed applies the policy to the levels whose buckets did not answer in time, and counts the admitted
// amounts. If the process's share denies, it books nothing and returns the denial. The failed write is not sent
// again, and amounts that it took are given back once its outcome is known.
func (t *taking) admitFailed(ops []*lane.Op) error {
	for i, o := range ops {
		lv := &t.levels[i]
		if lv.isSkipped() || o.Result.Err == nil {
			continue
		}
		if err := t.admitByPolicy(lv); err != nil {
			t.undoLocal()
			return err
		}
	}
	for i, o := range ops {
		lv := &t.levels[i]
		if lv.isSkipped() || o.Result.Err == nil {
			continue
		}
		t.countAdmitted(lv)
		switch r := o.Result; {
		case r.Pending:
			lv.lane.Follow(o)
		case r.Unconfirmed:
			t.desk.Lanes.Doubt(lv.asked)
		}
	}
	return nil
}

// undoLocal gives the amounts that the process's share admitted for a failed acquire, slots included, back to
// the share, and unmarks their levels as local.
func (t *taking) undoLocal() {
	for i := range t.levels {
		if lv := &t.levels[i]; lv.local {
			lv.local = false
			lv.changeLocally(plan.Negated(lv.asked), t.desk.Share, t.desk.NowMS())
			t.leaveSlots(lv)
		}
	}
}

// countAdmitted books the amounts that the policy admitted at a level in the lease, and queues them for the
// bucket's counter. If the limiter was closed meanwhile, they count as dropped.
func (t *taking) countAdmitted(lv *level) {
	if lv.local {
		t.leaveSlots(lv) // they are counted next
	}
	if _, kept := lv.countAmounts(t.desk.Lanes, &t.desk.Observer, lv.asked); !kept {
		t.desk.Lanes.Drop(lv.asked)
	}
}

// leaveSlots takes the slots that the process's share admitted at a level off the process's open slots of that
// bucket. It does nothing without slots.
func (t *taking) leaveSlots(lv *level) {
	if lv.cfg.NamesSlots(lv.asked) {
		t.desk.Lanes.SlotsOf(lv.lane).LeaveLocal(lv.asked, lv.cfg)
	}
}
