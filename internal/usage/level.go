package usage

import (
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// levels say who counted which limits of a resource in each part of a window: in each hour,
// or each day of a month. Totals need all of them before they know what counts.
type levels struct {
	seen map[owner][]level
	// sets are the lists of names that there are, each once.
	sets map[string]*nameSet
}

// owner is whose usage of a resource it is.
type owner struct{ entity, resource string }

// level is what an entity counted in some parts of a window, and into whom it cascaded.
type level struct {
	plan          string
	above, limits *nameSet
	parts         uint32
}

// nameSet are names of limits in their order, or of entities, the nearest first.
type nameSet struct{ names []string }

func newLevels() levels { return levels{map[owner][]level{}, map[string]*nameSet{}} }

// set is the one list of names that says what names do.
func (l levels) set(names []string) *nameSet {
	joined := strings.Join(names, "#")
	if l.sets[joined] == nil {
		l.sets[joined] = &nameSet{names}
	}
	return l.sets[joined]
}

// note notes that an entity is of a branch.
func (l levels) note(entity string, b branch) {
	of := owner{entity, b.resource}
	known := l.seen[of]
	i := slices.IndexFunc(known, func(k level) bool { return k.plan == b.plan && k.above == b.above && k.limits == b.limits })
	if i < 0 {
		i, known = len(known), append(known, level{plan: b.plan, above: b.above, limits: b.limits})
	}
	known[i].parts |= 1 << b.part
	l.seen[of] = known
}

// above are those into whom an entity cascaded in a part of the window.
func (l levels) above(of owner, part int) (all []string) {
	for _, k := range l.seen[of] {
		if k.parts&(1<<part) != 0 {
			all = append(all, k.above.names...)
		}
	}
	return all
}

// counted reports whether an entity counted a limit in a part of the window, while it was on
// a plan; "" is any.
func (l levels) counted(of owner, part int, plan, limit string) bool {
	return slices.ContainsFunc(l.seen[of], func(k level) bool {
		if k.parts&(1<<part) == 0 || plan != "" && k.plan != plan {
			return false
		}
		_, has := slices.BinarySearch(k.limits.names, limit)
		return has
	})
}

// partOf is the part of a window that a moment is in.
func partOf(w schema.UsageWindow, start, at time.Time) int {
	long := time.Hour
	if w == schema.UsageMonthly {
		long = 24 * time.Hour
	}
	return int(at.Sub(start) / long)
}

// branch are entities that cascade into the same others, and what they used of the same
// limits in a part of a window: whether it counts is known at the end.
type branch struct {
	resource, plan string
	part           int
	above, limits  *nameSet
}

// crowd is what the entities of a branch used together, and which they are.
type crowd struct {
	used     schema.UsageSum
	edges    schema.UsageEdges
	entities map[string]bool
}

func newCrowd() *crowd { return &crowd{NewTally(), newEdges(), map[string]bool{}} }

// join adds an entry to the crowd.
func (c *crowd) join(e Entry) {
	c.entities[e.Entity] = true
	for i, to := range amounts(&c.used) {
		plus(to, e.amounts()[i])
	}
	plus(c.edges.Early, e.Edges.Early)
	plus(c.edges.Late, e.Edges.Late)
}

// of is what the crowd used of some limits, as an entry of nobody; without any it is of no
// amounts.
func (c *crowd) of(limits []string) (e Entry) {
	e.Net, e.Repaired, e.Missing, e.Unseen, e.Pending = map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}
	to := e.amounts()
	for i, from := range amounts(&c.used) {
		for _, limit := range limits {
			if n, has := from[limit]; has && to[i] != nil {
				to[i][limit] = n
			}
		}
	}
	return e
}

// without is the entry without so much of a limit; without the limit where that was all.
func (e Entry) without(limit string, n int64) {
	e.Net[limit] = added(e.Net[limit], negated(n))
	rest := false
	for _, of := range e.amounts() {
		rest = rest || of[limit] != 0
	}
	if !rest {
		delete(e.Net, limit)
	}
}
