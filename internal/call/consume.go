package call

import (
	"context"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Consume takes further amounts, in whole tokens, under the configuration in force and adds them to the lease's
// use; a denial changes nothing. If the lease has no known buckets, the policy may admit them without. memory
// reports a decision from memory, and err is a reason; held is locked, and released meanwhile.
func (c *Call) Consume(ctx context.Context, amounts map[string]int64, held sync.Locker) (memory bool, err error) {
	if c.IsUnlocated() {
		if err := c.locateLevels(ctx, held); leftToPolicy(err) && c.policy.Admits() {
			return false, c.consumeUnlocated(amounts)
		} else if err != nil {
			return false, err
		}
	}
	for i := range c.levels {
		if lv := &c.levels[i]; len(lv.underWay) > 0 {
			lv.resolveUnderWay(c.desk.Lanes, &c.desk.Observer) // before another bucket may be taken from
		}
	}
	if err := c.refreshConfigs(ctx, amounts, held); err != nil {
		return false, err
	}
	if err := c.checkTarget(c.knownAmounts(plan.Plus(c.consumed, SignedOf(amounts))), true); err != nil {
		return false, err
	}
	further, memory, err := c.takeFurther(ctx, amounts, held)
	if err != nil {
		return memory, err
	}
	for i := range c.levels {
		c.levels[i].addTake(&further.levels[i])
	}
	for name := range amounts { // also of a newer configuration than its own
		c.slots = c.slots || further.levels.hasSlots(name)
	}
	consumed := plan.Plus(c.consumed, c.knownAmounts(SignedOf(amounts)))
	c.Conclude(consumed, false)
	c.bringAlong(ctx, amounts, held)
	return memory, nil
}

// bringAlong charges further amounts also at levels that hold tokens of a limit which their configuration no
// longer has. Otherwise totals miss those amounts, because the levels below mark their use as passed on. A
// failed write is left to the next correction; held is locked, and released meanwhile.
func (c *Call) bringAlong(ctx context.Context, amounts map[string]int64, held sync.Locker) {
	left := func(lv level) bool {
		return slices.ContainsFunc(lv.holdings, func(h backlog.Holding) bool { return amounts[h.Name] > 0 && !lv.cfg.Charges(h.Name) })
	}
	if !slices.ContainsFunc(c.levels, left) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.desk.Cleanup)
	defer cancel()
	k := c.Begin(ctx, c.consumed)
	k.Send(ctx, held)
	_, _ = k.Book()
}

// takeFurther takes amounts, in whole tokens, at the lease's levels, without its lock, and returns a call with
// them alone; the lease's holdings stay. memory reports whether they were served or denied from memory. The
// error is a reason.
func (c *Call) takeFurther(ctx context.Context, amounts map[string]int64, held sync.Locker) (further *Call, memory bool, err error) {
	r := c.request
	r.Amounts = amounts
	further = &Call{desk: c.desk, request: r, charged: charged{policy: c.policy, unlimited: c.unlimited}}
	for i := range c.levels {
		further.addLevel(c.levels[i].lane, c.levels[i].cfg, amounts)
		further.levels[i].model = c.levels[i].model.Further(c.levels[i].hasWritten())
	}
	if c.renewed {
		c.tops = c.levels.placeCounts(c.tops, SignedOf(amounts))
	}
	if len(further.levels) > 1 {
		further.levels.passOn(func(i int, limit string) bool { return c.levels.countsAbove(c.tops, i, limit) })
	}
	held.Unlock()
	defer held.Lock()
	further.tops = c.tops // further takes count at the same levels as the lease, and their undo too
	for i := range c.levels {
		further.levels[i].counts = c.levels[i].counts
	}
	t := further.startTake(nil, patience{most: c.desk.Timeout})
	if c.desk.Lanes.Horizon != nil && !r.Batch && c.desk.mayServe(&r, len(further.levels)) && further.levels.serve(ctx) {
		further.levels.bookServed()
		return further, true, nil
	}
	if denied, memory := t.denyFromMemory(ctx, c.desk.NowMS()); denied != nil {
		return nil, memory, denied
	}
	if further.levels == nil {
		return further, false, nil
	}
	return further, false, t.take(ctx)
}

// consumeUnlocated admits further amounts, in whole tokens, without known buckets: it adds them to the use, and
// queues them for the buckets' counters. It returns ErrClosed if the limiter is closed, and a *config.Invalid
// for bad amounts.
func (c *Call) consumeUnlocated(amounts map[string]int64) error {
	target := plan.Plus(c.consumed, SignedOf(amounts))
	if err := c.checkTarget(target, true); err != nil {
		return err
	}
	if !c.countUnlocated(c.consumed, target, false) {
		return ErrClosed
	}
	c.consumed = target
	return nil
}

// refreshConfigs gives every level the configuration in force, because the amounts are admitted now. If it
// cannot be read, Refuse fails and the other policies use the known one. It returns the error of a block, and
// of a limit in amounts that does not exist; held is released meanwhile.
func (c *Call) refreshConfigs(ctx context.Context, amounts map[string]int64, held sync.Locker) error {
	var block error
	runUnlocked(held, func() { _, _, block = c.desk.Routes.blockFor(ctx, &c.request, config.Key{}) })
	if block != nil {
		return block
	}
	if err := c.renewConfigs(ctx, c.policy.Admits(), held); err != nil {
		return err
	}
	if c.skipsUnknown() {
		return nil
	}
	for name := range amounts {
		if named := c.request.namedLimits(c.levels.namedBuckets(), c.unlimited); !named.Lifts(name) && !named.Charges(name) {
			return c.desk.Routes.fallback.UnknownLimitError(named, name)
		}
	}
	return nil
}
