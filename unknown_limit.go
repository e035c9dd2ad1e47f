package dynalimit

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/levels"
)

// What a call may name: limits that some level has.

// checkKnown refuses amounts of limits that no level has: otherwise a misspelt name
// would be admitted for ever. With WithIgnoreUnknown it refuses those that a level has
// which is not in force, and some level has to have one of them.
func (f *fallbackLimits) checkKnown(r *request, c *cascade) error {
	if c.unlimited {
		return nil
	}
	if len(c.rungs) == 0 {
		return invalid("limits", "none are configured for entity %q on resource %q at any level; set some with admin.Limits.Set, with Options.Limits or with WithLimits", r.entity, r.resource)
	}
	if len(c.rungs) == 1 && len(c.asked) == len(r.amounts) {
		return nil
	}
	known, levels := 0, c.configs()
	for name := range r.amounts {
		switch {
		case c.has(name):
			known++
		case !r.opts.ignoreUnknown || f.hides(name, levels):
			return f.unknownLimit(r, name, levels)
		}
	}
	if known == 0 && len(r.amounts) > 0 { // nothing would limit the call
		return f.unknownLimit(r, r.amounts.names()[0], levels)
	}
	return nil
}

// unknownLimit is the error for a limit that no level in force has. It names the limits
// there are and, because lists are not merged, the list that hides the others.
func (f *fallbackLimits) unknownLimit(r *request, name string, levels []*plan.Config) error {
	field := "amounts[" + name + "]"
	if len(levels) == 0 {
		return invalid(field, "is not a limit of entity %q on resource %q, which have none", r.entity, r.resource)
	}
	why, fix := config.Unknown(wonBy(levels[0]))
	if won, hidden := f.hiding(name, levels); hidden != "" {
		why, fix = config.NotInForce(won, hidden)
	}
	unknown := invalid(field, "is not a limit of entity %q on resource %q; the limits are %q; %s", r.entity, r.resource, limitNames(levels), why)
	unknown.Fix = fix
	return unknown
}

// wonBy is the level that a configuration's limits come from; WithLimits adds only its
// own to them.
func wonBy(cfg *plan.Config) levels.Level {
	from := levels.Level(cfg.Limits[0].Level)
	for i := range cfg.Limits {
		if level := levels.Level(cfg.Limits[i].Level); level != levels.Override {
			from = level
		}
	}
	return from
}

// hiding is the level that won, and the less specific one that has a limit; empty if no
// level has it.
func (f *fallbackLimits) hiding(name string, cfgs []*plan.Config) (won, hidden levels.Level) {
	for _, cfg := range cfgs {
		for _, h := range cfg.Hidden {
			if h.Name == name {
				return wonBy(cfg), levels.Level(h.Level)
			}
		}
	}
	if len(cfgs) == 0 {
		return "", ""
	}
	won = wonBy(cfgs[0])
	ours := f != nil && slices.ContainsFunc(f.limits, func(own Limit) bool { return own.Name == name })
	if ours && won != levels.Options && won != levels.Override {
		return won, levels.Options
	}
	return "", ""
}

// hides reports whether a limit that no level has in force is one of a less specific level.
func (f *fallbackLimits) hides(name string, levels []*plan.Config) bool {
	_, hidden := f.hiding(name, levels)
	return hidden != ""
}

// limitNames are the limits that any of the levels has.
func limitNames(levels []*plan.Config) []string {
	var names []string
	for _, cfg := range levels {
		names = append(names, cfg.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
