package dynalimit

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/levels"
)

// What a call may name: limits that some level has.

// checkKnown refuses amounts of limits that no level has: otherwise a misspelt name would be
// admitted for ever. It refuses a limit that a bucket of the entity itself has at a level which is
// not in force there, even if another bucket has it: it would be lifted unseen. With
// WithIgnoreUnknown it lets the other unknown ones pass, but some level has to have one of the
// call's limits.
func (f *fallbackLimits) checkKnown(r *request, c *cascade) error {
	if len(c.rungs) == 0 {
		if c.unlimited {
			return nil
		}
		return invalid("limits", "none are configured for entity %q on resource %q at any level; set some with admin.Limits.Set, with Options.Limits or with WithLimits", r.entity, r.resource)
	}
	known, cfgs := 0, c.configs()
	for name := range r.amounts {
		switch {
		case c.hides(r.entity, name):
			return f.unknownLimit(r, name, cfgs)
		case c.has(name) || c.unlimited || lifts(cfgs, name):
			known++
		case !r.opts.ignoreUnknown || f.replaces(name, cfgs) != "":
			return f.unknownLimit(r, name, cfgs)
		}
	}
	if known == 0 && len(r.amounts) > 0 { // nothing would limit the call
		return f.unknownLimit(r, r.amounts.names()[0], cfgs)
	}
	return nil
}

// unknownLimit is the error for a limit that no level in force has. It names the limits
// there are and, if a less specific level has it, the list that replaces that one.
func (f *fallbackLimits) unknownLimit(r *request, name string, cfgs []*plan.Config) error {
	field := "amounts[" + name + "]"
	if len(cfgs) == 0 {
		return invalid(field, "is not a limit of entity %q on resource %q, which have none", r.entity, r.resource)
	}
	won, hidden := wonBy(cfgs[0]), f.replaces(name, cfgs)
	for _, cfg := range cfgs {
		if h := hiddenIn(cfg, name); h != nil {
			won, hidden = wonBy(cfg), levels.Level(h.Level)
			break
		}
	}
	why, fix := config.Unknown(won)
	if hidden != "" {
		why, fix = config.NotInForce(won, hidden)
	}
	unknown := invalid(field, "is not a limit of entity %q on resource %q; the limits are %q; %s", r.entity, r.resource, limitNames(cfgs), why)
	unknown.Fix = fix
	return unknown
}

// wonBy is the most specific level that a configuration's limits come from; WithLimits adds only
// its own to them.
func wonBy(cfg *plan.Config) levels.Level { return levels.Level(cfg.From().Level) }

// hiddenIn is a limit that a configuration's less specific levels have and that is not in force;
// nil if it is, or if no level has it.
func hiddenIn(cfg *plan.Config, name string) *plan.Hidden {
	for i := range cfg.From().Hidden {
		if h := &cfg.From().Hidden[i]; h.Name == name && cfg.Index(name) < 0 {
			return h
		}
	}
	return nil
}

// hides reports whether a bucket of the entity has a limit at a level that is not in force there.
func (c *cascade) hides(entity, name string) bool {
	return slices.ContainsFunc(c.rungs, func(r rung) bool {
		return r.lane.Entity == entity && hiddenIn(r.cfg, name) != nil
	})
}

// lifts reports whether a level takes a limit away by name.
func lifts(cfgs []*plan.Config, name string) bool {
	return slices.ContainsFunc(cfgs, func(c *plan.Config) bool { return slices.Contains(c.From().Lifted, name) })
}

// replaces is levels.Options if a limit is one of Options.Limits, and stored levels replace those;
// empty otherwise.
func (f *fallbackLimits) replaces(name string, cfgs []*plan.Config) levels.Level {
	if f == nil || len(cfgs) == 0 {
		return ""
	}
	won := wonBy(cfgs[0])
	if won == levels.Options || won == levels.Override || !slices.ContainsFunc(f.limits, func(own Limit) bool { return own.Name == name }) {
		return ""
	}
	return levels.Options
}

// limitNames are the limits that any of the levels has.
func limitNames(levels []*plan.Config) []string {
	var names []string
	for _, cfg := range levels {
		names = append(names, slices.DeleteFunc(cfg.Names(), func(name string) bool { return !cfg.Charges(name) })...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
