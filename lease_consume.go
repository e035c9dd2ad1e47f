package dynalimit

import (
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/observe"
)

// Consume takes further amounts. It may be denied as an Acquire may; a denial leaves the
// lease unchanged. It is refused while the entity is blocked. Errors as of Acquire, and
// ErrLeaseEnded.
func (lease *Lease) Consume(ctx context.Context, amounts Amounts) (err error) {
	if err := lease.usable(ctx); err != nil {
		return err
	}
	if err := checkAmounts(amounts, false); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var heard *heardCorrection
	defer func() {
		if heard != nil {
			heard.tell(ctx, err) // once finish has released the lock
		}
	}()
	switch begun, over := lease.begin(ctx, false); {
	case over:
		return ErrLeaseEnded
	case !begun:
		return ctx.Err()
	}
	defer lease.finish()
	var began *heardCorrection
	if lease.held().desk.observer.Corrected != nil {
		began = hearCorrection(observe.CorrectionConsume, lease.held())
	}
	err = lease.consume(ctx, amounts)
	if began != nil && (err == nil || failedOnTheWay(ctx, err)) { // denials are reported already
		heard = began
		heard.note(lease.charge.consumed)
	}
	return err
}

// consume takes further amounts. lease.mu is held; it is released meanwhile.
func (lease *Lease) consume(ctx context.Context, amounts Amounts) error {
	c := lease.held()
	if c.levels == nil && !c.unlimited {
		if err := lease.locate(ctx); leftToPolicy(err) && c.policy.admits() {
			return lease.consumeUnlocated(amounts)
		} else if err != nil {
			return err
		}
	}
	for i := range c.levels {
		if lv := &c.levels[i]; len(lv.underWay) > 0 {
			lv.resolve(c.desk.lanes, &c.desk.observer) // before another bucket may be taken from
		}
	}
	if err := lease.refresh(ctx, amounts); err != nil {
		return err
	}
	if err := c.checkTarget(c.known(plan.Plus(c.consumed, signedOf(amounts)))); err != nil {
		return err
	}
	further, err := lease.takeFurther(ctx, amounts)
	if err != nil {
		return err
	}
	for i := range c.levels {
		c.levels[i].join(&further.levels[i])
	}
	c.consumed = plan.Plus(c.consumed, c.known(signedOf(amounts)))
	lease.bringAlong(ctx, amounts)
	return nil
}

// bringAlong charges further amounts also at levels that hold tokens of a limit which their
// configuration no longer has. Otherwise totals miss those amounts, because the levels below mark their
// use as passed on to them. The next correction makes up for a failed write.
func (lease *Lease) bringAlong(ctx context.Context, amounts Amounts) {
	c := lease.charge
	left := func(lv level) bool {
		return slices.ContainsFunc(lv.holdings, func(h backlog.Holding) bool { return amounts[h.Name] > 0 && !lv.cfg.Charges(h.Name) })
	}
	if !slices.ContainsFunc(c.levels, left) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.desk.cleanup)
	defer cancel()
	k := c.correct(ctx, c.consumed)
	k.send(ctx, &lease.mu)
	_, _ = k.book()
}

// takeFurther takes amounts at the levels of the lease, without its lock.
func (lease *Lease) takeFurther(ctx context.Context, amounts Amounts) (*charge, error) {
	c := lease.charge
	asked := cascade{unlimited: c.unlimited}
	for i := range c.levels {
		asked = asked.with(c.levels[i].lane, c.levels[i].cfg, amounts)
	}
	if c.hasRenewedLevel() {
		c.placeCounts(signedOf(amounts))
	}
	if len(asked.rungs) > 1 {
		asked.passOn(c.passes)
	}
	r, further := c.request, &charge{}
	r.amounts = amounts
	lease.mu.Unlock()
	defer lease.mu.Lock()
	served := c.desk.lanes.Horizon != nil && c.desk.serves(&r, &asked) && asked.serve(ctx)
	if !served {
		if memory, err := asked.recall(ctx, &r, position{}, c.desk.nowMS()); err != nil {
			if c.desk.observer.Denied != nil {
				c.desk.tellDenied(ctx, err, memory)
			}
			return nil, err
		}
	}
	further.open(c.desk, &r, &asked, c.policy)
	further.countAs(c)
	if served {
		further.bookServed()
		return further, nil
	}
	t := taking{charge: further, patience: patience{most: c.desk.timeout}}
	err := t.take(ctx)
	if err != nil && c.desk.observer.Denied != nil {
		c.desk.tellDenied(ctx, err, false)
	}
	return further, err
}

// consumeUnlocated admits further amounts while the configuration cannot be read.
func (lease *Lease) consumeUnlocated(amounts Amounts) error {
	c := lease.charge
	target := plan.Plus(c.consumed, signedOf(amounts))
	if err := c.checkTarget(target); err != nil {
		return err
	}
	if !c.countUnlocated(c.consumed, target) {
		return ErrClosed
	}
	c.consumed = target
	return nil
}

// refresh applies the configuration in force to every level, because the lease may be old and the
// amounts are admitted now. If the configuration cannot be read, Refuse fails and the other policies use
// the known one.
func (lease *Lease) refresh(ctx context.Context, amounts Amounts) error {
	c := lease.charge
	var block error
	lease.unlocked(func() { _, _, block = c.desk.routes.blockFor(ctx, &c.request, config.Key{}) })
	if block != nil {
		return block
	}
	if err := lease.renew(ctx, c.policy.admits()); err != nil {
		return err
	}
	if c.passesOver() {
		return nil
	}
	for name := range amounts {
		if named := c.request.named(namedBuckets(c.levels), c.unlimited); !named.Lifts(name) && !named.Charges(name) {
			return refusedBy(c.desk.routes.fallback.UnknownLimit(named, name))
		}
	}
	return nil
}

// renew gives every level with limits the configuration in force. If that cannot be read, the known one
// stays. It returns the error unless it is tolerated.
func (lease *Lease) renew(ctx context.Context, tolerant bool) (err error) {
	c := lease.charge
	type reading struct {
		cfg             *plan.Config
		unlimited, read bool
	}
	found := make([]reading, len(c.levels))
	lease.unlocked(func() {
		for i := range c.levels {
			cfg, unlimited, failed := c.desk.routes.configOf(ctx, &c.request, c.levels[i].place(&c.request))
			if failed != nil && !(tolerant && unavailable(failed)) {
				err = failed
				return
			}
			found[i] = reading{cfg, unlimited, failed == nil}
		}
	})
	if err != nil {
		return err
	}
	for i, r := range found {
		if r.read {
			c.unlimited = c.unlimited || r.unlimited
			c.levels[i].renewed(r.cfg, r.unlimited)
		}
	}
	return nil
}

// renewed gives a level a newly read configuration; cfg is nil if nothing limits it.
func (lv *level) renewed(cfg *plan.Config, unlimited bool) {
	switch {
	case cfg != nil:
		lv.cfg = cfg
	case lv.cfg.OfGroup() || lv.cfg.Parent || unlimited: // nothing further is taken from it
		lv.cfg = &plan.Config{Group: lv.cfg.OfGroup(), Parent: lv.cfg.Parent}
	}
}

// recognise applies the configuration in force to the levels if they lack a limit of the target: the
// limit may be new, or back. It keeps the known configuration if the read fails.
func (lease *Lease) recognise(ctx context.Context, target []plan.Signed) {
	c := lease.charge
	lacks := func(t plan.Signed) bool {
		went := func(lv level) bool { return lv.knows(t.Name) && !lv.cfg.Charges(t.Name) && lv.used(t.Name) < t.Amount }
		return t.Amount > 0 && (!c.unlimited && !c.has(t.Name) || slices.ContainsFunc(c.levels, went))
	}
	if len(c.levels) == 0 || !slices.ContainsFunc(target, lacks) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.desk.timeout)
	defer cancel()
	_ = lease.renew(ctx, true) // the known configuration will do
}
