package manifest

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dynalimit/dynalimit"
)

// inOrder sorts changes so that a cut between any two of them leaves a table that admits
// no more than it did before or will in the end: what others need and what limits more
// comes before entities move, and what admits more and what goes comes after.
func (c *comparison) inOrder() []Change {
	depth := func(id string) int {
		chain, _ := chainOf(id, c.parent)
		return len(chain)
	}
	type placed struct {
		Change
		depth int
	}
	all := make([]placed, len(c.p.Changes))
	for i, ch := range c.p.Changes {
		ch.step = c.step(ch)
		all[i] = placed{ch, 0}
		if ch.Entity != "" {
			all[i].depth = depth(ch.Entity) // parents first
			if ch.Action == Delete {
				all[i].depth *= -1 // children first
			}
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.depth, b.depth), cmp.Compare(a.Entity, b.Entity), compareLevels(a.Change, b.Change))
	})
	out := make([]Change, len(all))
	for i, p := range all {
		out[i] = p.Change
	}
	return out
}

// The steps of a plan. Levels of everybody come before plans, and plans before entities:
// who is put on a plan finds its limits. Levels that admit more wait until who leaves them
// has left. Of what goes the least specific goes first: whatever is in force next is there
// to stay. Blocks are set first and lifted last, for they hide all of it.
const (
	stepBlock = iota
	stepLevels
	stepPlans
	stepEntityLevels
	stepUncover
	stepCreate
	stepUpdate
	stepMove
	stepLoosen
	stepDeleteLevels
	stepDeletePlans
	stepDeleteEntityLevels
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
	switch stored := c.live.Configs[*ch.Scope]; {
	case ch.config.Blocked && !stored.Blocked:
		return stepBlock
	case stored.Blocked && !ch.config.Blocked:
		return stepUnblock
	case ch.Action != Delete && c.loosens(*ch.Scope, stored, ch.config):
		return stepLoosen
	case ch.Action == Delete && c.hid(*ch.Scope, stored):
		return stepUncover
	}
	return levelStep(ch)
}

// levelStep is the step of a level by whom it is about.
func levelStep(ch Change) int {
	switch {
	case ch.Scope.Entity != "":
		return choose(ch, stepDeleteEntityLevels, stepEntityLevels)
	case ch.Scope.Plan != "":
		return choose(ch, stepDeletePlans, stepPlans)
	}
	return choose(ch, stepDeleteLevels, stepLevels)
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

func choose(c Change, gone, stays int) int {
	if c.Action == Delete {
		return gone
	}
	return stays
}

// compareLevels sorts the levels of one step. Of those that admit more, and of an owner's
// that come, the most specific comes first: it hides the others.
func compareLevels(a, b Change) int {
	if a.Scope == nil || b.Scope == nil {
		return btoi(a.Scope != nil) - btoi(b.Scope != nil)
	}
	kind, owned := cmp.Compare(kindOf(*a.Scope), kindOf(*b.Scope)), cmp.Compare(btoi(a.Scope.Resource != ""), btoi(b.Scope.Resource != ""))
	if a.step == stepLoosen {
		kind *= -1
	}
	if a.step == stepLoosen || kindOf(*a.Scope) > 0 && a.Action != Delete && a.Action != Refuse {
		owned *= -1
	}
	return cmp.Or(
		kind, cmp.Compare(a.Scope.Entity, b.Scope.Entity), cmp.Compare(a.Scope.Plan, b.Scope.Plan),
		owned, cmp.Compare(a.Scope.Resource, b.Scope.Resource),
	)
}

// kindOf is how specific a level is, but for its resource.
func kindOf(at dynalimit.Scope) int {
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
func (c *comparison) loosens(at dynalimit.Scope, stored, to dynalimit.LimitConfig) bool {
	switch {
	case !decides(to):
		return decides(stored)
	case !decides(stored) && c.needed(at):
		return false
	}
	more, less := differences(c.inForce(at), to)
	return more && !less
}

// hid says whether a level that goes hid one that admits less. While entities are on a plan,
// or change theirs, it stays.
func (c *comparison) hid(at dynalimit.Scope, stored dynalimit.LimitConfig) bool {
	if at.Plan != "" || c.needed(at) {
		return false
	}
	below := c.inForce(at, at)
	more, less := differences(stored, below)
	return decides(below) && less && !more
}

// needed says whether entities that change their plans count on a level that is new: it
// comes before they do.
func (c *comparison) needed(at dynalimit.Scope) bool {
	if at.Entity == "" {
		return at.Plan != ""
	}
	e, named := c.m.Entities[at.Entity]
	return named && !e.LimitsOnly && e.Record.Plan != c.live.Entities[at.Entity].Plan
}

// decides says whether a level says which limits are in force.
func decides(l dynalimit.LimitConfig) bool { return l.Unlimited || len(l.Limits) > 0 }

// inForce is what is live and decides where a level is to be, without some levels; the zero
// value if nothing does.
func (c *comparison) inForce(at dynalimit.Scope, without ...dynalimit.Scope) dynalimit.LimitConfig {
	plan := at.Plan
	if at.Entity != "" {
		plan = c.live.Entities[at.Entity].Plan
	}
	all := []dynalimit.Scope{at}
	if at.Entity != "" {
		all = append(all, dynalimit.Scope{Entity: at.Entity})
	}
	if plan != "" {
		all = append(all, dynalimit.Scope{Plan: plan, Resource: at.Resource}, dynalimit.Scope{Plan: plan})
	}
	for _, one := range append(all, dynalimit.Scope{Resource: at.Resource}, dynalimit.Scope{}) {
		if l := c.live.Configs[one]; decides(l) && !slices.Contains(without, one) {
			return l
		}
	}
	return dynalimit.LimitConfig{}
}

// differences says whether a level admits more, and less, than another; what decides
// nothing admits everything.
func differences(from, to dynalimit.LimitConfig) (more, less bool) {
	if !decides(from) || from.Unlimited || to.Unlimited {
		return to.Unlimited && decides(from) && !from.Unlimited, !to.Unlimited
	}
	return limitDifferences(byName(from.Limits), byName(to.Limits))
}

// limitDifferences says whether limits admit more, and less, than those that were there: a
// limit that goes admits more, and one that comes less.
func limitDifferences(was, is map[string]dynalimit.Limit) (more, less bool) {
	for name, a := range was {
		b, stays := is[name]
		if !stays {
			more = true
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

// compareRates compares what two limits regain in the same time.
func compareRates(a, b dynalimit.Limit) int {
	high, low := bits.Mul64(uint64(a.RefillAmount), uint64(b.RefillPeriod))
	high2, low2 := bits.Mul64(uint64(b.RefillAmount), uint64(a.RefillPeriod))
	return cmp.Or(cmp.Compare(high, high2), cmp.Compare(low, low2))
}
