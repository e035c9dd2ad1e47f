package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/sources"
)

// A call may name only limits that some source has.

// Named is a call, for the check of the limits that it names.
type Named struct {
	Entity, Resource string
	// Amounts has the names. IgnoreUnknown means that the call skips unknown ones.
	Amounts       map[string]int64
	IgnoreUnknown bool
	// Buckets are the buckets that the call charges, the entity's first. Unlimited means that a source is
	// unlimited: it has every limit.
	Buckets   []NamedBucket
	Unlimited bool
}

// NamedBucket is a bucket of an entity, with its configuration.
type NamedBucket struct {
	Entity string
	Config *plan.Config
}

// CheckNames returns an *Invalid for an amount of a limit that no source has, or that a more specific list of
// the entity hides. With IgnoreUnknown it permits other unknown names if some source has one of the call's
// limits. A call without buckets is good only if a source is unlimited.
func (f *Fallback) CheckNames(n *Named) *Invalid {
	if len(n.Buckets) == 0 {
		if n.Unlimited {
			return nil
		}
		return &Invalid{Field: "limits", Reason: fmt.Sprintf("none are configured for entity %q on resource %q at any source; set some with admin.Limits.Set, with Options.Limits or with WithLimits", n.Entity, n.Resource)}
	}
	known := 0
	for name := range n.Amounts {
		switch {
		case n.Hides(name):
			return f.UnknownLimitError(n, name)
		case n.Charges(name) || n.Unlimited || n.Lifts(name):
			known++
		case !n.IgnoreUnknown || f.ReplacesOption(n, name):
			return f.UnknownLimitError(n, name)
		}
	}
	if known == 0 && len(n.Amounts) > 0 { // nothing would limit the call
		return f.UnknownLimitError(n, slices.Min(slices.Collect(maps.Keys(n.Amounts))))
	}
	return nil
}

// UnknownLimitError returns the error about an amount for a limit that no source in force has. It names the
// limits in force and, if a less specific source has this one, the list that replaces it.
func (f *Fallback) UnknownLimitError(n *Named, name string) *Invalid {
	field := "amounts[" + name + "]"
	if len(n.Buckets) == 0 {
		return &Invalid{Field: field, Reason: fmt.Sprintf("is not a limit of entity %q on resource %q, which have none", n.Entity, n.Resource)}
	}
	why, fix := UnknownReason(winningSource(n.Buckets[0].Config))
	if f.ReplacesOption(n, name) {
		why, fix = HiddenReason(winningSource(n.Buckets[0].Config), sources.Options)
	}
	for _, b := range n.Buckets {
		if h := findHidden(b.Config, name); h != nil {
			why, fix = HiddenReason(winningSource(b.Config), sources.Source(h.Source))
			break
		}
	}
	return &Invalid{Field: field, Fix: fix, Reason: fmt.Sprintf("is not a limit of entity %q on resource %q; the limits are %q; %s", n.Entity, n.Resource, n.chargedNames(), why)}
}

// Hides reports whether a source has the named limit for a bucket of the entity, but a more specific list hides
// it there. Buckets of parents do not count.
func (n *Named) Hides(name string) bool {
	return slices.ContainsFunc(n.Buckets, func(b NamedBucket) bool { return b.Entity == n.Entity && findHidden(b.Config, name) != nil })
}

// Lifts reports whether a source takes the named limit away, so that calls may name it and are charged nothing
// for it.
func (n *Named) Lifts(name string) bool {
	return slices.ContainsFunc(n.Buckets, func(b NamedBucket) bool { return slices.Contains(b.Config.From().Lifted, name) })
}

// Charges reports whether the call charges the named limit in one of its buckets, also in one of a parent or a
// group.
func (n *Named) Charges(name string) bool {
	return slices.ContainsFunc(n.Buckets, func(b NamedBucket) bool { return b.Config.Charges(name) })
}

// chargedNames returns the names of the limits that the call charges in any of its buckets, sorted.
func (n *Named) chargedNames() []string {
	var names []string
	for _, b := range n.Buckets {
		names = append(names, slices.DeleteFunc(b.Config.Names(), func(name string) bool { return !b.Config.Charges(name) })...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// winningSource returns the most specific source with limits in a configuration. Options stands for the
// limiter's own limits, and WithLimits wins only without any other.
func winningSource(cfg *plan.Config) sources.Source { return sources.Source(cfg.From().Source) }

// findHidden returns the named limit that a more specific list hides in a configuration. It returns nil if the
// limit is in force, or if no source has it.
func findHidden(cfg *plan.Config, name string) *plan.Hidden {
	for i := range cfg.From().Hidden {
		if h := &cfg.From().Hidden[i]; h.Name == name && cfg.Index(name) < 0 {
			return h
		}
	}
	return nil
}

// ReplacesOption reports whether Options have the named limit, but stored limits replaced them for the bucket. A
// call that names such a limit is refused, even with WithIgnoreUnknown.
func (f *Fallback) ReplacesOption(n *Named, name string) bool {
	if f == nil || len(n.Buckets) == 0 {
		return false
	}
	won := winningSource(n.Buckets[0].Config)
	return won != sources.Options && won != sources.Override && f.compiled.Index(name) >= 0
}
