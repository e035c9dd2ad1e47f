package manifest

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// inOrder sorts changes so that a cut between any two of them leaves a table that admits
// no more than it did before or will in the end: what others need and what limits more
// comes before entities move, and what admits more and what goes comes after.
func (c *comparison) inOrder() {
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
		ch.step = c.step(*ch)
		id := ch.scope().Entity
		ch.plan, ch.planned = c.live.Entities[id].Plan, c.planned(id)
		ch.held, ch.holds = c.limits(ch.plan, false), c.limits(ch.planned, true)
		if ch.Entity != "" {
			chain, _ := chainOf(id, c.parent)
			ch.depth = len(chain) // parents first
			if ch.Action == Delete {
				ch.depth *= -1 // children first
			}
		}
	}
	slices.SortFunc(c.p.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.depth, b.depth), cmp.Compare(a.Entity, b.Entity), compareLevels(a, b))
	})
}

// planned is the plan that an entity has in the end.
func (c *comparison) planned(id string) string {
	e, named := c.m.Entities[id]
	if c.pruned[id] {
		return ""
	}
	if !named || c.stuck[id] || e.LimitsOnly && c.live.Entities[id].ManagedBy != c.m.Name {
		return c.live.Entities[id].Plan
	}
	return e.Record.Plan
}

// limits says whether a plan's default limits whoever is on it, now or in the end.
func (c *comparison) limits(plan string, end bool) bool {
	at := admin.Scope{Plan: plan}
	l := c.live.Configs[at]
	if to, named := c.m.Configs[at]; end && (named || l.ManagedBy == c.m.Name) {
		l = to
	}
	return plan != "" && (decides(l) || blockOf(l) != noBlock)
}

// The steps of a plan. Limits of an entity's own come before those of plans, which may admit
// more, and plans before records: who is put on a plan finds its limits. Levels that admit
// more wait until who leaves them has left. Of what goes the least specific goes first:
// whatever is in force next is there to stay. Limits of groups stand beside all of these: those that admit less come before, and
// those that admit more after them. Blocks are set first and lifted last, for they hide all of
// it.
const (
	stepBlock = iota
	stepGroups
	stepLevels
	stepEntityLevels
	stepPlans
	stepUncover
	stepCreate
	stepUpdate
	stepMove
	stepLoosen
	stepDeleteLevels
	stepDeletePlans
	stepDeleteEntityLevels
	stepLoosenGroups
	stepDeleteGroups
	stepUnblock
	stepDeleteEntities
	stepNone
)

func (c *comparison) step(ch Change) int {
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
	gone := ch.Action == Delete || decides(stored) && !decides(ch.config)
	hid := gone && decides(stored) && c.hid(*ch.Scope, stored)
	loosens := gone && !hid || !gone && c.loosens(*ch.Scope, stored, ch.config)
	switch {
	case ch.grouped || !slices.Equal(stored.Groups, ch.config.Groups):
		return groupStep(loosens, gone)
	case hid:
		return stepUncover
	case loosens && !gone:
		return stepLoosen
	}
	return levelStep(*ch.Scope, gone)
}

// levelStep is the step of a level by whom it is about.
func levelStep(at admin.Scope, gone bool) int {
	steps := [][2]int{{stepLevels, stepDeleteLevels}, {stepPlans, stepDeletePlans}, {stepEntityLevels, stepDeleteEntityLevels}}
	return steps[kindOf(at)][btoi(gone)]
}

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

// compareLevels sorts the levels of one step. Of those that admit more, and of an owner's
// that come, the most specific comes first: it hides the others. Money of a group is refused as
// long as no model is in it, so models that join come before it.
func compareLevels(a, b Change) int {
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
		btoi(b.joins())-btoi(a.joins()), kind, cmp.Compare(a.Scope.Entity, b.Scope.Entity), cmp.Compare(a.Scope.Plan, b.Scope.Plan),
		owned, cmp.Compare(a.Scope.Resource, b.Scope.Resource),
	)
}

// joins says whether a level may join a group of which the limits come.
func (c Change) joins() bool { return c.step == stepGroups && len(c.config.Groups) > 0 }

// kindOf is how specific a level is, but for its resource.
func kindOf(at admin.Scope) int {
	switch {
	case at.Entity != "":
		return 2
	case at.Plan != "":
		return 1
	}
	return 0
}

// loosens says whether a level that is to be stored admits more than what is in force
// there, and nowhere less.
func (c *comparison) loosens(at admin.Scope, stored, to admin.LimitConfig) bool {
	leaves, joins := groupDifferences(stored, to)
	switch {
	case !decides(to):
		return leaves && !joins
	case !decides(stored) && !c.groups[at.Resource] && (c.needed(at) || at.Resource != "" && c.comes(at)):
		return false
	}
	more, less := differences(c.inForce(at), to)
	return (more || leaves) && !less && !joins
}

// comes says whether the default of a plan or an entity is new and comes early. It hides less
// specific levels on every resource, so what is to stand above it there comes before it.
func (c *comparison) comes(owner admin.Scope) bool {
	owner.Resource = ""
	to, stored := c.m.Configs[owner], c.live.Configs[owner]
	return owner != (admin.Scope{Everyone: true}) && decides(to) && !decides(stored) && !c.loosens(owner, stored, to)
}

// hid says whether a level that goes hid one that admits less. While entities are on a plan,
// or change theirs, it stays.
func (c *comparison) hid(at admin.Scope, stored admin.LimitConfig) bool {
	if at.Plan != "" || c.needed(at) {
		return false
	}
	below := c.inForce(at, at)
	more, less := differences(stored, below)
	return decides(below) && less && !more
}

// needed says whether a level that is new comes before entities change their plans: they
// are put on its plan, or it is of one of them, or of one whose plan gets levels for them.
func (c *comparison) needed(at admin.Scope) bool {
	if at.Entity == "" {
		return c.joined[at.Plan]
	}
	plan := c.live.Entities[at.Entity].Plan
	return c.joined[plan] || c.comes(admin.Scope{Plan: plan}) || c.planned(at.Entity) != plan
}

// decides says whether a level says which limits are in force.
func decides(l admin.LimitConfig) bool { return l.Unlimited || len(l.Limits)+len(l.Lifted) > 0 }

// inForce is what is live and decides where a level is to be, without some levels; the zero
// value if nothing does.
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
		if l := c.live.Configs[one]; decides(l) && !slices.Contains(without, one) {
			return l
		}
	}
	return admin.LimitConfig{}
}

// differences says whether a level admits more, and less, than another; what decides
// nothing admits everything.
func differences(from, to admin.LimitConfig) (more, less bool) {
	if !decides(from) || from.Unlimited || to.Unlimited {
		return to.Unlimited && decides(from) && !from.Unlimited, !to.Unlimited
	}
	return limitDifferences(byName(from.Limits), byName(to.Limits))
}

// limitDifferences says whether limits admit more, and less, than those that were there: a
// limit that goes admits more, and one that comes less. One of another window or kind is neither.
func limitDifferences(was, is map[string]dynalimit.Limit) (more, less bool) {
	for name, a := range was {
		b, stays := is[name]
		if !stays {
			more = true
			continue
		}
		if a.Window != b.Window {
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

// compareRates compares what two buckets regain in the same time; two quotas are alike.
func compareRates(a, b dynalimit.Limit) int {
	high, low := bits.Mul64(uint64(a.RefillAmount), uint64(b.RefillPeriod))
	high2, low2 := bits.Mul64(uint64(b.RefillAmount), uint64(a.RefillPeriod))
	return cmp.Or(cmp.Compare(high, high2), cmp.Compare(low, low2))
}
