package dynalimit

import (
	"context"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// charge is the state of one call: the amounts requested from each bucket (child first), the buckets'
// answers, and the tokens held. A lease is a charge under a lock.
type charge struct {
	desk    *desk
	request request
	policy  UnavailablePolicy
	// levels are the buckets; nil if not even the configuration could be read, or if
	// nothing limits the call.
	levels []level
	// estimates are the amounts charged to quotas when the call began; nil without quotas.
	estimates *estimates
	// consumed is the use according to the caller. The holdings of each level record its fate in that
	// bucket.
	consumed []plan.Signed
	// final means that no further correction follows: the acquire failed as a whole, or SettleSoon ends
	// the lease. unlimited means that a level is unlimited. That level is not in levels: it is charged
	// nothing and has every limit.
	final, unlimited bool
	// unasked means that the policy admitted at some level before its bucket was asked.
	unasked bool
	// tops are the levels that count limits which the lease began to use later, one for each resource;
	// nil without such limits.
	tops map[column]int

	// room is the memory that suffices for most charges: one level, and the requested amounts and
	// holdings of a limit or two.
	room struct {
		levels   [1]level
		asked    [2]plan.Signed
		holdings [2]backlog.Holding
	}
}

// open makes the charge of a request that is about to take the amounts of a cascade.
func (c *charge) open(d *desk, r *request, from *cascade, policy UnavailablePolicy) {
	c.desk, c.request, c.policy, c.unlimited = d, *r, policy, from.unlimited
	c.levels = from.levels(c.room.levels[:0], c.room.asked[:0])
	if len(c.levels) == 1 {
		c.levels[0].holdings = c.room.holdings[:0]
	}
	if len(c.levels) == 1 && len(c.levels[0].asked) == len(r.amounts) {
		c.consumed = c.levels[0].asked // lists are never changed
	} else {
		c.consumed = c.known(signedOf(r.amounts))
	}
	if c.levels == nil && !c.unlimited { // its levels are found by them later, whatever its caller does to them
		c.request.amounts = maps.Clone(r.amounts)
	}
}

// column is one limit on one resource: the entity and its parents count it.
type column struct{ resource, limit string }

// known returns the amounts of limits that some level has, in force or hidden. It drops amounts of
// lifted limits and, if passesOver is true, of unknown ones. Limits that only a parent hides pass in
// Acquire, and so also in corrections.
func (c *charge) known(amounts []plan.Signed) []plan.Signed {
	lifting := slices.ContainsFunc(c.levels, func(lv level) bool { return len(lv.cfg.From().Lifted) > 0 })
	if !c.passesOver() && !lifting {
		return amounts
	}
	named, fallback := c.request.named(namedBuckets(c.levels), c.unlimited), c.desk.routes.fallback
	return slices.DeleteFunc(slices.Clone(amounts), func(a plan.Signed) bool {
		switch {
		case c.has(a.Name):
			return false
		case c.unlimited || named.Lifts(a.Name):
			return true
		}
		return c.passesOver() && !named.Hides(a.Name) && !fallback.Replaced(named, a.Name)
	})
}

// passesOver reports whether to skip amounts of limits that no level has: a level is unlimited, or the
// call has WithIgnoreUnknown. It is false before the levels are known.
func (c *charge) passesOver() bool {
	return c.unlimited || c.request.opts.ignoreUnknown && c.levels != nil
}

// has reports whether some level has a limit.
func (c *charge) has(name string) bool {
	for i := range c.levels {
		if c.levels[i].has(name) {
			return true
		}
	}
	return false
}

// passes reports whether another level, the top, counts the use of a limit at this level too. Totals
// then count it only there.
func (c *charge) passes(at int, limit string) bool {
	in := column{c.levels[at].lane.Resource, limit}
	top, ok := c.tops[in]
	if !ok {
		top = c.highest(in, func(lv *level) *plan.Config { return lv.counts })
	}
	if top < 0 {
		top = c.highest(in, func(lv *level) *plan.Config { return lv.cfg })
	}
	return top >= 0 && at != top
}

// hasRenewedLevel reports whether a level's configuration is not the lease's first one.
func (c *charge) hasRenewedLevel() bool {
	for i := range c.levels {
		if c.levels[i].cfg != c.levels[i].counts {
			return true
		}
	}
	return false
}

// placeCounts chooses the level that counts limits which the lease has not used yet, once a level has
// another configuration: the highest level with the limit. A used limit stays where it was for the life
// of the lease.
func (c *charge) placeCounts(amounts []plan.Signed) {
	for _, a := range amounts {
		if a.Amount == 0 {
			continue
		}
		for i := range c.levels {
			in := column{c.levels[i].lane.Resource, a.Name}
			if slices.ContainsFunc(c.levels, func(lv level) bool { return lv.lane.Resource == in.resource && lv.knows(a.Name) }) {
				continue
			}
			if c.tops == nil {
				c.tops = map[column]int{}
			}
			c.tops[in] = c.highest(in, func(lv *level) *plan.Config { return lv.cfg })
		}
	}
}

// countAs makes further takes of a lease count at the same levels as the lease, and their undo too.
func (c *charge) countAs(lease *charge) {
	c.tops = lease.tops
	for i := range c.levels {
		c.levels[i].counts = lease.levels[i].counts
	}
}

// highest returns the index of the highest level of a column that charges its limit, by the
// configuration that by returns; -1 if there is no such level.
func (c *charge) highest(in column, by func(*level) *plan.Config) int {
	for i := len(c.levels) - 1; i >= 0; i-- {
		if lv := &c.levels[i]; lv.lane.Resource == in.resource && by(lv).Charges(in.limit) {
			return i
		}
	}
	return -1
}

// spread returns the number of levels that must ask their bucket.
func (c *charge) spread() int {
	n := 0
	for i := range c.levels {
		if !c.levels[i].skipped() {
			n++
		}
	}
	return n
}

// denial returns the error of an acquire that did not fit. It has the statuses of every level that
// answered, as they are once the grants are given back.
func (c *charge) denial() *LimitExceededError {
	decided := int64(0) // when the last level did
	for i := range c.levels {
		if lv := &c.levels[i]; lv.answered {
			decided = max(decided, lv.last.Now)
		}
	}
	e := emptyDenial(c.request.entity, c.request.resource)
	for i := range c.levels {
		if lv := &c.levels[i]; lv.answered {
			e.show(&lv.last, lv.asked, lv.held, decided)
		}
	}
	return e.concluded()
}

// bookServed books the amounts served from stocks as granted.
func (c *charge) bookServed() {
	for i := range c.levels {
		if lv := &c.levels[i]; lv.served {
			lv.served = false
			lv.bookServed()
		}
	}
}

// putBackServed returns the served amounts of a call that failed as a whole to the stocks.
func (c *charge) putBackServed(ctx context.Context) {
	for i := range c.levels {
		if lv := &c.levels[i]; lv.served {
			lv.served = false
			lv.lane.Ahead.PutBack(ctx, lv.asked, lv.last.Reading, lv.servedAt)
		}
	}
}
