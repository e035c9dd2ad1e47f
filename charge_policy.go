package dynalimit

import (
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// What an acquire does when a bucket does not answer. The policy decides, once a
// level: Block fails, Allow admits, Local asks the process's share of the limits.
// What a policy admits is counted: told to the bucket's counter when it answers, and
// never to its tokens.

// admitSilent decides at the levels whose buckets are known not to answer, before any
// other level is asked. What is served from memory needs no bucket. If the process's share
// denies, nothing has been written.
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

// policyOf returns the policy that decides while the bucket does not answer, of a call's own. A bucket
// that only counts is passed by, whatever that is.
func (lv *level) policyOf(call UnavailablePolicy) UnavailablePolicy {
	if lv.onlyCounts() {
		return Allow
	}
	return call
}

// onlyCounts reports whether the bucket only counts what is asked, because a level is unlimited.
func (lv *level) onlyCounts() bool { return lv.cfg.OnlyCounts(lv.asked) }

// admitByPolicy admits at a level without its bucket. The error is the denial of the
// process's share, or says that there is no room for one.
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

// admitFailed lets the policy decide at the levels whose buckets did not answer in time.
// If the process's share denies, it books nothing and returns the denial. What is admitted
// is counted. What a write may have taken all the same is given back, if it is ever known;
// the write is not sent again.
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

// undoLocal gives back what the process's share admitted to an acquire that failed as a
// whole.
func (c *charge) undoLocal() {
	for i := range c.levels {
		if lv := &c.levels[i]; lv.local {
			lv.local = false
			lv.changeLocally(plan.Negated(lv.asked), c.desk.share, c.desk.nowMS())
		}
	}
}

// countAdmitted counts what the policy admitted at a level. If the limiter was closed
// meanwhile, no bucket will be told.
func (c *charge) countAdmitted(lv *level) {
	if _, kept := lv.count(c.desk.lanes, &c.desk.observer, lv.asked); !kept {
		c.desk.lanes.Drop(lv.asked)
	}
}
