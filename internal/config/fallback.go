package config

import (
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// Fallback is the limits of a limiter (Options.Limits). The bucket configuration made from them is cached
// with the resolved configuration of an entity that has no limits of its own. Nil is a limiter without limits
// of its own.
type Fallback struct{ compiled plan.Config }

// NewFallback makes a Fallback from limits that schema.CheckLimits returned; nil for an empty list.
func NewFallback(limits []schema.ConfigLimit) *Fallback {
	if len(limits) == 0 {
		return nil
	}
	return &Fallback{compiled: *Compile(limits, sources.Options, false, 0, 0)}
}

// At returns the limits as the configuration of a bucket, with the given stamps of a read.
func (f *Fallback) At(readAt, tick int64) *plan.Config {
	c := f.compiled
	c.ReadAt, c.Tick = readAt, tick
	return &c
}

// LimitsOf returns the configuration of a bucket that a call charges; nil if the bucket has no limits. If the
// call charges it as a parent's, it charges only the limits made for the parent or its plan.
func (f *Fallback) LimitsOf(r *Resolved, parent bool) *plan.Config {
	if parent {
		return r.parentConfig()
	}
	if r.Limits != nil {
		return r.Limits
	}
	if f == nil || r.Unlimited && !r.Counted || r.Group {
		return nil
	}
	if known := r.fallback.Load(); known != nil && known.from == f {
		return &known.cfg
	}
	c := &compiledFallback{from: f, cfg: *f.At(r.ReadAt, r.Tick)}
	if r.Counted {
		c.cfg.Shadow = 1<<len(c.cfg.Limits) - 1
		c.cfg.ChangeOrigin(func(o *plan.Origin) { o.Counted = c.cfg.Shadow })
	}
	if r.seldom != nil && r.seldom.given != nil {
		c.cfg.ChangeOrigin(func(o *plan.Origin) { o.Given = true })
	}
	r.fallback.Store(c)
	return &c.cfg
}

// compiledFallback is a bucket configuration made from a limiter's own limits.
type compiledFallback struct {
	from *Fallback
	cfg  plan.Config
}

// Replaced reports whether a limit is one of the limiter's own and stored sources replace those.
func (f *Fallback) Replaced(n *Named, name string) bool {
	if f == nil || len(n.Buckets) == 0 {
		return false
	}
	won := wonBy(n.Buckets[0].Config)
	return won != sources.Options && won != sources.Override && f.compiled.Index(name) >= 0
}
