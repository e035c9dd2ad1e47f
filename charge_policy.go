package dynalimit

import (
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// The outage policy of an acquire, applied once a level: Refuse fails, Allow admits, Local asks the
// process's share of the limits. Admitted amounts are counted: when the bucket answers, they are added
// to its counter and never taken from its tokens.

// admitSilent applies the policy to the levels whose buckets are known not to answer, before any other
// level is asked. Amounts served from memory need no bucket. If the process's share denies, nothing has
// been written.
func (c *charge) admitSilent() error {
	for i := range c.levels {
		lv := &c.levels[i]
		if lv.skipped() || !lv.lane.Contact.Away() {
			continue
		}
		if !lv.policyOf(c.policy).admits() {
			return c.desk.table.away()
		}
		if err := c.admitByPolicy(lv); err != nil {
			c.undoLocal()
			return err
		}
		lv.unasked, c.unasked = true, true
	}
	return nil
}

// policyOf returns the policy for an outage of the level's bucket. call is the call's policy. It is
// always Allow at a bucket that only counts.
func (lv *level) policyOf(call UnavailablePolicy) UnavailablePolicy {
	if lv.onlyCounts() {
		return Allow
	}
	return call
}

// onlyCounts reports whether the bucket only counts the amounts, because a level is unlimited.
func (lv *level) onlyCounts() bool { return lv.cfg.OnlyCounts(lv.asked) }

// admitByPolicy admits at a level without its bucket. The error is the denial of the process's share,
// or an *UnavailableError if there is no room for a share.
func (c *charge) admitByPolicy(lv *level) error {
	lv.degraded = true
	beside := lane.BesideOf(lv.lane)
	if lv.policyOf(c.policy) == Allow {
		lv.noteAnswer(beside.Memory(lv.cfg))
		return nil
	}
	r, admitted, room := beside.AdmitLocally(lv.asked, lv.cfg, c.desk.share, c.desk.nowMS())
	if !room {
		return c.desk.table.away()
	}
	lv.noteAnswer(r)
	if lv.local = admitted; !admitted {
		return c.denial()
	}
	return nil
}

// admitFailed applies the policy to the levels whose buckets did not answer in time. If the process's
// share denies, it books nothing and returns the denial. It counts the admitted amounts. The failed
// write is not sent again, and amounts that it may have taken are given back if its outcome becomes
// known.
func (c *charge) admitFailed(ops []*lane.Op) error {
	for i, o := range ops {
		lv := &c.levels[i]
		if lv.skipped() || o.Result.Err == nil {
			continue
		}
		if err := c.admitByPolicy(lv); err != nil {
			c.undoLocal()
			return err
		}
	}
	for i, o := range ops {
		lv := &c.levels[i]
		if lv.skipped() || o.Result.Err == nil {
			continue
		}
		c.countAdmitted(lv)
		switch r := o.Result; {
		case r.Pending:
			lv.lane.Follow(o)
		case r.Unconfirmed:
			c.desk.lanes.Doubt(lv.asked)
		}
	}
	return nil
}

// undoLocal gives back the amounts that the process's share admitted to an acquire that failed as a
// whole.
func (c *charge) undoLocal() {
	for i := range c.levels {
		if lv := &c.levels[i]; lv.local {
			lv.local = false
			lv.changeLocally(plan.Negated(lv.asked), c.desk.share, c.desk.nowMS())
		}
	}
}

// countAdmitted counts the amounts that the policy admitted at a level. They are dropped if the limiter
// was closed meanwhile.
func (c *charge) countAdmitted(lv *level) {
	if _, kept := lv.count(c.desk.lanes, &c.desk.observer, lv.asked); !kept {
		c.desk.lanes.Drop(lv.asked)
	}
}
