package usage

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Entry is the usage of an entity of a resource in a window, and its place then.
type Entry struct {
	Entity, Resource string
	Place            schema.UsagePlace
	// Net is the growth of its counters; Unrecorded and Pending are the parts of Net without a record,
	// and not yet delivered by the stream.
	Net, Unrecorded, Pending map[string]int64
	Unseen                   map[string]int64
	// Units are the units of its limits; nil without one.
	Units map[string]string
}

// amountMaps returns the entry's own maps of amounts, in the order of sumMaps. Changes of them change e.
func (e *Entry) amountMaps() []map[string]int64 {
	return []map[string]int64{e.Net, e.Unrecorded, e.Unseen, e.Pending}
}

// sumMaps returns the sum's own maps of amounts, in the order of Entry.amountMaps. Changes of them change s.
func sumMaps(s *schema.UsageSum) []map[string]int64 {
	return []map[string]int64{s.Net, s.Unrecorded, s.Unseen, s.Pending}
}

// EntryOf returns the usage of an entity and resource in a snapshot. The gaps and unseen ends before the hour
// come from breaks, not from the snapshot.
func EntryOf(entity, resource string, u schema.UsageSnapshot, place schema.UsagePlace, breaks []Break) Entry {
	sum := NewTally()
	u.Gaps = Gaps(breaks)
	AddSnapshot(&sum, &u)
	for _, b := range breaks {
		addTo(sum.Unseen, b.Limit, b.Unseen)
	}
	return entryOf(entity, resource, place, &sum)
}

// entryOf returns an Entry of an entity and resource with the maps of sum, which it shares, and the place.
func entryOf(entity, resource string, place schema.UsagePlace, sum *schema.UsageSum) Entry {
	return Entry{Entity: entity, Resource: resource, Place: place, Net: sum.Net, Unrecorded: sum.Unrecorded, Unseen: sum.Unseen, Pending: sum.Pending, Units: sum.Units}
}

// WithPending returns a copy of the entry with the pending amounts, which it also adds to Net. It does not
// change e.
func (e Entry) WithPending(pending map[string]int64) Entry {
	e.Net, e.Pending = maps.Clone(e.Net), pending
	AddCounts(e.Net, pending)
	return e
}

// byLimit returns a copy of the entry with its amounts by limit, and by limit and model. If once is true, it
// subtracts the amounts that a parent counted too, and leaves out limits that then have none.
func (e Entry) byLimit(once bool) (out Entry) {
	out = e
	for _, of := range []*map[string]int64{&out.Net, &out.Unrecorded, &out.Unseen, &out.Pending} {
		limits := map[string]int64{}
		for counter, n := range *of {
			if limit, model, passed, ok := schema.SplitModel(counter); ok {
				if !once || !passed {
					one := schema.ModelCounter(limit, model, false)
					limits[one] = saturatedSum(limits[one], n)
				}
				continue
			}
			switch limit, passed := schema.CounterOf(counter); {
			case !passed:
				limits[limit] = saturatedSum(limits[limit], n)
			case once && of != &out.Unseen:
				limits[limit] = saturatedSum(limits[limit], saturatedNegation(n))
			}
		}
		*of = limits
	}
	for limit, n := range out.Net {
		if _, passes := e.Net[schema.PassedOn(limit)]; once && passes && n == 0 && out.Unrecorded[limit] == 0 && out.Pending[limit] == 0 {
			delete(out.Net, limit) // those above counted all of it
			delete(out.Unseen, limit)
		}
	}
	return out
}

// Sums are the sums of one window, by their series.
type Sums struct {
	// Window and Start say which window it is.
	Window schema.UsageWindow
	Start  time.Time
	sums   map[schema.UsageSeries]*schema.UsageSum
	// counted are the entities that a sum has counted.
	counted map[schema.UsageSeries]map[string]bool
}

// NewSums returns a set of sums, empty so far, of the window that begins at start.
func NewSums(window schema.UsageWindow, start time.Time) *Sums {
	return &Sums{
		Window: window, Start: start, sums: map[schema.UsageSeries]*schema.UsageSum{},
		counted: map[schema.UsageSeries]map[string]bool{},
	}
}

// AddGroups adds an entry to the sums of its resource, its plan and its parent's children, and counts its
// entity there. In the sums of resources and plans, amounts that a parent counted too do not count.
func (s *Sums) AddGroups(e Entry) {
	s.eachGroup(e, func(series schema.UsageSeries, part Entry) { s.addEntry(series, part) })
}

// CountEntity counts the entity of a daily sum of its own in the sums of its resource, plan and parent, by the
// sum's place. It adds no amounts, and does nothing without a place.
func (s *Sums) CountEntity(own schema.UsageSum) {
	if own.Place != nil {
		s.eachGroup(entryOf(own.ID, own.Resource, *own.Place, &own), func(series schema.UsageSeries, part Entry) { s.countEntity(series, part) })
	}
}

// eachGroup calls do with the series of the entry's parent, resource and plan, as far as it has them, and with
// the amounts that count there. Resource and plan are left out if a parent counted everything.
func (s *Sums) eachGroup(e Entry, do func(schema.UsageSeries, Entry)) {
	if e.Place.Parent != "" {
		do(s.seriesOf(schema.UsageOfChildren, e.Place.Parent, e.Resource), e.byLimit(false))
	}
	once := e.byLimit(true)
	if len(once.Net) == 0 {
		return
	}
	do(s.seriesOf(schema.UsageOfResource, e.Resource, e.Resource), once)
	if e.Place.Plan != "" {
		do(s.seriesOf(schema.UsageOfPlan, e.Place.Plan, e.Resource), once)
	}
}

// seriesOf returns a series of the window of s.
func (s *Sums) seriesOf(kind schema.UsageKind, id, resource string) schema.UsageSeries {
	return schema.UsageSeries{Kind: kind, ID: id, Resource: resource, Window: s.Window}
}

// AddEntity adds an entry to the sum of its entity, and sets the sum's place and its number of entities to 1.
// Entries of one entity must come in the order of their hours.
func (s *Sums) AddEntity(e Entry) {
	sum := s.addEntry(s.seriesOf(schema.UsageOfEntity, e.Entity, e.Resource), e)
	sum.Entities, sum.Place = 1, &e.Place
}

// addEntry adds an entry to the sum of a series and returns that sum. It counts the entity there if it used
// anything.
func (s *Sums) addEntry(series schema.UsageSeries, e Entry) *schema.UsageSum {
	sum := s.SumOf(series)
	for i, to := range sumMaps(sum) {
		addAll(to, e.amountMaps()[i])
	}
	addUnits(&sum.Units, e.Units)
	s.countEntity(series, e)
	return sum
}

// countEntity counts the entry's entity in the sum of a series, once. It ignores an entry without usage.
func (s *Sums) countEntity(series schema.UsageSeries, e Entry) {
	if len(e.Net) == 0 {
		return
	}
	if s.counted[series] == nil {
		s.counted[series] = map[string]bool{}
	}
	s.counted[series][e.Entity] = true
}

// SumOf returns a pointer to the sum of a series in s. It adds an empty one at the first use.
func (s *Sums) SumOf(series schema.UsageSeries) *schema.UsageSum {
	if s.sums[series] == nil {
		sum := NewTally()
		sum.UsageSeries, sum.Start = series, s.Start
		s.sums[series] = &sum
	}
	return s.sums[series]
}

// AddSum adds the sum of a shorter window to that of its series, whose number of entities becomes the larger of
// both. The sums of a series must come in the order of time, because the place of the last one stays.
func (s *Sums) AddSum(shorter schema.UsageSum) {
	series := shorter.UsageSeries
	series.Window = s.Window
	sum := s.SumOf(series)
	for i, to := range sumMaps(sum) {
		addAll(to, sumMaps(&shorter)[i])
	}
	addUnits(&sum.Units, shorter.Units)
	sum.Entities, sum.Place = max(sum.Entities, shorter.Entities), shorter.Place
}

// All returns copies of all sums with the numbers of their entities, sorted by series. It keeps only the
// largest counters by model of each limit, and drops the others from s for good.
func (s *Sums) All() []schema.UsageSum {
	all := make([]schema.UsageSum, 0, len(s.sums))
	for series, sum := range s.sums {
		one := *sum
		one.Entities = max(one.Entities, int64(len(s.counted[series])))
		dropSmallModels(one.Net, sumMaps(&one))
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b schema.UsageSum) int { return CompareSeries(a.UsageSeries, b.UsageSeries) })
	return all
}

// CompareSeries compares series for sorting: by kind, then id, then resource.
func CompareSeries(a, b schema.UsageSeries) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Resource, b.Resource))
}

// Names returns a new set of the series that have a sum in s.
func (s *Sums) Names() map[schema.UsageSeries]bool {
	all := map[schema.UsageSeries]bool{}
	for series := range s.sums {
		all[series] = true
	}
	return all
}

// addAll adds the numbers of from to those of to, by name, in place; sums stop at 64 bits. A name with 0 is
// added too.
func addAll(to, from map[string]int64) {
	for name, n := range from {
		to[name] = saturatedSum(to[name], n)
	}
}
