package aggregator_test

import (
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// reading is a Reader of a table at a time.
func reading(t *testing.T, db *ddbmem.DB, now time.Time, opts aggregator.ReaderOptions) *aggregator.Reader {
	t.Helper()
	opts.Now = func() time.Time { return now }
	r, err := aggregator.NewReader(db.Client(), "limits", &opts)
	require.NoError(t, err)
	return r
}

// all is what a list has.
func all(t *testing.T, list iter.Seq2[aggregator.Usage, error]) (usage []aggregator.Usage) {
	t.Helper()
	for u, err := range list {
		require.NoError(t, err)
		usage = append(usage, u)
	}
	return usage
}

// TestEntityPending: what the stream has not brought is in the hour that is now, and told.
func TestEntityPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		ctx := t.Context()
		p, err := aggregator.New(w.db.Client(), "limits", nil)
		require.NoError(t, err)
		take := func(n int64) {
			lease, err := w.limiter.Acquire(ctx, "alone", "gpt-4", dynalimit.Amounts{"rpm": n})
			require.NoError(t, err)
			require.NoError(t, lease.Settle(ctx, nil))
		}
		r, err := aggregator.NewReader(w.db.Client(), "limits", &aggregator.ReaderOptions{Now: w.clock})
		require.NoError(t, err)
		read := func() []aggregator.Usage { return all(t, r.Entity(ctx, "alone", aggregator.Query{})) }
		take(3)
		u := read()
		require.Len(t, u, 1)
		assert.Equal(t, []aggregator.LimitUsage{{Limit: "rpm", Consumed: 3000, Pending: 3000}}, u[0].Limits)
		assert.True(t, u[0].Open)
		assert.False(t, u[0].Final)
		w.stream.read()
		w.deliver(p)
		assert.Equal(t, []aggregator.LimitUsage{{Limit: "rpm", Consumed: 3000}}, read()[0].Limits)
		take(2)
		assert.Equal(t, []aggregator.LimitUsage{{Limit: "rpm", Consumed: 5000, Pending: 2000}}, read()[0].Limits)
		w.now.Add(int64(10 * time.Minute)) // into the next hour
		u = read()
		require.Len(t, u, 2)
		assert.EqualValues(t, 3000, u[0].Limits[0].Consumed)
		assert.Equal(t, []aggregator.LimitUsage{{Limit: "rpm", Consumed: 2000, Pending: 2000}}, u[1].Limits, "an hour late")
		w.stream.read()
		w.deliver(p)
		u = read()
		require.Len(t, u, 1)
		assert.EqualValues(t, 5000, u[0].Limits[0].Consumed)
	})
}

// TestReaderRefusesBadInput: before it reads anything, and says what is wrong.
func TestReaderRefusesBadInput(t *testing.T) {
	db, _ := newTable(t, nil)
	for name, test := range map[string]struct {
		client    aggregator.ReaderClient
		table, ns string
	}{"client": {nil, "limits", ""}, "table": {db.Client(), "", ""}, "Namespace": {db.Client(), "limits", "a/b"}} {
		_, err := aggregator.NewReader(test.client, test.table, &aggregator.ReaderOptions{Namespace: test.ns})
		var invalid *dynalimit.ValidationError
		require.ErrorAs(t, err, &invalid, name)
		assert.ErrorContains(t, err, name)
	}
	r := reading(t, db, noon, aggregator.ReaderOptions{})
	ctx, before := t.Context(), db.Meter()
	for want, list := range map[string]iter.Seq2[aggregator.Usage, error]{
		"id":                                r.Entity(ctx, "a#b", aggregator.Query{}),
		"resource: \"a b\"":                 r.Resource(ctx, "a b", aggregator.Query{}),
		"plan":                              r.Plan(ctx, "", aggregator.Query{}),
		"parent":                            r.Children(ctx, "", aggregator.Query{}),
		"query.Resource: \"a#b\"":           r.Entity(ctx, "a", aggregator.Query{Resource: "a#b"}),
		"query.Resource: is \"b\"":          r.Resource(ctx, "a", aggregator.Query{Resource: "b"}),
		"query.Window":                      r.Entities(ctx, aggregator.Query{Window: "week"}),
		"is not before":                     r.Entity(ctx, "a", aggregator.Query{From: noon, To: noon}),
		"more than 10000 windows of a hour": r.Entity(ctx, "a", aggregator.Query{From: noon.AddDate(-2, 0, 0)}),
		"in no year":                        r.Entity(ctx, "a", aggregator.Query{From: noon.AddDate(-200, 0, 0), Window: aggregator.Month}),
	} {
		for u, err := range list {
			var invalid *dynalimit.ValidationError
			require.ErrorAs(t, err, &invalid, want)
			require.ErrorContains(t, err, want)
			assert.Zero(t, u)
		}
	}
	assert.Zero(t, db.Meter().Sub(before).Requests())
}

// TestReadingCosts: a day of an entity and a resource is a query of its hours, with the bucket
// where the hour that is now is in it; times outside are not read. A new Reader also reads the
// table's version record, once.
func TestReadingCosts(t *testing.T) {
	db, p := newTable(t, nil)
	var records []aggregator.Record
	for hour := range 24 * 20 {
		n := int64(hour)
		records = append(records, in("nine byte", record(hour+1, noon.Add(time.Duration(hour)*time.Hour+time.Minute), n, n+1)))
	}
	process(t, p, records...)
	now := noon.Add(20 * 24 * time.Hour)
	cost := func(q aggregator.Query) (requests int64, units float64, windows int) {
		r, before := reading(t, db, now, aggregator.ReaderOptions{}), db.Meter()
		windows = len(all(t, r.Entity(t.Context(), "key-1", q)))
		used := db.Meter().Sub(before)
		return used.Requests(), used.ReadUnits(), windows
	}
	from := noon.Add(5 * 24 * time.Hour)
	requests, units, windows := cost(aggregator.Query{Resource: "gpt-4", From: from, To: from.Add(24 * time.Hour)})
	assert.EqualValues(t, 2, requests)
	assert.Equal(t, 24, windows)
	assert.InDelta(t, 3, units, 0.01)
	requests, units, _ = cost(aggregator.Query{Resource: "gpt-4", To: now.Add(time.Second)})
	assert.EqualValues(t, 3, requests)
	assert.InDelta(t, 4, units, 0.01)
	requests, units, windows = cost(aggregator.Query{Resource: "gpt-4", From: noon, To: now})
	assert.Equal(t, 480, windows)
	assert.InDelta(t, 35, units, 0.01)
	assert.EqualValues(t, 1+5, requests, "five pages")
}
