package usage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// used is what an entity used of gpt-4 in the hour of noon.
func used(entity, plan string, net map[string]int64, above ...string) Entry {
	parent := ""
	if len(above) > 0 {
		parent = above[0]
	}
	return Entry{Entity: entity, Resource: "gpt-4", Hour: noon, Place: schema.UsagePlace{Parent: parent, Plan: plan, Above: above}, Net: net}
}

type counts = map[string]int64

// total is what a sum has, and of how many entities.
type total struct {
	net      counts
	entities int64
}

// totals are the sums by kind and id.
func totals(s *Sums) map[string]total {
	all := map[string]total{}
	for _, sum := range s.Take() {
		all[string(sum.Kind)+" "+sum.ID] = total{sum.Net, sum.Entities}
	}
	return all
}

// TestTotalsCountEachLimitOnce of a cascade: at the highest level that counted it.
func TestTotalsCountEachLimitOnce(t *testing.T) {
	for name, c := range map[string]struct {
		of   []Entry
		want map[string]total
	}{
		"a parent with the same limits": {
			[]Entry{used("key", "", counts{"rpm": 1, "tpm": 10}, "team"), used("team", "", counts{"rpm": 1, "tpm": 10})},
			map[string]total{"resource gpt-4": {counts{"rpm": 1, "tpm": 10}, 1}, "children team": {counts{"rpm": 1, "tpm": 10}, 1}},
		},
		"a parent that nothing limits": {
			[]Entry{used("key", "", counts{"rpm": 1}, "team"), used("key-2", "", counts{"rpm": 5}, "team")},
			map[string]total{"resource gpt-4": {counts{"rpm": 6}, 2}, "children team": {counts{"rpm": 6}, 2}},
		},
		"a parent with fewer limits": {
			[]Entry{used("team", "", counts{"rpm": 4}), used("key", "", counts{"rpm": 4, "tpm": 10}, "team")},
			map[string]total{"resource gpt-4": {counts{"rpm": 4, "tpm": 10}, 2}, "children team": {counts{"rpm": 4, "tpm": 10}, 1}},
		},
		"the middle of three is unlimited": {
			[]Entry{used("key", "", counts{"rpm": 3, "tpm": 7}, "team", "org"), used("org", "", counts{"rpm": 3})},
			map[string]total{"resource gpt-4": {counts{"rpm": 3, "tpm": 7}, 2}, "children team": {counts{"rpm": 3, "tpm": 7}, 1}},
		},
		"the highest of three is unlimited": {
			[]Entry{used("key", "", counts{"rpm": 3}, "team", "org"), used("team", "", counts{"rpm": 5}, "org")},
			map[string]total{"resource gpt-4": {counts{"rpm": 5}, 1}, "children team": {counts{"rpm": 3}, 1}, "children org": {counts{"rpm": 5}, 1}},
		},
		"a parent whose bucket went and counted nothing": {
			[]Entry{
				used("key", "", counts{"rpm": 3}, "team"),
				EntryOf("team", "gpt-4", schema.UsageSnapshot{Hour: noon, Spans: map[string]schema.UsageSpan{"rpm": {Limit: "rpm", First: 9, Dropped: 9}}}, schema.UsagePlace{}, nil),
			},
			map[string]total{"resource gpt-4": {counts{"rpm": 3}, 1}, "children team": {counts{"rpm": 3}, 1}},
		},
		"on the plan of the highest": {
			[]Entry{used("key", "pro", counts{"rpm": 3}, "team", "org"), used("team", "free", counts{"rpm": 3}, "org"), used("org", "pro", counts{"rpm": 3})},
			map[string]total{
				"resource gpt-4": {counts{"rpm": 3}, 1}, "plan pro": {counts{"rpm": 3}, 1}, "plan free": {counts{"rpm": 3}, 1},
				"children team": {counts{"rpm": 3}, 1}, "children org": {counts{"rpm": 3}, 1},
			},
		},
		"each above the other": {
			[]Entry{used("key", "pro", counts{"rpm": 3}, "team", "org"), used("team", "pro", counts{"rpm": 3}, "org"), used("org", "pro", counts{"rpm": 3}, "team")},
			map[string]total{
				"resource gpt-4": {counts{"rpm": 3}, 1}, "plan pro": {counts{"rpm": 3}, 1}, "children team": {counts{"rpm": 6}, 2}, "children org": {counts{"rpm": 3}, 1},
			},
		},
		"in a ring": {
			[]Entry{used("a", "", counts{"rpm": 3}, "b"), used("b", "", counts{"rpm": 3}, "c"), used("c", "", counts{"rpm": 3}, "a")},
			map[string]total{"resource gpt-4": {counts{"rpm": 3}, 1}, "children a": {counts{"rpm": 3}, 1}, "children b": {counts{"rpm": 3}, 1}, "children c": {counts{"rpm": 3}, 1}},
		},
		"above itself": {
			[]Entry{used("a", "", counts{"rpm": 3}, "a")},
			map[string]total{"resource gpt-4": {counts{"rpm": 3}, 1}, "children a": {counts{"rpm": 3}, 1}},
		},
		"on the plan of one with other limits": {
			[]Entry{used("key", "pro", counts{"rpm": 3}, "team"), used("team", "pro", counts{"tpm": 8})},
			map[string]total{"resource gpt-4": {counts{"rpm": 3, "tpm": 8}, 2}, "plan pro": {counts{"rpm": 3, "tpm": 8}, 2}, "children team": {counts{"rpm": 3}, 1}},
		},
	} {
		for _, reversed := range []bool{false, true} {
			s := NewSums(schema.UsageHourly, noon)
			for i := range c.of {
				if reversed {
					i = len(c.of) - 1 - i
				}
				s.AddGroups(c.of[i])
			}
			assert.Equal(t, c.want, totals(s), name)
			assert.Empty(t, s.Take(), name)
		}
	}
}

// TestTotalsOfADayAreThoseOfItsHours: a parent with limits in one hour and none in the next.
func TestTotalsOfADayAreThoseOfItsHours(t *testing.T) {
	day := schema.UsageDaily.Floor(noon)
	s := NewSums(schema.UsageDaily, day)
	for hour := range 24 {
		e, team := used("key", "", counts{"rpm": 1}, "team"), used("team", "", counts{"rpm": 100})
		e.Hour = day.Add(time.Duration(hour) * time.Hour)
		team.Hour = e.Hour
		if s.AddGroups(e); hour%2 == 0 {
			s.AddGroups(team)
		}
	}
	assert.Equal(t, total{counts{"rpm": 12 + 1200}, 2}, totals(s)["resource gpt-4"])
}

// TestWhatIsPendingCountsWithItsLimit, and what is missing or repaired.
func TestWhatIsPendingCountsWithItsLimit(t *testing.T) {
	s := NewSums(schema.UsageHourly, noon)
	e := used("key", "", counts{"rpm": 3, "tpm": 5}, "team")
	e.Missing, e.Unseen, e.Repaired, e.Ended = counts{"rpm": 7, "tpm": 9}, counts{"tpm": 1}, counts{"rpm": 2, "tpm": 1}, map[string]bool{}
	s.AddGroups(e.With(counts{"rpm": 1, "tpm": 2}))
	s.AddGroups(used("team", "", counts{"rpm": 100}))
	all := s.Take()
	assert.Len(t, all, 2)
	sum := all[1]
	assert.Equal(t, schema.UsageOfResource, sum.Kind)
	assert.Equal(t, counts{"rpm": 100, "tpm": 7}, sum.Net)
	assert.Equal(t, counts{"tpm": 2}, sum.Pending)
	assert.Equal(t, counts{"tpm": 9}, sum.Missing)
	assert.Equal(t, counts{"tpm": 1}, sum.Unseen)
	assert.Equal(t, counts{"tpm": 1}, sum.Repaired)
	assert.Equal(t, counts{"rpm": 3, "tpm": 5}, e.Net, "it is as it was")
}

// TestDenialsOfAllLevelsCount: each is told of the level that denied.
func TestDenialsOfAllLevelsCount(t *testing.T) {
	s := NewSums(schema.UsageHourly, noon)
	for entity, above := range map[string][]string{"key": {"team", "org"}, "team": {"org"}, "org": nil} {
		e := used(entity, "pro", nil, above...)
		e.Denied = counts{"rpm": 1}
		s.AddGroups(e)
	}
	denied := map[schema.UsageKind]int64{}
	for _, sum := range s.Take() {
		denied[sum.Kind] += sum.Denied["rpm"]
		assert.Zero(t, sum.Entities, "none used anything")
	}
	assert.Equal(t, map[schema.UsageKind]int64{schema.UsageOfResource: 3, schema.UsageOfPlan: 3, schema.UsageOfChildren: 2}, denied)
}

// TestPlacesOfAMonthCountEntities by what they counted each day.
func TestPlacesOfAMonthCountEntities(t *testing.T) {
	s := NewSums(schema.UsageMonthly, schema.UsageMonthly.Floor(noon))
	own := func(id string, day int, net counts, above ...string) {
		s.CountPlace(schema.UsageSum{
			UsageSeries: schema.UsageSeries{Kind: schema.UsageOfEntity, ID: id, Resource: "gpt-4", Window: schema.UsageDaily},
			Start:       schema.UsageDaily.Floor(noon.AddDate(0, 0, day)), Net: net, Place: &schema.UsagePlace{Above: above},
		})
	}
	own("key-1", 0, counts{"rpm": 1}, "team")
	own("key-2", 0, counts{"tpm": 1}, "team")
	own("team", 0, counts{"rpm": 1})
	own("team", 1, counts{"rpm": 1})
	own("solo", 1, counts{"rpm": 1})
	s.AddSum(schema.UsageSum{
		UsageSeries: schema.UsageSeries{Kind: schema.UsageOfResource, ID: "gpt-4", Resource: "gpt-4", Window: schema.UsageDaily},
		Net:         counts{"rpm": 3, "tpm": 1}, Entities: 2,
	})
	assert.Equal(t, map[string]total{"resource gpt-4": {counts{"rpm": 3, "tpm": 1}, 3}}, totals(s))
}

// TestPlaceIsWhatACallCharges: the chain of parents, as far as each cascades.
func TestPlaceIsWhatACallCharges(t *testing.T) {
	records := map[string]schema.EntityRecord{
		"key":  {ParentID: "team", Cascade: true, Plan: "pro"},
		"team": {ParentID: "org", Cascade: true},
		"org":  {ParentID: "root"},
		"a":    {ParentID: "b", Cascade: true}, "b": {ParentID: "a", Cascade: true},
		"lost": {ParentID: "gone", Cascade: true},
	}
	for i := range 20 {
		records[string(rune('A'+i))] = schema.EntityRecord{ParentID: string(rune('A' + i + 1)), Cascade: true}
	}
	record := func(id string) (schema.EntityRecord, bool) { r, ok := records[id]; return r, ok }
	above := func(id string) []string {
		p, known := Place(id, record)
		assert.True(t, known)
		return p.Above
	}
	assert.Equal(t, []string{"team", "org"}, above("key"))
	assert.Empty(t, above("org"), "it does not cascade")
	assert.Equal(t, []string{"b"}, above("a"))
	assert.Equal(t, []string{"gone"}, above("lost"))
	assert.Equal(t, []string{"B", "C", "D", "E", "F", "G", "H"}, above("A"), "a call charges eight levels")
	p, known := Place("nobody", record)
	assert.False(t, known)
	assert.Equal(t, schema.UsagePlace{}, p)
	p, _ = Place("key", record)
	assert.Equal(t, schema.UsagePlace{Parent: "team", Plan: "pro", Above: []string{"team", "org"}}, p)
}
