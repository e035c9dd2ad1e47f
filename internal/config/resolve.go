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
	// Level is the most specific level that has a list or is unlimited; empty if no level is either.
	Source sources.Source
	// Limits are the limits in force, sorted by name. They may be empty.
	Limits []Limit
	// Unlimited means that no limit applies: the walk came to a level that is unlimited, or every limit was
	// lifted by name. Limits is then empty, or all of them are counted only.
	Unlimited bool
	// Counted is the most specific level that is unlimited and counted, if any. Limits of less specific
	// levels are in shadow.
	Counted sources.Source
	// Blocked is the most specific level with a block that no level lifts, if any. It applies under every
	// level that won.
	Blocked sources.Source
	// Admitted is the most specific level that lifts a block with exceptions, if any.
	Admitted sources.Source
	// Policy is the outage policy of PolicySource, the most specific level that has one. Both are empty
	// without a policy.
	Policy       string
	PolicySource sources.Source
	// SystemPolicy is the outage policy of the system's item alone.
	SystemPolicy string
	// Groups are the groups of the resource, sorted. They do not depend on the level that won.
	Groups []string
	// Hidden are the limits of less specific levels that are not in force, because the walk ended before
	// them. They are in the order of their levels and then of their names; each is named once.
	Hidden []Hidden
	// Lifted are the limits that a level takes away by name, sorted by name, each with the most specific
	// level that does so.
	Lifted []Hidden
	// Raises are the raises of limits in force, the most specific level first. Limits does not include them:
	// see At.
	Raises []Raise
}

// Limit is a limit in force, with its level.
type Limit struct {
	schema.ConfigLimit
	// Level is the level that stores the limit.
	Source sources.Source
	// Counted means that it is in shadow because a more specific level is unlimited and counted.
	Counted bool
}

// Hidden is a limit that is not in force because a more specific level won.
type Hidden struct {
	// Name is the name of the limit.
	Name string
	// Level is the most specific level that has it.
	Source sources.Source
}

// Malformed is the error of an item that cannot be decoded, so that its limits are unknown.
type Malformed struct {
	// Level is the level of the item.
	Source sources.Source
	// Err is the decoding error.
	Err error
}

// Error names the level and the decoding error.
func (e *Malformed) Error() string { return fmt.Sprintf("level %s: %v", e.Source, e.Err) }

// Unwrap returns the decoding error.
func (e *Malformed) Unwrap() error { return e.Err }

// Resolve applies the levels, from the most specific one on. The list of a level that extends is put over
// those of less specific levels, by name. The walk ends at the system, at a level that does not extend, and
// at one that is unlimited and not counted. A block does not affect the walk, because open leases go by the
// limits. A more specific level that admits lifts a block with exceptions; no level lifts another block. It
// fails with *Malformed if it cannot decode an item on the walk, or the marks of any item.
func Resolve(items Items) (Verdict, error) {
	var v Verdict
	var admits sources.Source // the most specific level that admits
	ended := false
	for _, l := range items.layers() {
		if l.item == nil { // nearly all
			continue
		}
		marks, err := schema.DecodeMarks(l.item)
		if err != nil {
			return Verdict{}, &Malformed{l.level, err}
		}
		if v.Blocked == "" && (marks.Blocked || marks.BlockedExcept && admits == "") {
			v.Blocked = l.level
		}
		if marks.BlockedExcept {
			v.Admitted = admits
		}
		if admits == "" && marks.Admit {
			admits = l.level
		}
		v.takeMarks(l.level, marks)
		if ended {
			v.hide(l)
		} else if ended, err = v.offer(l, marks); err != nil {
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

// takeMarks sets v's policy to that of the level, unless a more specific level has one. It also sets the
// system's policy or the resource's groups.
func (v *Verdict) takeMarks(level sources.Source, marks schema.Marks) {
	policy := known(marks.OnUnavailable)
	if v.Policy == "" && policy != "" {
		v.Policy, v.PolicySource = policy, level
	}
	switch level { //nolint:exhaustive // the others have nothing of their own
	case sources.System:
		v.SystemPolicy = policy
	case sources.Resource:
		v.Groups = marks.Groups
	}
}

// offer adds the limits, lifts and raises of the next less specific level to v. It reports whether the walk
// ends there. It fails with *Malformed. Limits count before the mark of unlimited, because a writer that does
// not know the mark may have left both.
func (v *Verdict) offer(l layer, marks schema.Marks) (ended bool, err error) {
	if !schema.HasList(l.item) {
		raises, err := schema.DecodeRaises(l.item)
		if err != nil {
			return false, &Malformed{l.level, err}
		}
		v.addRaises(l.level, raises)
		if marks.Unlimited {
			v.Unlimited = v.Unlimited || v.Source == ""
			v.Source = cmp.Or(v.Source, l.level)
		}
		if marks.Counted {
			v.Counted = cmp.Or(v.Counted, l.level)
		}
		return marks.Unlimited && !marks.Counted, nil
	}
	item, err := schema.DecodeConfig(l.item)
	if err != nil && v.Unlimited {
		return true, nil // without limits, nothing is counted either
	}
	if err != nil {
		return false, &Malformed{l.level, err}
	}
	v.addRaises(l.level, item.Raises)
	v.Source = cmp.Or(v.Source, l.level)
	lifted := v.Lifted
	for _, limit := range item.Limits {
		if !v.has(limit.Name) && !isNamed(lifted, limit.Name) {
			limit.Shadow = limit.Shadow || v.Counted != ""
			v.Limits = append(v.Limits, Limit{limit, l.level, v.Counted != ""})
		}
	}
	for _, name := range item.Lifted {
		if !v.has(name) && !isNamed(v.Lifted, name) {
			v.Lifted = append(v.Lifted, Hidden{name, l.level})
		}
	}
	slices.SortFunc(v.Limits, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Lifted, func(a, b Hidden) int { return strings.Compare(a.Name, b.Name) })
	return !item.Extends, nil
}

// has reports whether a limit is in force.
func (v *Verdict) has(name string) bool {
	return slices.ContainsFunc(v.Limits, func(w Limit) bool { return w.Name == name })
}

// isNamed reports whether a limit is in a list of hidden or lifted ones.
func isNamed(list []Hidden, name string) bool {
	return slices.ContainsFunc(list, func(h Hidden) bool { return h.Name == name })
}

// hide appends the limits of a level behind the end of the walk to v.Hidden, unless they are in force, lifted
// or hidden already.
func (v *Verdict) hide(l layer) {
	for _, name := range schema.LimitNames(l.item) {
		if !v.has(name) && !isNamed(v.Lifted, name) && !isNamed(v.Hidden, name) {
			v.Hidden = append(v.Hidden, Hidden{name, l.level})
		}
	}
}

// known returns a stored policy, or "" if this version does not know it.
func known(policy string) string {
	switch policy {
	case "block", "allow", "local":
		return policy
	}
	return ""
}
