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

// TestEntityHours: hours come in their order, without those in which nothing was used, and
// only those between the bounds.
func TestEntityHours(t *testing.T) {
	db, p := newTable(t, nil)
	for i, hour := range []int{0, 1, 3} {
		at := noon.Add(time.Duration(hour) * time.Hour)
		process(t, p, record(i+1, at, int64(10*i), int64(10*i+10)))
	}
	now := noon.Add(48 * time.Hour)
	want := func(hour int) aggregator.Usage {
		start := noon.Add(time.Duration(hour) * time.Hour)
		return aggregator.Usage{
			Entity: "key-1", Resource: "gpt-4", Window: aggregator.Hour, Start: start, End: start.Add(time.Hour),
			Limits: []aggregator.LimitUsage{{Limit: "rpm", Consumed: 10}}, Entities: 1, Final: true,
		}
	}
	r := reading(t, db, now, aggregator.ReaderOptions{})
	for _, resource := range []string{"", "gpt-4"} {
		q := aggregator.Query{Resource: resource, From: noon.Add(30 * time.Minute), To: noon.Add(3 * time.Hour)}
		assert.Equal(t, []aggregator.Usage{want(0), want(1)}, all(t, r.Entity(t.Context(), "key-1", q)), "%q", resource)
		q.To = q.To.Add(time.Nanosecond)
		assert.Equal(t, []aggregator.Usage{want(0), want(1), want(3)}, all(t, r.Entity(t.Context(), "key-1", q)), "%q", resource)
	}
	assert.Empty(t, all(t, r.Entity(t.Context(), "key-1", aggregator.Query{})))
	assert.Empty(t, all(t, r.Entity(t.Context(), "key-2", aggregator.Query{From: noon, To: now})))
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
