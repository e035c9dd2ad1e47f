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
	// sets are the sets of limits, each once, by their names.
	sets map[string]*limitSet
}

// owner is whose usage of a resource it is.
type owner struct{ entity, resource string }

// level is what an entity counted in some parts of a window.
type level struct {
	plan   string
	limits *limitSet
	parts  uint32
}

// limitSet are names of limits, in their order.
type limitSet struct{ names []string }

func newLevels() levels { return levels{map[owner][]level{}, map[string]*limitSet{}} }

// note notes that an entity on a plan counted limits, in the order of their names, and
// returns these.
func (l levels) note(of owner, part int, plan string, names []string) *limitSet {
	joined := strings.Join(names, "#")
	set := l.sets[joined]
	if set == nil {
		set = &limitSet{names}
		l.sets[joined] = set
	}
	known := l.seen[of]
	i := slices.IndexFunc(known, func(k level) bool { return k.plan == plan && k.limits == set })
	if i < 0 {
		i, known = len(known), append(known, level{plan: plan, limits: set})
	}
	known[i].parts |= 1 << part
	l.seen[of] = known
	return set
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
	resource, plan, above string
	part                  int
	limits                *limitSet
}

// crowd is what the entities of a branch used together, and which they are.
type crowd struct {
	above    []string
	used     schema.UsageSum
	entities map[string]bool
}

// join adds an entry to the crowd.
func (c *crowd) join(e Entry) {
	c.entities[e.Entity] = true
	for i, to := range amounts(&c.used) {
		plus(to, e.amounts()[i])
	}
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
