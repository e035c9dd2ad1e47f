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
	// Denied is how many acquires each limit denied. An entry has either this, or usage.
	Denied map[string]int64
}

// EntryOf is the entry of a snapshot, with what is missing between it and the one before.
func EntryOf(entity, resource string, u schema.UsageSnapshot, place schema.UsagePlace, breaks []Break) Entry {
	e := Entry{
		Entity: entity, Resource: resource, Hour: u.Hour, Place: place,
		Net: map[string]int64{}, Repaired: u.Repaired, Missing: map[string]int64{}, Unseen: map[string]int64{},
	}
	for name, s := range u.Spans {
		e.Net[name], e.Missing[name], e.Unseen[name] = s.Net, s.Missing, s.Unseen
	}
	for _, b := range breaks {
		if b.Kind == Between {
			e.Missing[b.Limit] += b.Missing
			e.Unseen[b.Limit] += b.Unseen
		}
	}
	return e
}

// Sums are those of one window, by what they are of.
type Sums struct {
	// Window and Start say which window it is.
	Window schema.UsageWindow
	Start  time.Time
	sums   map[schema.UsageSeries]*schema.UsageSum
	// counted are the entities that a sum has counted.
	counted map[schema.UsageSeries]map[string]bool
}

// NewSums are those of a window, of nothing yet.
func NewSums(window schema.UsageWindow, start time.Time) *Sums {
	return &Sums{Window: window, Start: start, sums: map[schema.UsageSeries]*schema.UsageSum{}, counted: map[schema.UsageSeries]map[string]bool{}}
}

// of are the sums that an entity's usage counts in, besides its own: each entity in at most
// one of a cascade.
func of(place schema.UsagePlace, resource string, window schema.UsageWindow) []schema.UsageSeries {
	var all []schema.UsageSeries
	add := func(kind schema.UsageKind, id string) {
		all = append(all, schema.UsageSeries{Kind: kind, ID: id, Resource: resource, Window: window})
	}
	if place.Top {
		add(schema.UsageOfResource, resource)
	}
	if place.Plan != "" && place.PlanTop {
		add(schema.UsageOfPlan, place.Plan)
	}
	if place.Parent != "" {
		add(schema.UsageOfChildren, place.Parent)
	}
	return all
}

// AddGroups adds an entry to the sums of its resource, its plan and its parent's children.
func (s *Sums) AddGroups(e Entry) {
	for _, series := range of(e.Place, e.Resource, s.Window) {
		s.add(series, e)
	}
}

// AddEntity adds an entry to the sum of its entity. Entries of one come in the order of
// their hours.
func (s *Sums) AddEntity(e Entry) {
	sum := s.add(schema.UsageSeries{Kind: schema.UsageOfEntity, ID: e.Entity, Resource: e.Resource, Window: s.Window}, e)
	sum.Entities, sum.Place = 1, &e.Place
}

func (s *Sums) add(series schema.UsageSeries, e Entry) *schema.UsageSum {
	sum := s.Of(series)
	for _, part := range []struct{ to, from map[string]int64 }{
		{sum.Net, e.Net}, {sum.Repaired, e.Repaired}, {sum.Missing, e.Missing}, {sum.Unseen, e.Unseen}, {sum.Denied, e.Denied},
	} {
		plus(part.to, part.from)
	}
	if len(e.Net) > 0 {
		s.Count(series, e.Entity)
	}
	return sum
}

// Count counts an entity in a sum, once however often it is counted.
func (s *Sums) Count(series schema.UsageSeries, entity string) {
	if s.counted[series] == nil {
		s.counted[series] = map[string]bool{}
	}
	s.counted[series][entity] = true
}

// Of is the sum of a series, 0 if there is none yet.
func (s *Sums) Of(series schema.UsageSeries) *schema.UsageSum {
	if s.sums[series] == nil {
		s.sums[series] = &schema.UsageSum{
			UsageSeries: series, Start: s.Start,
			Net: map[string]int64{}, Repaired: map[string]int64{}, Missing: map[string]int64{}, Unseen: map[string]int64{}, Denied: map[string]int64{},
		}
	}
	return s.sums[series]
}

// AddSum adds a sum of a shorter window to that of its series. Those of one series come in
// the order of their windows.
func (s *Sums) AddSum(shorter schema.UsageSum) {
	series := shorter.UsageSeries
	series.Window = s.Window
	sum := s.Of(series)
	for _, part := range []struct{ to, from map[string]int64 }{
		{sum.Net, shorter.Net}, {sum.Repaired, shorter.Repaired}, {sum.Missing, shorter.Missing}, {sum.Unseen, shorter.Unseen}, {sum.Denied, shorter.Denied},
	} {
		plus(part.to, part.from)
	}
	sum.Entities, sum.Place = max(sum.Entities, shorter.Entities), shorter.Place
}

// CountPlace counts the entity of a sum of its own in the groups of the place where it
// stood.
func (s *Sums) CountPlace(own schema.UsageSum) {
	if own.Place == nil || len(own.Net) == 0 {
		return
	}
	for _, group := range of(*own.Place, own.Resource, s.Window) {
		s.Count(group, own.ID)
	}
}

// Take are the sums so far, in the order of their keys; the next begin with nothing.
func (s *Sums) Take() []schema.UsageSum {
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
		to[name] += from[name]
	}
}
