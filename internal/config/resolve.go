package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// Verdict is what the items say together.
type Verdict struct {
	// Level is the most specific level that has a list or is unlimited; empty for none.
	Level levels.Level
	// Limits are those in force, sorted by name; none if nothing limits.
	Limits []Limit
	// Unlimited means that no limit applies: the walk came to a level that is unlimited, or
	// every limit was lifted by name. Limits is then empty, or all of them are counted alone.
	Unlimited bool
	// Counted is the most specific level that is unlimited and counted; empty for none. Limits of
	// less specific levels are in shadow.
	Counted levels.Level
	// Blocked is the most specific level that blocks and that no level lifts, empty for none. It
	// matters whichever level won.
	Blocked levels.Level
	// Admitted is the most specific level that lifts a block with exceptions, empty for none.
	Admitted levels.Level
	// Policy says what to do when the store does not answer: that of PolicyLevel, which
	// is the most specific level that has one; both are empty for none.
	Policy      string
	PolicyLevel levels.Level
	// SystemPolicy is what the system's item alone says of that.
	SystemPolicy string
	// Groups are those of the resource, sorted, whichever level won.
	Groups []string
	// Hidden are the limits that less specific levels have and that are not in force, because
	// the walk ended before them. They are in the order of their levels and then of their names;
	// each is named once.
	Hidden []Hidden
	// Lifted are the limits that a level takes away by name, sorted by name, each with the most
	// specific level that does.
	Lifted []Hidden
	// Raises are those of limits that are in force, the most specific level first. Limits are
	// without them: see At.
	Raises []Raise
}

// Limit is a limit that is in force, with the level that it comes from.
type Limit struct {
	schema.ConfigLimit
	// Level is where it is stored.
	Level levels.Level
	// Counted means that it is in shadow because a more specific level is unlimited and counted.
	Counted bool
}

// Hidden is a limit that is not in force because a more specific level won.
type Hidden struct {
	// Name is the limit's.
	Name string
	// Level is the most specific level that has it.
	Level levels.Level
}

// Malformed says that an item cannot be understood, so that it is not known what it
// limits.
type Malformed struct {
	// Level is the item's.
	Level levels.Level
	// Err says what is wrong with it.
	Err error
}

func (e *Malformed) Error() string { return fmt.Sprintf("level %s: %v", e.Level, e.Err) }

// Unwrap returns what is wrong.
func (e *Malformed) Unwrap() error { return e.Err }

// Resolve applies the levels. It walks them from the most specific one on. A level's list is put
// by name over those of less specific levels if the level extends. A level that does not extend,
// or is unlimited and not counted, ends the walk, and so does the system. A block does not touch the walk: leases
// that are out go by the limits. A more specific level that admits lifts a block with exceptions,
// and no level lifts another block. It fails with *Malformed if an item on the walk, or the marks of
// any item, cannot be understood.
func Resolve(items Items) (Verdict, error) {
	var v Verdict
	var admits levels.Level // the most specific level that admits
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
		policy := known(marks.OnUnavailable)
		if v.Policy == "" && policy != "" {
			v.Policy, v.PolicyLevel = policy, l.level
		}
		switch l.level { //nolint:exhaustive // the others have nothing of their own
		case levels.System:
			v.SystemPolicy = policy
		case levels.Resource:
			v.Groups = marks.Groups
		}
		if ended {
			v.hide(l)
		} else if ended, err = v.offer(l, marks); err != nil {
			return Verdict{}, err
		}
	}
	if v.Level != "" && len(v.Limits) == 0 { // each was lifted by name
		v.Unlimited = true
	}
	if len(v.Raises) > 0 {
		v.dropIdleRaises()
	}
	return v, nil
}

// offer adds the list of the next less specific level. It reports whether the walk ends there.
// Limits count before the mark of unlimited: a writer that does not know the mark may have put
// them beside it.
func (v *Verdict) offer(l layer, marks schema.Marks) (ended bool, err error) {
	if !schema.HasList(l.item) {
		raises, err := schema.DecodeRaises(l.item)
		if err != nil {
			return false, &Malformed{l.level, err}
		}
		v.addRaises(l.level, raises)
		if marks.Unlimited {
			v.Unlimited = v.Unlimited || v.Level == ""
			v.Level = cmp.Or(v.Level, l.level)
		}
		if marks.Counted {
			v.Counted = cmp.Or(v.Counted, l.level)
		}
		return marks.Unlimited && !marks.Counted, nil
	}
	item, err := schema.DecodeConfig(l.item)
	if err != nil && v.Unlimited {
		return true, nil // it limits nothing, and counts nothing either
	}
	if err != nil {
		return false, &Malformed{l.level, err}
	}
	v.addRaises(l.level, item.Raises)
	v.Level = cmp.Or(v.Level, l.level)
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

// isNamed reports whether a limit is in a list of those that are not in force.
func isNamed(list []Hidden, name string) bool {
	return slices.ContainsFunc(list, func(h Hidden) bool { return h.Name == name })
}

// hide notes the limits of a level behind the end of the walk.
func (v *Verdict) hide(l layer) {
	for _, name := range schema.LimitNames(l.item) {
		if !v.has(name) && !isNamed(v.Lifted, name) && !isNamed(v.Hidden, name) {
			v.Hidden = append(v.Hidden, Hidden{name, l.level})
		}
	}
}

// known is a stored policy; "" for one that this version does not know.
func known(policy string) string {
	switch policy {
	case "block", "allow", "local":
		return policy
	}
	return ""
}
