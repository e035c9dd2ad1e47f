package dynalimit

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// Consume takes further amounts, which may be denied like an Acquire's. A denial
// leaves the lease as it was. Errors as of Acquire, and ErrLeaseEnded.
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

// consume takes further amounts; the lease is begun.
func (lease *Lease) consume(ctx context.Context, amounts Amounts) error {
	unlocated := lease.levels == nil
	if err := lease.locate(ctx); unavailable(err) && lease.policy.admits() {
		return lease.consumeUnlocated(amounts)
	} else if err != nil {
		return err
	}
	if unlocated {
		lease.oweConsumed()
	}
	if err := lease.refresh(ctx, amounts); err != nil {
		return err
	}
	if err := lease.checkTarget(plan.Plus(lease.consumed, signedOf(amounts))); err != nil {
		return err
	}
	var c cascade
	for i := range lease.levels {
		c = c.with(lease.levels[i].lane, lease.levels[i].cfg, amounts)
	}
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

// oweConsumed owes the levels what was admitted while not even they were known.
func (lease *Lease) oweConsumed() {
	for i := range lease.levels {
		lv := &lease.levels[i]
		var has []plan.Signed
		for _, a := range lease.consumed {
			if a.Amount > 0 && lv.has(a.Name) {
				has = append(has, a)
			}
		}
		lease.limiter.owe(lv, has)
	}
}

// consumeUnlocated admits what a lease consumes while not even the configuration can be
// read.
func (lease *Lease) consumeUnlocated(amounts Amounts) error {
	target := plan.Plus(lease.consumed, signedOf(amounts))
	if err := lease.checkTarget(target); err != nil {
		return err
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
	lv.degraded, lv.local = lv.degraded || more.degraded, lv.local || more.local
	if more.answered {
		lv.last, lv.answered = more.last, true
	}
}

// refresh brings every level the configuration in force: a lease may be old, and
// what it takes now is admitted now. Unless the policy blocks, one that cannot be
// read is the one known.
func (lease *Lease) refresh(ctx context.Context, amounts Amounts) error {
	var cfgs []*plan.Config
	var err error
	lease.unlocked(func() { cfgs, err = lease.configs(ctx) })
	if err != nil {
		return err
	}
	for i, cfg := range cfgs {
		if cfg != nil {
			lease.levels[i].cfg = cfg
		}
	}
	for name := range amounts {
		if !slices.ContainsFunc(lease.levels, func(lv level) bool { return lv.cfg.Index(name) >= 0 }) {
			return lease.request.unknownLimit(name, configs(lease.levels))
		}
	}
	return nil
}

// configs are the configurations of the levels; nil for one that cannot be read
// while the policy admits.
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

// configOf is the configuration of one level of a request; nil when nothing
// limits it.
func (l *RateLimiter) configOf(ctx context.Context, r *request, entity string) (*plan.Config, error) {
	resolved, _, _, err := l.store.config(ctx, entity, r.resource, time.Time{})
	if err != nil {
		return nil, err
	}
	return l.levelConfig(r, entity, resolved)
}
