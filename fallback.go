package dynalimit

import (
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/levels"
)

// fallbackLimits are Options.Limits. The bucket configuration made from them is kept
// with the resolved configuration of an entity that has no limits of its own. Nil is a
// limiter without limits of its own.
type fallbackLimits struct {
	limits   []Limit
	compiled plan.Config
}

// newFallback makes the limits of a limiter; nil of none.
func newFallback(limits []Limit) *fallbackLimits {
	if len(limits) == 0 {
		return nil
	}
	return &fallbackLimits{limits: limits, compiled: *newBucketConfig(limits, levels.Options, false, 0, 0)}
}

// compile returns the configuration of a bucket that a call charges; nil if nothing limits it.
// Where the call charges it as a parent's, limits that were not made for the parent or its plan
// are not charged.
func (f *fallbackLimits) compile(r *resolvedConfig, parent bool) *plan.Config {
	if parent {
		return r.parentConfig()
	}
	if len(r.limits) > 0 {
		return r.compiled
	}
	if f == nil || r.unlimited && !r.counted || r.group {
		return nil
	}
	if known := r.fallback.Load(); known != nil && known.from == f {
		return &known.cfg
	}
	c := &compiledFallback{from: f, cfg: f.compiled}
	c.cfg.ReadAt, c.cfg.Tick = r.readAt, r.tick
	if r.counted {
		c.cfg.Shadow = 1<<len(c.cfg.Limits) - 1
		c.cfg.ChangeOrigin(func(o *plan.Origin) { o.Counted = c.cfg.Shadow })
	}
	if r.givenPlan() != nil {
		c.cfg.ChangeOrigin(func(o *plan.Origin) { o.Given = true })
	}
	r.fallback.Store(c)
	return &c.cfg
}

// parentConfig is the bucket configuration for calls of children; nil if they charge nothing.
func (c *resolvedConfig) parentConfig() *plan.Config {
	known := c.asParent.Load()
	if known == nil {
		known = &plan.Config{Parent: true}
		if c.compiled != nil {
			*known = *c.compiled
			known.Parent = true
			if after := c.afterRaise(); after != nil {
				known.ChangeOrigin(func(o *plan.Origin) {
					o.Phase = &plan.Phase{Since: o.Phase.Since, Until: o.Phase.Until, After: after.parentConfig()}
				})
			}
		}
		for i := range known.Limits {
			if !levels.Level(known.Limits[i].Level).IsOwn() {
				known.Uncharged |= 1 << i
			}
		}
		c.asParent.Store(known)
	}
	if known.Uncharged == 1<<len(known.Limits)-1 {
		return nil
	}
	return known
}

// compiledFallback is a bucket configuration made from a limiter's own limits.
type compiledFallback struct {
	from *fallbackLimits
	cfg  plan.Config
}
