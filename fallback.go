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

// compile returns the configuration of a bucket; nil if nothing limits it.
func (f *fallbackLimits) compile(r *resolvedConfig) *plan.Config {
	if len(r.limits) > 0 {
		return r.compiled
	}
	if f == nil || r.unlimited || r.group {
		return nil
	}
	if known := r.fallback.Load(); known != nil && known.from == f {
		return &known.cfg
	}
	c := &compiledFallback{from: f, cfg: f.compiled}
	c.cfg.ReadAt, c.cfg.Tick = r.readAt, r.tick
	r.fallback.Store(c)
	return &c.cfg
}

// compiledFallback is a bucket configuration made from a limiter's own limits.
type compiledFallback struct {
	from *fallbackLimits
	cfg  plan.Config
}
