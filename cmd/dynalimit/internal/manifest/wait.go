package manifest

import (
	"fmt"
	"slices"
)

// missing is a change that was not made.
type missing struct {
	Change
	conflict bool
}

// ready takes out of a batch what must not be made while another change is missing: it fails
// with that, or waits as long as that does.
func (a *applying) ready(changes []Change) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		if !c.letsGo() {
			return false
		}
		if i := slices.IndexFunc(a.failed, func(m missing) bool { return m.neededBy(c) }); i >= 0 {
			because := a.failed[i]
			a.fail(c, because.conflict, fmt.Sprintf("stays as it is, because the %s did not change as planned: apply again once that is right", because.What()), nil)
			return true
		}
		waits := slices.ContainsFunc(a.waiting, func(other Change) bool { return other.neededBy(c) })
		if waits {
			a.waiting = append(a.waiting, c)
		}
		return waits
	})
}

// fail counts a change that was not made.
func (a *applying) fail(c Change, conflict bool, reason string, err error) {
	a.tried++
	a.failed = append(a.failed, missing{c, conflict})
	a.out.Failed = append(a.out.Failed, Failure{What: c.What(), Conflict: conflict, Error: reason, Err: err})
}

// letsGo says whether a change may leave calls to levels that other changes are to make: it
// is of a level that goes, admits more or is blocked no more, of an entity that goes, or
// that gets another plan.
func (c Change) letsGo() bool {
	return c.step >= stepLoosen || c.Scope == nil && c.replans()
}

// replans says whether a record gets another plan.
func (c Change) replans() bool {
	return slices.ContainsFunc(c.Fields, func(f Field) bool { return f.Name == "plan" })
}

// neededBy says whether a change has to be made before another one that lets go: some calls
// may be limited by the one as soon as the other no longer does.
//
//nolint:cyclop // a flat switch: one case per pair of scopes
func (c Change) neededBy(other Change) bool {
	mine, its := c.scope(), other.scope()
	switch {
	case c.Action == Delete || mine.Resource != "" && its.Resource != "" && mine.Resource != its.Resource && !c.grouped && !other.grouped:
		return false
	case mine.Entity != "" && its.Entity != "":
		return mine.Entity == its.Entity
	case c.Scope == nil: // its entity is on the plan that it was to leave
		return c.replans() && (its.Plan == c.plan || its.Plan == "" && (!c.held || other.grouped))
	case (c.grouped || other.grouped) && kindOf(mine)*kindOf(its) == 0:
		return true // nothing of everybody's is hidden there
	case other.step == stepLoosen && kindOf(mine) < kindOf(its):
		return false // what is loosened decides as before
	case mine.Plan != "" && its.Plan != "":
		return mine.Plan == its.Plan
	case mine.Plan != "" && its.Entity != "":
		return mine.Plan == other.planned || other.Scope != nil && mine.Plan == other.plan
	case mine.Entity != "" && its.Plan != "":
		return its.Plan == c.plan || its.Plan == c.planned
	case mine.Entity != "":
		return !c.held || !c.holds
	case its.Entity != "":
		return !other.holds
	}
	return true // everybody's, for one of them at least
}
