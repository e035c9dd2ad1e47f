package config

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// withRaises returns a configuration with the raises that are in force from an instant on, in Unix ms; c itself
// without such raises. It is linked to the configurations that follow the end of each raise. c is the
// configuration without raises.
func (c *Resolved) withRaises(v *Verdict, from int64) *Resolved {
	inForce, _, ends := v.At(from)
	if ends == 0 {
		return c
	}
	after, compiled := c.withRaises(v, ends), *c.Limits
	compiled.Limits = slices.Clone(c.Limits.Limits)
	for i, l := range inForce {
		compiled.Limits[i] = bucketLimit(l.ConfigLimit, l.Source)
	}
	compiled.Fingerprint = fingerprint(compiled.Limits, c.Permanent)
	compiled.ChangeOrigin(func(o *plan.Origin) { o.Phase = &plan.Phase{Until: ends, After: after.Limits} })
	after.Limits.ChangeOrigin(func(o *plan.Origin) {
		if o.Phase == nil {
			o.Phase = &plan.Phase{}
		}
		o.Phase.Since = ends
	})
	return &Resolved{
		Kind: c.Kind, ParentID: c.ParentID, ReadAt: c.ReadAt, Tick: c.Tick, elder: c.elder, Limits: &compiled,
		seldom: &seldom{after: after, given: c.givenPlan()},
	}
}

// hasRaiseEnded reports whether the first end of a raise has passed by the clock now, which returns Unix ms. It
// is false without a raise. c.seldom must not be nil.
func (c *Resolved) hasRaiseEnded(now func() int64) bool {
	return c.seldom.after != nil && now() >= c.Limits.From().Phase.Until
}

// inForce returns the configuration that follows the raises of cfg that may have ended by DynamoDB's clock; cfg
// itself if none has.
func (c *Cache) inForce(cfg *Resolved) *Resolved {
	for cfg.seldom != nil && cfg.hasRaiseEnded(c.clock.LatestMS) {
		cfg = cfg.seldom.after
	}
	return cfg
}
