package usage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// edge is how long before or after a full hour something is consumed at it: the levels of a
// call are written within less, also where they were debited ahead.
const edge = time.Minute

func newEdges() schema.UsageEdges {
	return schema.UsageEdges{Early: map[string]int64{}, Late: map[string]int64{}}
}

// edgesAt are those of an hour's edges that a moment is at.
func edgesAt(of schema.UsageEdges, hour, at time.Time) (all []map[string]int64) {
	if at.Before(hour.Add(edge)) {
		all = append(all, of.Early)
	}
	if !at.Before(hour.Add(time.Hour - edge)) {
		all = append(all, of.Late)
	}
	return all
}

// side is a full hour that bounds an hour: what was consumed there in the hour, what in the
// one beside it, and how far away that is.
type side struct {
	here, there func(schema.UsageEdges) map[string]int64
	step        time.Duration
}

func early(e schema.UsageEdges) map[string]int64 { return e.Early }
func late(e schema.UsageEdges) map[string]int64  { return e.Late }

// sides are those of every hour.
func sides() []side { return []side{{early, late, -time.Hour}, {late, early, time.Hour}} }

// Beyond is an hour of somebody who others cascade into: the levels of a call that these made
// in an hour beside it may have been counted there.
type Beyond struct {
	Entity, Resource string
	Hour             time.Time
}

// beyond is what somebody counted in an hour, and where it stood.
type beyond struct {
	place schema.UsagePlace
	edges schema.UsageEdges
}

// Beyond are the hours on which it depends what counts in totals, besides those of the
// entries: of those who did not count what others used at a full hour who cascade into them.
// A parent that counts what its children use has none.
func (s *Sums) Beyond() []Beyond {
	wanted := map[Beyond]bool{}
	for b, c := range s.crowds {
		for _, total := range s.totals(b.plan, b.resource) {
			for _, limit := range s.counting(b, total) {
				for _, hour := range s.askedBeyond(b, c, limit) {
					wanted[hour] = true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(wanted), func(a, b Beyond) int {
		return cmp.Or(strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource), a.Hour.Compare(b.Hour))
	})
}

// askedBeyond are the hours in which those above a crowd may have counted what it used of a
// limit at full hours.
func (s *Sums) askedBeyond(b branch, c *crowd, limit string) (all []Beyond) {
	for _, at := range sides() {
		if _, used := at.here(c.edges)[limit]; used {
			all = append(all, s.besides(b, limit, at)...)
		}
	}
	return all
}

// besides are the hours, beside that of a branch, of those above it who did not count a limit
// in the same one: whoever did, counted the calls of that hour there.
func (s *Sums) besides(b branch, limit string, at side) (all []Beyond) {
	for _, above := range b.above.names {
		if !s.levels.counted(owner{above, b.resource}, b.part, "", limit) {
			all = append(all, Beyond{above, b.resource, s.Start.Add(time.Duration(b.part) * time.Hour).Add(at.step)})
		}
	}
	return all
}

// LookBeyond notes what is in an hour that Beyond asked for, and where its entity stood then.
func (s *Sums) LookBeyond(of Beyond, place schema.UsagePlace, u schema.UsageSnapshot) {
	s.beyond[of] = beyond{place, u.Edges}
}

// across is what a crowd used of a limit at full hours, and somebody above it counted on the
// other side of them, while on a plan unless that is ""; false if nobody did.
func (s *Sums) across(b branch, c *crowd, limit, plan string) (n int64, ok bool) {
	for _, at := range sides() {
		used, here := at.here(c.edges)[limit]
		counted := func(of Beyond) bool { return s.beyond[of].counted(c, limit, plan, at) }
		if here && slices.ContainsFunc(s.besides(b, limit, at), counted) {
			n, ok = added(n, used), true
		}
	}
	return n, ok
}

// counted reports whether it has, on the other side of a full hour, the limit that a crowd
// used on this one. It does not where it cascaded into one of the crowd there: of two who
// changed places, each would hide the other.
func (o beyond) counted(c *crowd, limit, plan string, at side) bool {
	_, there := at.there(o.edges)[limit]
	return there && (plan == "" || o.place.Plan == plan) && !slices.ContainsFunc(o.place.Above, func(above string) bool { return c.entities[above] })
}
