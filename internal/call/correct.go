package call

import (
	"context"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Target returns the amounts that a lease shall hold after a correction, by change, and refuses bad ones. It
// reads the configuration if a limit of them is not known. ends means that the lease ends. held is locked; it is
// released meanwhile.
func (c *Call) Target(ctx context.Context, change func(consumed []plan.Signed) []plan.Signed, ends bool, held sync.Locker) ([]plan.Signed, error) {
	target := change(c.consumed)
	if c.slots {
		var err error
		if target, err = c.levels.changeSlots(c.consumed, target, ends); err != nil {
			return nil, err
		}
	}
	unknown := slices.ContainsFunc(target, func(a plan.Signed) bool { return !c.levels.has(a.Name) })
	if unknown || c.levels.hasRenewed() {
		c.recogniseLimits(ctx, target, held)
		target = c.known(target)
	}
	return target, c.checkTarget(target, unknown)
}

// TargetNow is Target without a read.
func (c *Call) TargetNow(change func(consumed []plan.Signed) []plan.Signed) ([]plan.Signed, error) {
	target := change(c.consumed)
	if c.slots {
		target, _ = c.levels.changeSlots(c.consumed, target, true)
	}
	target = c.known(target)
	return target, c.checkTarget(target, true)
}

// Correct brings every level to a target, which Conclude then stores. final means that no further correction
// follows, and ends that the lease ends. done means that the caller has nothing left to do: the correction is complete, though perhaps
// unconfirmed at a level. held is locked; it is released meanwhile.
func (c *Call) Correct(ctx context.Context, target []plan.Signed, final, ends bool, held sync.Locker) (done bool, err error) {
	if len(c.levels) == 0 && c.IsUnlocated() {
		err := c.locateLevels(ctx, held)
		if err != nil && leftToPolicy(err) && c.countUnlocated(c.consumed, target) {
			return true, nil
		}
		if err != nil {
			change := plan.Plus(target, plan.Negated(c.consumed))
			return false, &Unconfirmed{Entity: c.request.Entity, Resource: c.request.Resource, Amounts: change, Err: err, NotWritten: true}
		}
		if c.slots && ends { // Target did not know them
			target, _ = c.levels.changeSlots(c.consumed, target, true)
		}
	}
	k := c.Begin(ctx, target)
	k.final = final
	k.Send(ctx, held)
	return k.Book()
}

// Conclude stores the amounts of a completed correction. ends means that the lease has ended.
func (c *Call) Conclude(target []plan.Signed, ends bool) {
	if c.consumed = target; ends && c.estimates != nil {
		c.estimates.removeAll()
	}
}

// locateLevels finds the levels of a lease that was granted while the configuration could not be read. held is
// locked; it is released meanwhile.
func (c *Call) locateLevels(ctx context.Context, held sync.Locker) error {
	var found charged
	var err error
	runUnlocked(held, func() { err = c.desk.Routes.find(ctx, &c.request, &found, nil) })
	if err == nil {
		c.setLocated(&found)
	}
	return err
}

// checkTarget refuses amounts below 0 or above the maximum and, if unknown is set, limits that no level has.
func (c *Call) checkTarget(target []plan.Signed, unknown bool) error {
	for _, t := range target {
		if unknown && t.Amount != 0 && c.levels != nil && !c.levels.has(t.Name) {
			return c.desk.Routes.fallback.UnknownLimit(c.request.named(c.levels.namedBuckets(), c.unlimited), t.Name)
		}
		if t.Amount < 0 {
			held, _ := plan.AmountOf(c.consumed, t.Name)
			return invalid("amounts["+t.Name+"]", "gives back %d more than the lease holds (%d)", -t.Amount/milli, held/milli)
		}
		if t.Amount > schema.MaxTokens*milli {
			return invalid("amounts["+t.Name+"]", "makes the lease %d tokens; at most %d are allowed", t.Amount/milli, int64(schema.MaxTokens))
		}
	}
	return nil
}

// countUnlocated counts the change of the used amounts from was to is, for buckets that are not known
// yet.
func (c *Call) countUnlocated(was, is []plan.Signed) bool {
	change := plan.Plus(is, plan.Negated(was))
	change = slices.DeleteFunc(slices.Clone(change), func(a plan.Signed) bool { return a.Amount == 0 })
	return c.desk.Lanes.CountUnlocated(c.request.Entity, c.request.Resource, c.request.Given.outage(), change)
}

// setLocated sets the levels of a call that was made while the configuration could not be read. The
// counter updates of the buckets are written or pending.
func (c *Call) setLocated(found *charged) {
	c.levels, c.unlimited, c.slots = found.levels, found.unlimited, found.slots
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

// Begin starts a correction of every level to a target.
func (c *Call) Begin(ctx context.Context, target []plan.Signed) Correction {
	if c.levels.hasRenewed() {
		c.tops = c.levels.placeCounts(c.tops, target)
	}
	k := Correction{desk: c.desk, policy: c.policy, levels: c.levels}
	k.makeOps(ctx, target, c.tops)
	return k
}
