package usage

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	s.AddGroups(e.WithPending(counts{"rpm": 1, "rpm^": 1, "tpm": 2, "tpm^": 1}))
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
		s.CountEntity(schema.UsageSum{
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

var (
	noon = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	key  = schema.NewKeys("").Bucket("key-1", "gpt-4")
)

type counters = map[string]int64

func change(seq int, at time.Duration, before, after counters) Change {
	number, _ := schema.Sequence(fmt.Sprint(seq))
	return Change{Key: key, Seq: number, At: noon.Add(at), Old: before, New: after}
}

// over is a record of one write that puts a bucket over another.
func over(seq int, at time.Duration, before, after counters) Change {
	c := change(seq, at, before, after)
	c.Buckets = schema.UsageBuckets{First: "old", Last: "new"}
	return c
}

func TestFolds(t *testing.T) {
	type spans = []schema.UsageSpan
	for name, test := range map[string]struct {
		changes []Change
		want    []spans
	}{
		"nothing": {nil, nil},
		"an insert is the first take": {
			[]Change{change(1, 0, nil, counters{"rpm": 1000, "tpm": 500})},
			[]spans{{{Limit: "rpm", Net: 1000, Last: 1000}, {Limit: "tpm", Net: 500, Last: 500}}},
		},
		"takes and refunds": {
			[]Change{change(1, 0, counters{"rpm": 5}, counters{"rpm": 9}), change(2, time.Second, counters{"rpm": 9}, counters{"rpm": 7})},
			[]spans{{{Limit: "rpm", Net: 2, First: 5, Last: 7}}},
		},
		"more back than taken": {
			[]Change{change(1, 0, counters{"rpm": 5}, counters{"rpm": 2})},
			[]spans{{{Limit: "rpm", Net: -3, First: 5, Last: 2}}},
		},
		"what leaves the counters alone": {
			[]Change{change(1, 0, counters{"rpm": 5}, counters{"rpm": 5}), change(2, 0, nil, counters{"rpm": 0})}, nil,
		},
		"by hour of the record": {
			[]Change{change(1, -time.Nanosecond, counters{"rpm": 1}, counters{"rpm": 2}), change(2, 0, counters{"rpm": 2}, counters{"rpm": 4})},
			[]spans{{{Limit: "rpm", Net: 1, First: 1, Last: 2}}, {{Limit: "rpm", Net: 2, First: 2, Last: 4}}},
		},
		"in any order, and twice": {
			[]Change{change(3, 2, counters{"rpm": 4}, counters{"rpm": 9}), change(1, 0, counters{"rpm": 1}, counters{"rpm": 2}), change(2, 1, counters{"rpm": 2}, counters{"rpm": 4}), change(1, 0, counters{"rpm": 1}, counters{"rpm": 2})},
			[]spans{{{Limit: "rpm", Net: 8, First: 1, Last: 9}}},
		},
		"deleted and made again": {
			[]Change{change(1, 0, counters{"rpm": 1}, counters{"rpm": 3}), change(2, 0, counters{"rpm": 3}, nil), change(3, 0, nil, counters{"rpm": 4})},
			[]spans{{{Limit: "rpm", Net: 6, First: 1, Last: 4, Dropped: 3}}},
		},
		"a limit goes, another comes": {
			[]Change{change(1, 0, counters{"rpm": 1, "tpm": 7}, counters{"rpm": 2}), change(2, 0, counters{"rpm": 2}, counters{"rpm": 2, "tpd": 5})},
			[]spans{{{Limit: "rpm", Net: 1, First: 1, Last: 2}, {Limit: "tpd", Net: 5, Last: 5}, {Limit: "tpm", First: 7, Dropped: 7}}},
		},
		"a record is missing": {
			[]Change{change(1, 0, counters{"rpm": 1}, counters{"rpm": 2}), change(3, 0, counters{"rpm": 5}, counters{"rpm": 6})},
			[]spans{{{Limit: "rpm", Net: 2, First: 1, Last: 6, Missing: 3}}},
		},
		"what a level above counts too": {
			[]Change{change(1, 0, counters{"rpm": 1}, counters{"rpm": 9, "rpm^": 8}), change(2, 0, counters{"rpm": 9, "rpm^": 8}, counters{"rpm": 4, "rpm^": 3})},
			[]spans{{{Limit: "rpm", Net: 3, First: 1, Last: 4}, {Limit: "rpm^", Net: 3, Last: 3}}},
		},
		"one bucket is put over another": {
			[]Change{change(1, 0, nil, counters{"rpm": 100, "tpm": 7}), over(2, 0, counters{"rpm": 100, "tpm": 7}, counters{"rpm": 9, "tpd": 4}), change(3, 0, counters{"rpm": 9}, counters{"rpm": 12})},
			[]spans{{{Limit: "rpm", Net: 112, Last: 12, Dropped: 100}, {Limit: "tpd", Net: 4, Last: 4}, {Limit: "tpm", Net: 7, Dropped: 7}}},
		},
		"one bucket is put over another in the next hour": {
			[]Change{change(1, -time.Second, nil, counters{"rpm": 100}), over(2, 0, counters{"rpm": 100}, counters{"rpm": 9})},
			[]spans{{{Limit: "rpm", Net: 100, Last: 100}}, {{Limit: "rpm", Net: 9, First: 100, Last: 9, Dropped: 100}}},
		},
		"one bucket is put over another that counted the same": {
			[]Change{over(1, 0, counters{"rpm": 9}, counters{"rpm": 9}), over(2, 0, counters{"rpm": 0}, counters{"rpm": 0})},
			[]spans{{{Limit: "rpm", Net: 9, First: 9, Last: 9, Dropped: 9}}},
		},
		"an end is missing": {
			[]Change{change(1, 0, counters{"rpm": 1}, counters{"rpm": 2}), change(3, 0, nil, counters{"rpm": 6})},
			[]spans{{{Limit: "rpm", Net: 7, First: 1, Last: 6, Dropped: 2, Unseen: 1}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []spans
			for _, f := range Folds(test.changes, 0) {
				got = append(got, f.Spans)
				for _, s := range f.Spans {
					assert.Zero(t, s.Last+s.Dropped-s.First-s.Net-s.Missing, "%+v does not add up", s)
				}
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestFoldsPerBucket(t *testing.T) {
	other := change(1, 0, nil, counters{"rpm": 1})
	other.Key = schema.NewKeys("eu").Bucket("key-1", "org/gpt-4")
	folds := Folds([]Change{change(2, 0, nil, counters{"rpm": 1}), other}, 24*time.Hour)
	require.Len(t, folds, 2)
	assert.Equal(t, schema.Key{PK: "ENTITY#key-1", SK: "#USAGE#gpt-4#2026-03-29T12:00:00Z"}, folds[0].Key())
	assert.Equal(t, schema.Key{PK: "eu/ENTITY#key-1", SK: "#USAGE#org/gpt-4#2026-03-29T12:00:00Z"}, folds[1].Key())
	assert.Equal(t, noon.Add(25*time.Hour).Unix(), folds[0].Expires)
	assert.EqualValues(t, 1, folds[1].Events)
}

func TestFoldAfter(t *testing.T) {
	all := []Change{change(1, 0, nil, counters{"rpm": 1}), change(20, 0, counters{"rpm": 1}, counters{"rpm": 3}), change(100, 0, counters{"rpm": 3}, counters{"rpm": 9})}
	fold := Folds(all, 0)[0]
	rest, ok := fold.After(all[0].Seq)
	require.True(t, ok)
	assert.Equal(t, []schema.UsageSpan{{Limit: "rpm", Net: 8, First: 1, Last: 9}}, rest.Spans)
	assert.Equal(t, all[1].Seq, rest.From)
	assert.EqualValues(t, 2, rest.Events)
	_, ok = fold.After(all[2].Seq)
	assert.False(t, ok)
	assert.Len(t, fold.Changes, 3, "the whole fold stays as it is")
}

func TestDecode(t *testing.T) {
	item := func(attrs map[string]types.AttributeValue) schema.Item { return attrs }
	full := item(map[string]types.AttributeValue{
		"b_rpm_tc": &types.AttributeValueMemberN{Value: "1000"}, "b_rpm_tk": &types.AttributeValueMemberN{Value: "5"},
		"b_a_tc_tc": &types.AttributeValueMemberN{Value: "-7"}, "b_rpm_up": &types.AttributeValueMemberN{Value: "600"}, "ttl": &types.AttributeValueMemberN{Value: "9"},
		"q_usd_tc": &types.AttributeValueMemberN{Value: "70"}, "q_usd_w": &types.AttributeValueMemberN{Value: "20476"},
	})
	c, ok, err := Decode(key, "000700", noon, nil, full)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Nil(t, c.Old)
	assert.Equal(t, counters{"rpm": 1000, "rpm^": 600, "a_tc": -7, "usd": 70}, c.New)

	for _, other := range []schema.Key{schema.NewKeys("").Meta("key-1"), {PK: "ENTITY#key-1", SK: "#USAGE#gpt-4#2026-03-29T12:00:00Z"}, {PK: "ENTITY#key-1", SK: "#BUCKET#gpt-4#rpm"}, {PK: "xENTITY#key-1", SK: "#BUCKET#gpt-4"}, {PK: "ENTITY#", SK: "#BUCKET#gpt-4"}} {
		_, ok, err := Decode(other, "1", noon, nil, full)
		assert.NoError(t, err)
		assert.False(t, ok, "%+v", other)
	}
	for name, bad := range map[string]func() (Change, bool, error){
		"no number": func() (Change, bool, error) { return Decode(key, "", noon, nil, full) },
		"a word":    func() (Change, bool, error) { return Decode(key, "12x", noon, nil, full) },
		"too long": func() (Change, bool, error) {
			return Decode(key, fmt.Sprintf("%041d", 9)[:0]+"1"+fmt.Sprintf("%040d", 0), noon, nil, full)
		},
		"no time":   func() (Change, bool, error) { return Decode(key, "1", time.Time{}, nil, full) },
		"no images": func() (Change, bool, error) { return Decode(key, "1", noon, nil, nil) },
		"no counter": func() (Change, bool, error) {
			return Decode(key, "1", noon, nil, item(map[string]types.AttributeValue{"b_rpm_tc": &types.AttributeValueMemberS{Value: "1"}}))
		},
		"over 64 bit": func() (Change, bool, error) {
			return Decode(key, "1", noon, nil, item(map[string]types.AttributeValue{"b_rpm_tc": &types.AttributeValueMemberN{Value: "9223372036854775808"}}))
		},
	} {
		_, ok, err := bad()
		assert.True(t, ok, name)
		assert.Error(t, err, name)
	}
}

// TestCalendar: days begin at the first moment that their date is shown, and have as many
// hours as begin in them.
func TestCalendar(t *testing.T) {
	for _, test := range []struct {
		zone, at, start string
		hours           int
	}{
		{"UTC", "2026-03-29T12:00:00Z", "2026-03-29T00:00:00Z", 24},
		{"Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", 23},
		{"Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", 25},
		{"Asia/Kolkata", "2026-03-29T18:29:59Z", "2026-03-28T18:30:00Z", 24},
		{"Asia/Kolkata", "2026-03-29T18:30:00Z", "2026-03-29T18:30:00Z", 24},
		{"America/Havana", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", 23}, // midnight is skipped
		{"America/Havana", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", 25}, // midnight comes twice
	} {
		loc, err := time.LoadLocation(test.zone)
		require.NoError(t, err)
		at, err := time.Parse(time.RFC3339, test.at)
		require.NoError(t, err)
		c := Calendar{Zone: loc}
		start := c.Floor(schema.UsageDaily, at)
		assert.Equal(t, test.start, start.UTC().Format(time.RFC3339), "%s at %s", test.zone, test.at)
		from, to := c.Hours(start, c.Next(schema.UsageDaily, start))
		assert.Equal(t, time.Duration(test.hours)*time.Hour, to.Sub(from), "%s at %s", test.zone, test.at)
	}
}

// TestCalendarHasNoGaps: every moment is in one window, in zones of every kind.
func TestCalendarHasNoGaps(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "America/Havana", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Beirut"} {
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		c := Calendar{Zone: loc}
		for _, w := range []schema.UsageWindow{schema.UsageDaily, schema.UsageMonthly} {
			start := c.Floor(w, time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC))
			for start.Year() < 2013 {
				next := c.Next(w, start)
				require.True(t, start.Before(next), "%s %s", zone, start)
				assert.True(t, start.Equal(c.Floor(w, start)), "%s %s", zone, start)
				assert.True(t, start.Equal(c.Floor(w, next.Add(-time.Nanosecond))) || zone == "America/St_Johns", "%s %s", zone, start)
				start = next
			}
		}
	}
}
