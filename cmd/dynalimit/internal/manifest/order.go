package manifest

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// sortChanges sets the step, depth and plans of all changes and sorts them in place. An interruption between
// any two then leaves a table that admits no more than before or at the end. Stricter changes come before
// entities move, looser ones and deletions after.
func (c *comparison) sortChanges() {
	c.joined = map[string]bool{}
	for _, ch := range c.p.Changes {
		if ch.Entity != "" && ch.Action != Delete && ch.record.Plan != c.live.Entities[ch.Entity].Plan {
			c.joined[ch.record.Plan] = true
		}
	}
	delete(c.joined, "")
	c.groups = groupsIn(c.live.Configs, c.m.Configs)
	for i := range c.p.Changes {
		ch := &c.p.Changes[i]
		ch.grouped = c.groups[ch.scope().Resource]
		ch.step = c.stepOf(*ch)
		id := ch.scope().Entity
		ch.plan, ch.planned = c.live.Entities[id].Plan, c.finalPlan(id)
		ch.held, ch.holds = c.isLimitedByPlan(ch.plan, false), c.isLimitedByPlan(ch.planned, true)
		if ch.Entity != "" {
			chain, _ := chainOf(id, c.finalParent)
			ch.depth = len(chain) // parents first
			if ch.Action == Delete {
				ch.depth *= -1 // children first
			}
		}
	}
	slices.SortFunc(c.p.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.depth, b.depth), cmp.Compare(a.Entity, b.Entity), compareSources(a, b))
	})
}

// finalPlan returns the plan that an entity will have after the apply, or "" if that deletes it. It is the
// stored one if the file does not define the record or the record is refused.
func (c *comparison) finalPlan(id string) string {
	e, named := c.m.Entities[id]
	if c.pruned[id] {
		return ""
	}
	if !named || c.stuck[id] || e.LimitsOnly && c.live.Entities[id].ManagedBy != c.m.Name {
		return c.live.Entities[id].Plan
	}
	return e.Record.Plan
}

// isLimitedByPlan reports whether the default source of a plan limits or blocks its entities: as stored or, if
// end is true, after the apply. It is false for the plan "".
func (c *comparison) isLimitedByPlan(plan string, end bool) bool {
	at := admin.Scope{Plan: plan}
	l := c.live.Configs[at]
	if to, named := c.m.Configs[at]; end && (named || l.ManagedBy == c.m.Name) {
		l = to
	}
	return plan != "" && (isDecisive(l) || blockOf(l) != noBlock)
}

// The steps of a plan. An entity's own limits come before those of plans, which may admit more.
// Plans come before records, so that an entity that joins a plan finds its limits. Sources that
// admit more wait until the entities that leave them have left. Of deletions the least specific
// comes first, because the next source in force stays. Limits of groups are independent of
// these: those that admit less come before all, and those that admit more after all. Blocks are
// set first and lifted last, because they hide everything else.
const (
	stepBlock = iota
	stepGroups
	stepSources
	stepEntitySources
	stepPlans
	stepUncover
	stepCreate
	stepUpdate
	stepMove
	stepLoosen
	stepDeleteSources
	stepDeletePlans
	stepDeleteEntitySources
	stepLoosenGroups
	stepDeleteGroups
	stepUnblock
	stepDeleteEntities
	stepNone
)

// stepOf returns the step of the apply in which a change is made, stepNone for a refused one. Blocks are set
// first and lifted last. Changes that limit calls more come before entities move, changes that admit more
// after.
func (c *comparison) stepOf(ch Change) int {
	switch {
	case ch.Action == Refuse:
		return stepNone
	case ch.Scope == nil:
		return recordStep(ch)
	}
	stored := c.live.Configs[*ch.Scope]
	switch {
	case blockOf(ch.config) > blockOf(stored):
		return stepBlock
	case blockOf(ch.config) < blockOf(stored):
		return stepUnblock
	}
	gone := ch.Action == Delete || isDecisive(stored) && !isDecisive(ch.config)
	hid := gone && isDecisive(stored) && c.hidesStricter(*ch.Scope, stored)
	loosens := gone && !hid || !gone && c.admitsMore(*ch.Scope, stored, ch.config)
	switch {
	case ch.grouped || !slices.Equal(stored.Groups, ch.config.Groups):
		return groupStep(loosens, gone)
	case hid:
		return stepUncover
	case loosens && !gone:
		return stepLoosen
	}
	return sourceStep(*ch.Scope, gone)
}

// sourceStep returns the step of a source by its owner: everybody, a plan or an entity. gone selects the later
// step of a source that is deleted or decides nothing any more.
func sourceStep(at admin.Scope, gone bool) int {
	steps := [][2]int{{stepSources, stepDeleteSources}, {stepPlans, stepDeletePlans}, {stepEntitySources, stepDeleteEntitySources}}
	return steps[kindOf(at)][btoi(gone)]
}

// recordStep returns the step of a change of a record: stepCreate, stepDeleteEntities, stepMove for another
// parent, else stepUpdate.
func recordStep(c Change) int {
	switch {
	case c.Action == Create:
		return stepCreate
	case c.Action == Delete:
		return stepDeleteEntities
	case c.moves:
		return stepMove
	}
	return stepUpdate
}

// compareSources compares two changes of one step for sorting, as cmp.Compare does. Records come before
// sources, and models that join a group before the group's limits. Of sources that admit more, and of an
// owner's new sources, the most specific comes first.
func compareSources(a, b Change) int {
	if a.Scope == nil || b.Scope == nil {
		return btoi(a.Scope != nil) - btoi(b.Scope != nil)
	}
	kind, owned := cmp.Compare(kindOf(*a.Scope), kindOf(*b.Scope)), cmp.Compare(btoi(a.Scope.Resource != ""), btoi(b.Scope.Resource != ""))
	loosens := a.step == stepLoosen || a.step == stepLoosenGroups
	if loosens {
		kind *= -1
	}
	if loosens || kindOf(*a.Scope) > 0 && a.step <= stepPlans {
		owned *= -1
	}
	return cmp.Or(
		btoi(b.joinsGroup())-btoi(a.joinsGroup()), kind, cmp.Compare(a.Scope.Entity, b.Scope.Entity), cmp.Compare(a.Scope.Plan, b.Scope.Plan),
		owned, cmp.Compare(a.Scope.Resource, b.Scope.Resource),
	)
}

// joinsGroup reports whether a change of a source names groups in the step in which sources join groups. The
// group's limits may be new, and come after it.
func (c Change) joinsGroup() bool { return c.step == stepGroups && len(c.config.Groups) > 0 }

// kindOf returns 2 for a source of an entity, 1 for one of a plan, and 0 for one of everybody.
func kindOf(at admin.Scope) int {
	switch {
	case at.Entity != "":
		return 2
	case at.Plan != "":
		return 1
	}
	return 0
}

// admitsMore reports whether the configuration to admits more than the one in force at the source at, and
// limits no call more. stored is the configuration stored there.
func (c *comparison) admitsMore(at admin.Scope, stored, to admin.LimitConfig) bool {
	leaves, joins := groupDifferences(stored, to)
	switch {
	case !isDecisive(to):
		return leaves && !joins
	case !isDecisive(stored) && !c.groups[at.Resource] && (c.isNeededEarly(at) || at.Resource != "" && c.comesEarly(at)):
		return false
	}
	more, less := compareAdmission(c.inForce(at), to)
	return (more || leaves) && !less && !joins
}

// comesEarly reports whether the default of a plan or an entity is new and is stored before entities move. It
// hides less specific sources on every resource, so sources that must precede it there come before it.
func (c *comparison) comesEarly(owner admin.Scope) bool {
	owner.Resource = ""
	to, stored := c.m.Configs[owner], c.live.Configs[owner]
	return owner != (admin.Scope{Everyone: true}) && isDecisive(to) && !isDecisive(stored) && !c.admitsMore(owner, stored, to)
}

// hidesStricter reports whether a less specific source, which takes force if the source at is deleted, admits
// less than stored, the configuration at it. It is false for a source of a plan, and if entities change their
// plans.
func (c *comparison) hidesStricter(at admin.Scope, stored admin.LimitConfig) bool {
	if at.Plan != "" || c.isNeededEarly(at) {
		return false
	}
	below := c.inForce(at, at)
	more, less := compareAdmission(stored, below)
	return isDecisive(below) && less && !more
}

// isNeededEarly reports whether a new source must be stored before entities change their plans. Its owner is a
// plan that entities join, an entity on such a plan or on one with a new default, or a leaving entity.
func (c *comparison) isNeededEarly(at admin.Scope) bool {
	if at.Entity == "" {
		return c.joined[at.Plan]
	}
	plan := c.live.Entities[at.Entity].Plan
	return c.joined[plan] || c.comesEarly(admin.Scope{Plan: plan}) || c.finalPlan(at.Entity) != plan
}

// isDecisive reports whether a source determines the limits in force: it has limits or lifted limits, or is
// unlimited. Blocks do not count.
func isDecisive(l admin.LimitConfig) bool { return l.Unlimited || len(l.Limits)+len(l.Lifted) > 0 }

// inForce returns the stored configuration in force at the source at, as if the sources without did not exist.
// It is the zero value without any. For a group it skips defaults, which do not limit groups.
func (c *comparison) inForce(at admin.Scope, without ...admin.Scope) admin.LimitConfig {
	plan := at.Plan
	if at.Entity != "" {
		plan = c.live.Entities[at.Entity].Plan
	}
	all := []admin.Scope{at}
	if at.Entity != "" {
		all = append(all, admin.Scope{Entity: at.Entity})
	}
	if plan != "" {
		all = append(all, admin.Scope{Plan: plan, Resource: at.Resource}, admin.Scope{Plan: plan})
	}
	for _, one := range append(all, admin.Scope{Everyone: true, Resource: at.Resource}, admin.Scope{Everyone: true}) {
		if c.groups[at.Resource] && one.Resource == "" {
			continue // defaults do not limit groups
		}
		if l := c.live.Configs[one]; isDecisive(l) && !slices.Contains(without, one) {
			return l
		}
	}
	return admin.LimitConfig{}
}

// compareAdmission compares two configurations. more is true if to admits more than from for some limit, less
// if it admits less for some; both may be true. A from that decides nothing admits everything.
func compareAdmission(from, to admin.LimitConfig) (more, less bool) {
	if !isDecisive(from) || from.Unlimited || to.Unlimited {
		return to.Unlimited && isDecisive(from) && !from.Unlimited, !to.Unlimited
	}
	return compareLimits(byName(from.Limits), byName(to.Limits))
}

// compareLimits compares limits by name before and after a change. more means that one admits more or was
// removed, less that one admits less or is new; both may be true. It ignores a limit that got another window or
// kind.
func compareLimits(was, is map[string]dynalimit.Limit) (more, less bool) {
	for name, a := range was {
		b, stays := is[name]
		if !stays {
			more = true
			continue
		}
		if a.Window != b.Window || a.IsConcurrent() != b.IsConcurrent() {
			continue
		}
		rate := compareRates(b, a)
		more = more || b.Burst > a.Burst || rate > 0
		less = less || b.Burst < a.Burst || rate < 0
	}
	for name := range is {
		_, was := was[name]
		less = less || !was
	}
	return more, less
}

// compareRates compares the refill rates of two versions of a limit as cmp.Compare does: 1 if a refills faster.
// It is 0 for quotas and calls in flight; only their bursts differ.
func compareRates(a, b dynalimit.Limit) int {
	high, low := bits.Mul64(uint64(a.RefillAmount), uint64(b.RefillPeriod))
	high2, low2 := bits.Mul64(uint64(b.RefillAmount), uint64(a.RefillPeriod))
	return cmp.Or(cmp.Compare(high, high2), cmp.Compare(low, low2))
}
