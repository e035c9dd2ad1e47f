package usage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/schema"
)

type counts = map[string]int64

// used is what an entity used of gpt-4: of some limits, and under their names with ^ what of
// that a level above counted too.
func used(entity, parent, plan string, net counts) Entry {
	return Entry{Entity: entity, Resource: "gpt-4", Place: schema.UsagePlace{Parent: parent, Plan: plan}, Net: net}
}

// total is what a sum has, and of how many entities.
type total struct {
	net      counts
	entities int64
}

// totals are the sums by kind and id.
func totals(s *Sums) map[string]total {
	all := map[string]total{}
	for _, sum := range s.All() {
		all[string(sum.Kind)+" "+sum.ID] = total{sum.Net, sum.Entities}
	}
	return all
}

// TestTotalsAreSumsOfWhatNobodyAboveCounted: those of resources and plans; those of children
// are of all that they used.
func TestTotalsAreSumsOfWhatNobodyAboveCounted(t *testing.T) {
	for name, c := range map[string]struct {
		of   []Entry
		want map[string]total
	}{
		"a parent with the same limits": {
			[]Entry{used("key", "team", "", counts{"rpm": 1, "rpm^": 1, "tpm": 10, "tpm^": 10}), used("team", "", "", counts{"rpm": 1, "tpm": 10})},
			map[string]total{"resource gpt-4": {counts{"rpm": 1, "tpm": 10}, 1}, "children team": {counts{"rpm": 1, "tpm": 10}, 1}},
		},
		"a parent with fewer limits": {
			[]Entry{used("team", "", "", counts{"rpm": 4}), used("key", "team", "", counts{"rpm": 4, "rpm^": 4, "tpm": 10})},
			map[string]total{"resource gpt-4": {counts{"rpm": 4, "tpm": 10}, 2}, "children team": {counts{"rpm": 4, "tpm": 10}, 1}},
		},
		"a parent that lost its limit meanwhile": {
			[]Entry{used("team", "", "", counts{"rpm": 6}), used("key", "team", "", counts{"rpm": 1006, "rpm^": 6})},
			map[string]total{"resource gpt-4": {counts{"rpm": 1006}, 2}, "children team": {counts{"rpm": 1006}, 1}},
		},
		"on the plan of one level": {
			[]Entry{used("key", "team", "pro", counts{"rpm": 3, "rpm^": 3}), used("team", "", "free", counts{"rpm": 3})},
			map[string]total{"resource gpt-4": {counts{"rpm": 3}, 1}, "plan free": {counts{"rpm": 3}, 1}, "children team": {counts{"rpm": 3}, 1}},
		},
		"what was given back": {
			[]Entry{used("key", "", "", counts{"rpm": 0})},
			map[string]total{"resource gpt-4": {counts{"rpm": 0}, 1}},
		},
	} {
		s := NewSums(schema.UsageHourly, noon)
		for _, e := range c.of {
			s.AddGroups(e)
		}
		assert.Equal(t, c.want, totals(s), name)
	}
}

// TestWhatIsPendingCountsWithItsLimit, and what no record told.
func TestWhatIsPendingCountsWithItsLimit(t *testing.T) {
	s := NewSums(schema.UsageHourly, noon)
	e := used("key", "team", "", counts{"rpm": 10, "rpm^": 10, "tpm": 14, "tpm^": 4})
	e.Unseen, e.Unrecorded = counts{"tpm": 1, "tpm^": 1}, counts{"rpm": 2, "rpm^": 2, "tpm": 9, "tpm^": 3}
	s.AddGroups(e.With(counts{"rpm": 1, "rpm^": 1, "tpm": 2, "tpm^": 1}))
	sum := s.All()[1]
	assert.Equal(t, schema.UsageOfResource, sum.Kind)
	assert.Equal(t, counts{"tpm": 11}, sum.Net)
	assert.EqualValues(t, 1, sum.Pending["tpm"])
	assert.EqualValues(t, 6, sum.Unrecorded["tpm"])
	assert.Equal(t, counts{"tpm": 1}, sum.Unseen)
	assert.Equal(t, counts{"rpm": 10, "rpm^": 10, "tpm": 14, "tpm^": 4}, e.Net, "it is as it was")
}

// TestGapsCountInTheHourAfterThem, also of what a level above counted too.
func TestGapsCountInTheHourAfterThem(t *testing.T) {
	u := schema.UsageSnapshot{Hour: noon, Spans: map[string]schema.UsageSpan{
		"rpm": {Limit: "rpm", First: 40, Last: 50, Net: 7, Missing: 3}, "rpm^": {Limit: "rpm^", First: 30, Last: 35, Net: 5},
	}}
	breaks := Breaks(u, Ends{"rpm": {Last: 20, Hour: noon.Add(-time.Hour)}})
	e := EntryOf("key", "gpt-4", u, schema.UsagePlace{}, breaks)
	assert.Equal(t, counts{"rpm": 30, "rpm^": 35}, e.Net, "what is above began where nothing was")
	assert.Equal(t, counts{"rpm": 23, "rpm^": 30}, e.Unrecorded)
}

// TestPlacesOfAMonthCountEntities by what they counted each day.
func TestPlacesOfAMonthCountEntities(t *testing.T) {
	s := NewSums(schema.UsageMonthly, schema.UsageMonthly.Floor(noon))
	own := func(id string, day int, net counts) {
		s.CountPlace(schema.UsageSum{
			UsageSeries: schema.UsageSeries{Kind: schema.UsageOfEntity, ID: id, Resource: "gpt-4", Window: schema.UsageDaily},
			Start:       schema.UsageDaily.Floor(noon.AddDate(0, 0, day)), Net: net, Place: &schema.UsagePlace{},
		})
	}
	own("key-1", 0, counts{"rpm": 1, "rpm^": 1})
	own("key-2", 0, counts{"tpm": 1})
	own("team", 0, counts{"rpm": 1})
	own("team", 1, counts{"rpm": 1})
	own("solo", 1, counts{"rpm": 1})
	s.AddSum(schema.UsageSum{
		UsageSeries: schema.UsageSeries{Kind: schema.UsageOfResource, ID: "gpt-4", Resource: "gpt-4", Window: schema.UsageDaily},
		Net:         counts{"rpm": 3, "tpm": 1}, Entities: 2,
	})
	assert.Equal(t, map[string]total{"resource gpt-4": {counts{"rpm": 3, "tpm": 1}, 3}}, totals(s))
}
