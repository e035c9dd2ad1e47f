package manifest

import (
	"fmt"
	"slices"
)

// stuck is a record that was not changed.
type stuck struct {
	Change
	conflict bool
}

// free takes out of a batch the levels that must not go, nor admit more, while a record is
// as it was: they limit its entity still. They wait until the end, and fail then.
func (a *applying) free(changes []Change) []Change {
	if len(a.stuck)+len(a.second) == 0 {
		return changes
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		if c.Scope == nil || c.step < stepMove {
			return false
		}
		if i := slices.IndexFunc(a.stuck, func(s stuck) bool { return s.limitedBy(c) }); a.ending && i >= 0 {
			a.keep(c, a.stuck[i])
			return true
		}
		waits := slices.ContainsFunc(a.stuck, func(s stuck) bool { return s.limitedBy(c) }) ||
			slices.ContainsFunc(a.second, func(m Change) bool { return stuck{Change: m}.limitedBy(c) })
		if waits {
			a.waiting = append(a.waiting, c)
		}
		return waits
	})
}

// keep counts a level that stays as it is, because of a record.
func (a *applying) keep(c Change, because stuck) {
	a.tried++
	a.out.Failed = append(a.out.Failed, Failure{
		What: c.What(), Conflict: because.conflict,
		Error: fmt.Sprintf("stays as it is, for it limits entity %s, whose record was not changed: apply again once that is", because.Entity),
	})
}

// limitedBy says whether a level is one that the entity was to leave, or its own.
func (s stuck) limitedBy(level Change) bool {
	if level.Scope.Entity != "" {
		return level.Scope.Entity == s.Entity
	}
	return level.Scope.Plan != "" && slices.ContainsFunc(s.Fields, func(f Field) bool { return f.Name == "plan" && f.From == level.Scope.Plan })
}
