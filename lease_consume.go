package dynalimit

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// Consume takes further amounts. It may be denied as an Acquire may; a denial leaves the
// lease unchanged. It is refused while the entity is blocked. Errors as of Acquire, and
// ErrLeaseEnded.
func (lease *Lease) Consume(ctx context.Context, amounts Amounts) error {
	if err := lease.usable(ctx); err != nil {
		return err
	}
	if err := checkAmounts(amounts, false); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !lease.begin(ctx) {
		return ctx.Err()
	}
	defer lease.finish()
	if lease.ended {
		return ErrLeaseEnded
	}
	return lease.consume(ctx, amounts)
}

// consume takes further amounts. The lease must be begun.
func (lease *Lease) consume(ctx context.Context, amounts Amounts) error {
	if err := lease.locate(ctx); leftToPolicy(err) && lease.policy.admits() {
		return lease.consumeUnlocated(amounts)
	} else if err != nil {
		return err
	}
	for i := range lease.levels {
		lease.levels[i].resolve() // before another bucket may be taken from
	}
	if err := lease.refresh(ctx, amounts); err != nil {
		return err
	}
	if err := lease.checkTarget(lease.known(plan.Plus(lease.consumed, signedOf(amounts)))); err != nil {
		return err
	}
	c := cascade{unlimited: lease.unlimited}
	for i := range lease.levels {
		c = c.with(lease.levels[i].lane, lease.levels[i].cfg, amounts)
	}
	c.passOn(lease)
	r := lease.request
	r.amounts = amounts
	var part *Lease
	var p patience
	var err error
	lease.unlocked(func() { part, _, err = lease.limiter.charge(ctx, &r, &c, lease.policy, position{}, &p) })
	if err != nil {
		return err
	}
	for i := range lease.levels {
		lease.levels[i].join(&part.levels[i])
	}
	lease.consumed = plan.Plus(lease.consumed, part.consumed)
	return nil
}

// consumeUnlocated admits further amounts while the configuration cannot be read.
func (lease *Lease) consumeUnlocated(amounts Amounts) error {
	target := plan.Plus(lease.consumed, signedOf(amounts))
	if err := lease.checkTarget(target); err != nil {
		return err
	}
	if !lease.countUnlocated(target) {
		return ErrClosed
	}
	lease.consumed = target
	return nil
}

// join adds what a level took further.
func (lv *level) join(more *level) {
	if more.holds() {
		lv.noteIncarnation(more.incarnation)
	}
	for i := range more.holdings {
		lv.holding(more.holdings[i].Name).Join(&more.holdings[i])
	}
	lv.degraded = lv.degraded || more.degraded
	if more.answered {
		lv.last, lv.answered = more.last, true
	}
}

// refresh puts every level under the configuration in force, because the lease may be
// old and the amounts are admitted now. If the configuration cannot be read, Block fails
// and the other policies use the one that is known.
func (lease *Lease) refresh(ctx context.Context, amounts Amounts) error {
	var cfgs []*plan.Config
	var err error
	lease.unlocked(func() {
		if _, err = lease.limiter.blockFor(ctx, &lease.request); err == nil {
			cfgs, err = lease.configs(ctx)
		}
	})
	if err != nil {
		return err
	}
	for i, cfg := range cfgs {
		if cfg != nil {
			lease.levels[i].cfg = cfg
		}
	}
	if lease.passesOver() {
		return nil
	}
	for name := range amounts {
		if !slices.ContainsFunc(lease.levels, func(lv level) bool { return lv.cfg.Index(name) >= 0 }) {
			return lease.limiter.unknownLimit(&lease.request, name, configs(lease.levels))
		}
	}
	return nil
}

// configs are the configurations of the levels. One is nil if it cannot be read and the
// policy admits calls without it.
func (lease *Lease) configs(ctx context.Context) ([]*plan.Config, error) {
	cfgs := make([]*plan.Config, len(lease.levels))
	for i := range lease.levels {
		cfg, err := lease.limiter.configOf(ctx, &lease.request, lease.levels[i].lane.Entity)
		if err != nil && !(unavailable(err) && lease.policy.admits()) {
			return nil, err
		}
		cfgs[i] = cfg
	}
	return cfgs, nil
}

// configOf is the configuration of one level of a request; nil if nothing limits it.
func (l *RateLimiter) configOf(ctx context.Context, r *request, entity string) (*plan.Config, error) {
	resolved, _, _, err := l.store.config(ctx, entity, r.resource, time.Time{})
	if err != nil {
		return nil, err
	}
	return l.levelConfig(r, entity, resolved)
}
