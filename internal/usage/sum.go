package usage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Entry is what an entity used of a resource in an hour, and where it stood then.
type Entry struct {
	Entity, Resource string
	Hour             time.Time
	Place            schema.UsagePlace
	Net, Repaired    map[string]int64
	Missing, Unseen  map[string]int64
	// Pending is what of Net the stream has not brought.
	Pending map[string]int64
	// Ended are limits that the hour tells nothing of but that their counters went, with what
	// they held: nobody counted by them.
	Ended map[string]bool
	// Edges are what of Net was used at the full hours that bound the hour.
	Edges schema.UsageEdges
	// Denied is how many acquires each limit denied. An entry has either this, or usage.
	Denied map[string]int64
}

func (e *Entry) amounts() []map[string]int64 {
	return []map[string]int64{e.Net, e.Repaired, e.Missing, e.Unseen, e.Pending, e.Denied}
}

// amounts are those of a sum, in the order of an entry's.
func amounts(s *schema.UsageSum) []map[string]int64 {
	return []map[string]int64{s.Net, s.Repaired, s.Missing, s.Unseen, s.Pending, s.Denied}
}

// EntryOf is the entry of a snapshot, with what is missing between it and the one before.
func EntryOf(entity, resource string, u schema.UsageSnapshot, place schema.UsagePlace, breaks []Break) Entry {
	e := Entry{
		Entity: entity, Resource: resource, Hour: u.Hour, Place: place,
		Net: map[string]int64{}, Repaired: u.Repaired, Missing: map[string]int64{}, Unseen: map[string]int64{}, Ended: map[string]bool{}, Edges: u.Edges,
	}
	for name, s := range u.Spans {
		e.Net[name], e.Missing[name], e.Unseen[name] = s.Net, s.Missing, s.Unseen
		e.Ended[name] = s.Ended()
	}
	for _, b := range breaks {
		if b.Kind == Between {
			e.Missing[b.Limit] = added(e.Missing[b.Limit], b.Missing)
			e.Unseen[b.Limit] += b.Unseen
			e.Ended[b.Limit] = false
		}
	}
	return e
}

// With is the entry with what the stream has not brought.
func (e Entry) With(pending map[string]int64) Entry {
	e.Net, e.Pending = maps.Clone(e.Net), pending
	for name, n := range pending {
		e.Net[name] = added(e.Net[name], n)
		e.Ended[name] = e.Ended[name] && n == 0
	}
	return e
}

// Sums are those of one window, by what they are of.
type Sums struct {
	// Window and Start say which window it is.
	Window schema.UsageWindow
	Start  time.Time
	// Asked says which totals are asked for; nil is all.
	Asked func(schema.UsageSeries) bool
	sums  map[schema.UsageSeries]*schema.UsageSum
	// counted are the entities that a sum has counted.
	counted map[schema.UsageSeries]map[string]bool
	// levels are who counted what, and crowds those of whom the totals count what these did
	// not, in the same hour or beyond it.
	levels levels
	crowds map[branch]*crowd
	beyond map[Beyond]beyond
}

// NewSums are those of a window, of nothing yet.
func NewSums(window schema.UsageWindow, start time.Time) *Sums {
	return &Sums{
		Window: window, Start: start, sums: map[schema.UsageSeries]*schema.UsageSum{}, counted: map[schema.UsageSeries]map[string]bool{},
		levels: newLevels(), crowds: map[branch]*crowd{}, beyond: map[Beyond]beyond{},
	}
}

// AddGroups adds an entry to the sums of its resource, its plan and its parent's children.
// Each limit counts once in a total: where the entity cascades into others that counted the
// limit in the same hour, only theirs counts; in a plan's, where those were on the plan. A
// denial is told of the level that denied, and counts there.
func (s *Sums) AddGroups(e Entry) {
	if e.Place.Parent != "" {
		s.put(s.series(schema.UsageOfChildren, e.Place.Parent, e.Resource), e)
	}
	if e.Net == nil {
		for _, total := range s.totals(e.Place.Plan, e.Resource) {
			s.put(total, e)
		}
		return
	}
	s.addTotals(e, slices.Sorted(maps.Keys(e.Net)))
}

// addTotals adds an entry of usage of some limits to totals.
func (s *Sums) addTotals(e Entry, limits []string) {
	b := branch{resource: e.Resource, plan: e.Place.Plan, part: partOf(s.Window, s.Start, e.Hour)}
	b.above = s.levels.set(WithoutLoops(e.Entity, e.Place.Above, func(entity string) []string {
		return s.levels.above(owner{entity, e.Resource}, b.part)
	}))
	b.limits = s.levels.set(slices.DeleteFunc(limits, func(name string) bool { return e.Ended[name] }))
	s.levels.note(e.Entity, b)
	c := s.crowds[b]
	if c == nil {
		c = newCrowd()
		s.crowds[b] = c
	}
	c.join(e)
}

// settle adds to totals what counts in them, once all levels are known.
func (s *Sums) settle() {
	for b, c := range s.crowds {
		for _, total := range s.totals(b.plan, b.resource) {
			s.putCrowd(total, b, c)
		}
	}
	clear(s.crowds)
	clear(s.beyond)
	s.levels = newLevels()
}

// planOf is the plan on which somebody has to be to count in a total; "" is any.
func planOf(total schema.UsageSeries) string {
	if total.Kind == schema.UsageOfPlan {
		return total.ID
	}
	return ""
}

// counting are the limits of a branch that nobody above it counted in the same part of the
// window, for a total.
func (s *Sums) counting(b branch, total schema.UsageSeries) (limits []string) {
	for _, limit := range b.limits.names {
		if Counts(b.above.names, func(entity string) bool {
			return s.levels.counted(owner{entity, b.resource}, b.part, planOf(total), limit)
		}) {
			limits = append(limits, limit)
		}
	}
	return limits
}

// putCrowd adds to a total what a crowd used and nobody above it counted, and counts who they
// are.
func (s *Sums) putCrowd(total schema.UsageSeries, b branch, c *crowd) {
	limits := s.counting(b, total)
	e := c.of(limits)
	for _, limit := range limits {
		if n, counted := s.across(b, c, limit, planOf(total)); counted {
			e.without(limit, n)
		}
	}
	if len(c.used.Net) > 0 && len(e.Net) == 0 || len(limits) == 0 {
		return
	}
	if len(e.Net) > 0 {
		s.put(total, e)
	}
	for entity := range c.entities {
		s.count(total, entity)
	}
}

// totals are those that usage counts in, once for each cascade.
func (s *Sums) totals(plan, resource string) []schema.UsageSeries {
	all := []schema.UsageSeries{s.series(schema.UsageOfResource, resource, resource)}
	if plan != "" {
		all = append(all, s.series(schema.UsageOfPlan, plan, resource))
	}
	if s.Asked != nil {
		all = slices.DeleteFunc(all, func(total schema.UsageSeries) bool { return !s.Asked(total) })
	}
	return all
}

func (s *Sums) series(kind schema.UsageKind, id, resource string) schema.UsageSeries {
	return schema.UsageSeries{Kind: kind, ID: id, Resource: resource, Window: s.Window}
}

// AddEntity adds an entry to the sum of its entity. Entries of one come in the order of
// their hours.
func (s *Sums) AddEntity(e Entry) {
	sum := s.put(s.series(schema.UsageOfEntity, e.Entity, e.Resource), e)
	sum.Entities, sum.Place = 1, &e.Place
}

// put adds an entry to a sum, and counts its entity there if it used anything.
func (s *Sums) put(series schema.UsageSeries, e Entry) *schema.UsageSum {
	sum := s.Of(series)
	for i, to := range amounts(sum) {
		plus(to, e.amounts()[i])
	}
	if len(e.Net) > 0 && e.Entity != "" {
		s.count(series, e.Entity)
	}
	return sum
}

// count counts an entity in a sum, once however often it is counted.
func (s *Sums) count(series schema.UsageSeries, entity string) {
	if s.counted[series] == nil {
		s.counted[series] = map[string]bool{}
	}
	s.counted[series][entity] = true
}

// Of is the sum of a series, 0 if there is none yet.
func (s *Sums) Of(series schema.UsageSeries) *schema.UsageSum {
	if s.sums[series] == nil {
		sum := NewTally()
		sum.UsageSeries, sum.Start = series, s.Start
		s.sums[series] = &sum
	}
	return s.sums[series]
}

// AddSum adds a sum of a shorter window to that of its series. Those of one series come in
// the order of their windows.
func (s *Sums) AddSum(shorter schema.UsageSum) {
	series := shorter.UsageSeries
	series.Window = s.Window
	sum := s.Of(series)
	for i, to := range amounts(sum) {
		plus(to, amounts(&shorter)[i])
	}
	sum.Entities, sum.Place = max(sum.Entities, shorter.Entities), shorter.Place
}

// CountPlace counts the entity of a sum of its own in the groups of the place where it
// stood, of the same day.
func (s *Sums) CountPlace(own schema.UsageSum) {
	if own.Place == nil || len(own.Net) == 0 {
		return
	}
	e := Entry{Entity: own.ID, Resource: own.Resource, Hour: own.Start, Place: *own.Place}
	if e.Place.Parent != "" {
		s.count(s.series(schema.UsageOfChildren, e.Place.Parent, e.Resource), e.Entity)
	}
	s.addTotals(e, slices.Sorted(maps.Keys(own.Net)))
}

// Take are the sums so far, in the order of their keys; the next begin with nothing.
func (s *Sums) Take() []schema.UsageSum {
	s.settle()
	all := make([]schema.UsageSum, 0, len(s.sums))
	for series, sum := range s.sums {
		sum.Entities = max(sum.Entities, int64(len(s.counted[series])))
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b schema.UsageSum) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.ID, b.ID), strings.Compare(a.Resource, b.Resource))
	})
	clear(s.sums)
	clear(s.counted)
	return all
}

func plus(to, from map[string]int64) {
	for name := range maps.Keys(from) {
		to[name] = added(to[name], from[name])
	}
}
