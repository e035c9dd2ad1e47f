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

// readyChanges returns the changes of a batch that can be made now. It records as failed those that depend on a
// failed change, and adds those that depend on a waiting one to a.waiting. It does not change changes.
func (a *applying) readyChanges(changes []Change) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		if !c.mayLeaveUnlimited() {
			return false
		}
		if i := slices.IndexFunc(a.failed, func(m missing) bool { return m.isNeededBy(c) }); i >= 0 {
			because := a.failed[i]
			a.failChange(c, because.conflict, fmt.Sprintf("stays as it is, because the %s did not change as planned: correct that, then apply again", because.What()), nil)
			return true
		}
		waits := slices.ContainsFunc(a.waiting, func(other Change) bool { return other.isNeededBy(c) })
		if waits {
			a.waiting = append(a.waiting, c)
		}
		return waits
	})
}

// failChange records a change that was not made in a.out.Failed with reason, and in a.failed, so that changes
// that depend on it fail too. It counts it as tried. err is the library's error, or nil if the change was not
// tried.
func (a *applying) failChange(c Change, conflict bool, reason string, err error) {
	a.tried++
	a.failed = append(a.failed, missing{c, conflict})
	a.out.Failed = append(a.out.Failed, Failure{What: c.What(), Conflict: conflict, Error: reason, Err: err})
}

// mayLeaveUnlimited reports whether a change may leave calls without a limit if another change failed: it
// deletes or loosens a source, lifts a block, deletes an entity, or changes an entity's plan.
func (c Change) mayLeaveUnlimited() bool {
	return c.step >= stepLoosen || c.Scope == nil && c.changesPlan()
}

// changesPlan reports whether a record gets another plan.
func (c Change) changesPlan() bool {
	return slices.ContainsFunc(c.Fields, func(f Field) bool { return f.Name == "plan" })
}

// isNeededBy reports whether other must wait for c and must not be made if c failed, because some calls would
// then have no limit. c limits these calls, and other takes their earlier limits away.
//
//nolint:cyclop // a flat switch: one case per pair of scopes
func (c Change) isNeededBy(other Change) bool {
	mine, its := c.scope(), other.scope()
	switch {
	case c.Action == Delete || mine.Resource != "" && its.Resource != "" && mine.Resource != its.Resource && !c.grouped && !other.grouped:
		return false
	case mine.Entity != "" && its.Entity != "":
		return mine.Entity == its.Entity
	case c.Scope == nil: // the entity stays on the plan that it was to leave
		return c.changesPlan() && (its.Plan == c.plan || its.Plan == "" && (!c.held || other.grouped))
	case (c.grouped || other.grouped) && kindOf(mine)*kindOf(its) == 0:
		return true // no source of everybody is hidden there
	case other.step == stepLoosen && kindOf(mine) < kindOf(its):
		return false // a loosened source decides as before
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
	return true // everybody's, for at least one of them
}
