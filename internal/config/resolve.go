package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// Verdict is the resolved configuration of the items.
type Verdict struct {
	// Source is the most specific source that has a list or is unlimited; empty if no source is either.
	Source sources.Source
	// Limits are the limits in force, sorted by name. They may be empty.
	Limits []Limit
	// Unlimited means that no limit applies: the walk came to a source that is unlimited, or every limit was
	// lifted by name. Limits is then empty, or all of them are counted only.
	Unlimited bool
	// Counted is the most specific source that is unlimited and counted, if any. Limits of less specific
	// sources are in shadow.
	Counted sources.Source
	// Blocked is the most specific source with a block that no source lifts, if any. It applies under every
	// source that won.
	Blocked sources.Source
	// Admitted is the most specific source that lifts a block with exceptions, if any.
	Admitted sources.Source
	// Policy is the outage policy of PolicySource, the most specific source that has one. Both are empty
	// without a policy.
	Policy       string
	PolicySource sources.Source
	// SystemPolicy is the outage policy of the system's item alone.
	SystemPolicy string
	// Groups are the groups of the resource, sorted. They do not depend on the source that won.
	Groups []string
	// Hidden are the limits of less specific sources that are not in force, because the walk ended before
	// them. They are in the order of their sources and then of their names; each is named once.
	Hidden []Hidden
	// Lifted are the limits that a source takes away by name, sorted by name, each with the most specific
	// source that does so.
	Lifted []Hidden
	// Raises are the raises of limits in force, the most specific source first. Limits does not include them:
	// see At.
	Raises []Raise
}

// Limit is a limit in force, with its source.
type Limit struct {
	schema.ConfigLimit
	// Source is the source that stores the limit.
	Source sources.Source
	// Counted means that it is in shadow because a more specific source is unlimited and counted.
	Counted bool
}

// Hidden is a limit that is not in force because a more specific source won.
type Hidden struct {
	// Name is the name of the limit.
	Name string
	// Source is the most specific source that has it.
	Source sources.Source
}

// Malformed is the error of an item that cannot be decoded, so that its limits are unknown.
type Malformed struct {
	// Source is the source of the item.
	Source sources.Source
	// Err is the decoding error.
	Err error
}

// Error names the source and the decoding error.
func (e *Malformed) Error() string { return fmt.Sprintf("source %s: %v", e.Source, e.Err) }

// Unwrap returns the decoding error.
func (e *Malformed) Unwrap() error { return e.Err }

// Resolve applies the sources, from the most specific one on. The list of a source that extends is merged
// with those of less specific sources; of equal names, its own limit applies. The walk ends at the system, at
// a source that does not extend, and at one that is unlimited and not counted. A block does not affect the
// walk, because open leases still need the limits. A more specific source that admits lifts a block with
// exceptions; no source lifts another block. It fails with *Malformed if it cannot decode an item on the
// walk, or the marks of any item.
func Resolve(items Items) (Verdict, error) {
	var v Verdict
	var admits sources.Source // the most specific source that admits
	ended := false
	for _, l := range items.bySource() {
		if l.item == nil { // nearly all
			continue
		}
		marks, err := schema.DecodeMarks(l.item)
		if err != nil {
			return Verdict{}, &Malformed{l.source, err}
		}
		if v.Blocked == "" && (marks.Blocked || marks.BlockedExcept && admits == "") {
			v.Blocked = l.source
		}
		if marks.BlockedExcept {
			v.Admitted = admits
		}
		if admits == "" && marks.Admit {
			admits = l.source
		}
		v.takeMarks(l.source, marks)
		if ended {
			v.addHidden(l)
		} else if ended, err = v.addSource(l, marks); err != nil {
			return Verdict{}, err
		}
	}
	if v.Source != "" && len(v.Limits) == 0 { // each was lifted by name
		v.Unlimited = true
	}
	if len(v.Raises) > 0 {
		v.dropIdleRaises()
	}
	return v, nil
}

// takeMarks sets v's outage policy from a source's marks, unless a more specific source has set it or the
// policy is unknown. From the system's source it also sets v.SystemPolicy, from the resource's v.Groups.
func (v *Verdict) takeMarks(source sources.Source, marks schema.Marks) {
	policy := knownPolicy(marks.OnUnavailable)
	if v.Policy == "" && policy != "" {
		v.Policy, v.PolicySource = policy, source
	}
	switch source { //nolint:exhaustive // the others have nothing of their own
	case sources.System:
		v.SystemPolicy = policy
	case sources.Resource:
		v.Groups = marks.Groups
	}
}

// addSource adds the limits, lifts and raises of the next less specific source to v, and reports whether the
// walk ends there. It sets v.Source and v.Unlimited, and fails with *Malformed. Limits beside the mark of
// unlimited apply, because a writer that does not know the mark may have left it.
func (v *Verdict) addSource(l sourceItem, marks schema.Marks) (ended bool, err error) {
	if !schema.HasList(l.item) {
		raises, err := schema.DecodeRaises(l.item)
		if err != nil {
			return false, &Malformed{l.source, err}
		}
		v.addRaises(l.source, raises)
		if marks.Unlimited {
			v.Unlimited = v.Unlimited || v.Source == ""
			v.Source = cmp.Or(v.Source, l.source)
		}
		if marks.Counted {
			v.Counted = cmp.Or(v.Counted, l.source)
		}
		return marks.Unlimited && !marks.Counted, nil
	}
	item, err := schema.DecodeConfig(l.item)
	if err != nil && v.Unlimited {
		return true, nil // without limits, nothing is counted either
	}
	if err != nil {
		return false, &Malformed{l.source, err}
	}
	v.addRaises(l.source, item.Raises)
	v.Source = cmp.Or(v.Source, l.source)
	lifted := v.Lifted
	for _, limit := range item.Limits {
		if !v.hasLimit(limit.Name) && !isNamed(lifted, limit.Name) {
			limit.Shadow = limit.Shadow || v.Counted != ""
			v.Limits = append(v.Limits, Limit{limit, l.source, v.Counted != ""})
		}
	}
	for _, name := range item.Lifted {
		if !v.hasLimit(name) && !isNamed(v.Lifted, name) {
			v.Lifted = append(v.Lifted, Hidden{name, l.source})
		}
	}
	slices.SortFunc(v.Limits, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Lifted, func(a, b Hidden) int { return strings.Compare(a.Name, b.Name) })
	return !item.Extends, nil
}

// hasLimit reports whether v.Limits has a limit of this name. During the walk that means one of a more specific
// source, or of the same one.
func (v *Verdict) hasLimit(name string) bool {
	return slices.ContainsFunc(v.Limits, func(w Limit) bool { return w.Name == name })
}

// isNamed reports whether a list of hidden or lifted limits has one of this name.
func isNamed(list []Hidden, name string) bool {
	return slices.ContainsFunc(list, func(h Hidden) bool { return h.Name == name })
}

// addHidden appends the names of a source's limits to v.Hidden, because the walk ended before it. It skips
// names that are in force, lifted or hidden already.
func (v *Verdict) addHidden(l sourceItem) {
	for _, name := range schema.LimitNames(l.item) {
		if !v.hasLimit(name) && !isNamed(v.Lifted, name) && !isNamed(v.Hidden, name) {
			v.Hidden = append(v.Hidden, Hidden{name, l.source})
		}
	}
}

// knownPolicy returns a stored policy, or "" if this version does not know it.
func knownPolicy(policy string) string {
	switch policy {
	case "block", "allow", "local":
		return policy
	}
	return ""
}

// Items are the items of the sources. Each is nil if it does not exist.
type Items struct {
	Entity, EntityDefault, Plan, PlanDefault, Resource, System schema.Item
}

// sourceItem is the item of one source.
type sourceItem struct {
	source sources.Source
	item   schema.Item
}

// bySource returns the items with their sources, the most specific first; an absent item is nil.
func (i *Items) bySource() [6]sourceItem {
	return [...]sourceItem{
		{sources.Entity, i.Entity},
		{sources.EntityDefault, i.EntityDefault},
		{sources.Plan, i.Plan},
		{sources.PlanDefault, i.PlanDefault},
		{sources.Resource, i.Resource},
		{sources.System, i.System},
	}
}
