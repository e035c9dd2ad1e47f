package config

import (
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// Verdict is what the items say together.
type Verdict struct {
	// Level is the level that won: the most specific one that has limits or is
	// unlimited. It is empty if there is none.
	Level levels.Level
	// Limits are those of the level that won, sorted by name; none if it is unlimited.
	Limits []schema.ConfigLimit
	// Unlimited means that the level that won lifts the limits of all others.
	Unlimited bool
	// Blocked is the most specific level that blocks, empty for none. It matters
	// whichever level won.
	Blocked levels.Level
	// Policy says what to do when the store does not answer: that of PolicyLevel, which
	// is the most specific level that has one; both are empty for none.
	Policy      string
	PolicyLevel levels.Level
	// SystemPolicy is what the system's item alone says of that.
	SystemPolicy string
	// Groups are those of the resource, sorted, whichever level won.
	Groups []string
	// Hidden are the limits that less specific levels have and the level that won does
	// not, in the order of their levels and then of their names; each is named once.
	Hidden []Hidden
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

// Resolve applies the levels. The first level that has limits, or is unlimited, wins;
// lists are not merged. A level that blocks does so whatever more specific levels say.
// It fails with *Malformed if the winning item, or the marks of any item, cannot be
// understood.
func Resolve(items Items) (Verdict, error) {
	var v Verdict
	for _, l := range items.layers() {
		marks, err := schema.DecodeMarks(l.item)
		if err != nil {
			return Verdict{}, &Malformed{l.level, err}
		}
		if v.Blocked == "" && marks.Blocked {
			v.Blocked = l.level
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
		if v.Level != "" {
			v.hide(l)
		} else if err := v.offer(l, marks.Unlimited); err != nil {
			return Verdict{}, err
		}
	}
	return v, nil
}

// offer makes a level the winner if it has limits or is unlimited. Limits count before
// the mark: a writer that does not know the mark may have put them beside it.
func (v *Verdict) offer(l layer, unlimited bool) error {
	if !schema.HasLimits(l.item) {
		if unlimited {
			v.Level, v.Unlimited = l.level, true
		}
		return nil
	}
	item, err := schema.DecodeConfig(l.item)
	if err != nil {
		return &Malformed{l.level, err}
	}
	v.Level, v.Limits = l.level, item.Limits
	return nil
}

// hide notes the limits of a level less specific than the winner.
func (v *Verdict) hide(l layer) {
	for _, name := range schema.LimitNames(l.item) {
		inForce := slices.ContainsFunc(v.Limits, func(w schema.ConfigLimit) bool { return w.Name == name })
		noted := slices.ContainsFunc(v.Hidden, func(h Hidden) bool { return h.Name == name })
		if !inForce && !noted {
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
