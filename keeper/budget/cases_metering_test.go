package budget

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

func TestCaseB8ReplayIsANoOp(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		first := w.submit(w.a, call(1))
		for _, k := range []*Keeper{w.a, w.b} {
			again := w.submit(k, call(1))
			assert.True(t, again.Duplicate)
			assert.Equal(t, first.CostMicros, again.CostMicros)
			assert.Equal(t, first.Shard, again.Shard)
			assert.Equal(t, first.PriceVersion, again.PriceVersion)
			assert.Equal(t, int64(16_500), again.SpendMicros)
		}
		got := w.total(appA, "premium", "")
		assert.Equal(t, int64(16_500), got.CostMicros)
		assert.Equal(t, int64(1), got.Requests)
	})
}

func TestCaseB10SameIDDifferentBody(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.submit(w.a, call(1))
		other := call(1)
		other.Tokens.Output = 801
		_, err := w.b.Submit(t.Context(), orgO, appA, other)
		require.ErrorIs(t, err, ErrConflict)
		assert.Equal(t, int64(16_500), w.total(appA, "premium", "").CostMicros)

		sameInOtherWords := call(1)
		sameInOtherWords.Status, sameInOtherWords.Time = "", fixtureNow.In(time.FixedZone("", 3600))
		assert.True(t, w.submit(w.b, sameInOtherWords).Duplicate)
	})
}

// TestCountedRecordStaysADuplicate: it is looked for before a label, a window
// or a price refuses the record.
func TestCountedRecordStaysADuplicate(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.submit(w.a, call(1))
		o := fixtureOrg()
		o.Ordering = []string{"standard", "economy"}
		w.org(o)
		assert.True(t, w.submit(w.a, call(1)).Duplicate, "the label is gone")
		w.clock.Advance(25 * time.Hour)
		r := w.submit(w.b, call(1))
		assert.True(t, r.Duplicate, "the window is over")
		assert.Equal(t, "20990123", r.Day)
		conflicting := call(1)
		conflicting.Tokens.Input = 1
		_, err := w.b.Submit(t.Context(), orgO, appA, conflicting)
		require.ErrorIs(t, err, ErrConflict)
	})
}

func TestCaseB12NoLostUpdates(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		together(16, 1000, func(i int) {
			k := w.a
			if i%2 == 1 {
				k = w.b
			}
			_, err := w.send(k, call(i))
			assert.NoError(t, err)
		})
		got := w.total(appA, "premium", "20990123")
		assert.Equal(t, int64(16_500_000), got.CostMicros)
		assert.Equal(t, prices.Tokens{Input: 1_500_000, Output: 800_000}, got.Tokens)
		assert.Equal(t, int64(1000), got.Requests)
	})
}

// TestCaseB13VolumePastTheWall sends 12,000 records to one shard.
func TestCaseB13VolumePastTheWall(t *testing.T) {
	w := newWorld(t)
	o := fixtureOrg()
	o.Shards = 1
	o.Quotas["premium"] = maxQuota
	w.org(o)
	w.submit(w.a, call(0))
	cost := func(n int) float64 {
		before := w.db.Meter()
		w.submit(w.a, call(n))
		return w.db.Meter().Sub(before).WriteUnits()
	}
	first := cost(1)
	batches := 120
	if few(t) {
		batches = 12
	}
	for batch := range batches {
		usages := make([]prices.Usage, 100)
		for i := range usages {
			usages[i] = call(1000 + batch*100 + i)
		}
		results, err := w.a.SubmitBatch(t.Context(), orgO, appA, usages)
		require.NoError(t, err)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
	}
	assert.InDelta(t, first, cost(20_000), 0, "the last costs what the first did")
	got := w.total(appA, "premium", "")
	assert.Equal(t, int64(batches*100+3), got.Requests)
	assert.Equal(t, int64(batches*100+3)*16_500, got.CostMicros)
	counters := w.items(ledger.LabelPartition(ledger.AppScope(orgO, appA), "premium"))
	require.Len(t, counters, 1)
	assert.Less(t, fixture.Size(counters[0]), 1024)
}

func TestCaseB15LateAndEarlyTimestamps(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		for i, tc := range []struct {
			at  time.Time
			day string // empty: refused
		}{
			{fixtureNow.Add(-25 * time.Hour), ""},
			{fixtureNow.Add(-24*time.Hour - time.Nanosecond), ""},
			{fixtureNow.Add(-24 * time.Hour), "20990122"},
			{fixtureNow.Add(-3 * time.Hour), "20990123"},
			{fixtureNow.Add(-12 * time.Hour), "20990122"},
			{fixtureNow.Add(299 * time.Second), "20990123"},
			{fixtureNow.Add(300 * time.Second), "20990123"},
			{fixtureNow.Add(301 * time.Second), ""},
			{time.Time{}, "20990123"},
		} {
			u := call(i)
			u.Time = tc.at
			r, err := w.a.Submit(t.Context(), orgO, appA, u)
			if tc.day == "" {
				assert.Equal(t, "timestamp", requireCode(t, err, fault.InvalidRequest).Field)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, tc.day, r.Day, tc.at)
		}
	})
}

// TestAClockAheadDoesNotSpendTomorrow: 300 s ahead of 23:58 is still today.
func TestAClockAheadDoesNotSpendTomorrow(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	w.clock.Set(at(t, "2099-01-24T04:58:00Z"))
	u := call(1)
	u.Time = w.clock.Now().Add(300 * time.Second)
	assert.Equal(t, "20990123", w.submit(w.a, u).Day)
}

func TestCaseB16Batch(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		usages := make([]prices.Usage, 0, 100)
		for i := range 95 {
			usages = append(usages, call(i))
		}
		unknown, negative := call(200), call(202)
		unknown.Label = "platinum"
		unknown2 := unknown
		unknown2.RequestID = uuid(201)
		negative.Tokens.Input = -1
		usages = append(usages, call(3), call(94), unknown, unknown2, negative)
		results, err := w.a.SubmitBatch(t.Context(), orgO, appA, usages)
		require.NoError(t, err)
		codes := map[fault.Code]int{}
		accepted, duplicates := 0, 0
		for _, r := range results {
			var v *fault.ValidationError
			switch {
			case r.Err == nil:
				accepted++
				assert.Equal(t, int64(16_500), r.CostMicros)
			case errors.As(r.Err, &v):
				codes[v.Code]++
			default:
				t.Error(r.Err)
			}
			if r.Duplicate {
				duplicates++
			}
		}
		assert.Equal(t, 97, accepted)
		assert.Equal(t, 2, duplicates)
		assert.Equal(t, map[fault.Code]int{fault.InvalidModelLabel: 2, fault.InvalidRequest: 1}, codes)
		assert.Equal(t, int64(1_567_500), w.total(appA, "premium", "").CostMicros)

		for _, bad := range [][]prices.Usage{nil, make([]prices.Usage, 101)} {
			_, err := w.a.SubmitBatch(t.Context(), orgO, appA, bad)
			requireCode(t, err, fault.InvalidRequest)
		}
	})
}

// TestFullBatchIsTwoTransactions: 100 records and their counter do not fit in
// one; those of one counter share the rest.
func TestFullBatchIsTwoTransactions(t *testing.T) {
	w := newWorld(t)
	o := fixtureOrg()
	o.Shards = 1 // another one is announced before its first use
	w.org(o)
	_, err := w.a.SubmitBatch(t.Context(), orgO, appA, callsFrom(1000))
	require.NoError(t, err)
	before := w.db.Meter()
	_, err = w.a.SubmitBatch(t.Context(), orgO, appA, callsFrom(0))
	require.NoError(t, err)
	used := w.db.Meter().Sub(before)
	assert.Equal(t, int64(2), used.Requests())
	assert.InDelta(t, 204, used.WriteUnits(), 0, "two per record, two per counter")
}

// pagedClient answers queries a few items at a time, and may lose a page.
type pagedClient struct {
	Client
	limit int32
	pages atomic.Int64 // how many are answered; below -1,000: all
}

var errPage = syscall.ECONNRESET

func (c *pagedClient) Query(ctx context.Context, in *dynamodb.QueryInput, f ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if n := c.pages.Add(-1); n < 0 && n > -1000 {
		return nil, errPage
	}
	paged := *in
	paged.Limit = aws.Int32(c.limit)
	return c.Client.Query(ctx, &paged, f...)
}

// TestCaseB18MissingPagesAreNotZeros: eight shards, three to a page.
func TestCaseB18MissingPagesAreNotZeros(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		for i := range 64 {
			w.submit(w.a, call(i))
		}
		w.clock.Advance(48 * time.Hour)
		client := &pagedClient{Client: w.client, limit: 3}
		k, err := New(client, w.tables, &Options{AllowUnknownApps: true, Now: w.clock.Now, Models: fixtureModels})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.Close(context.Background())) })
		client.pages.Store(2)
		_, err = k.Totals(t.Context(), orgO, appA, "20990123")
		var u *fault.UnavailableError
		require.ErrorAs(t, err, &u)
		k.ledger.WaitForTotals()
		key := ledger.ClosedKey(ledger.AppScope(orgO, appA), "20990123", "premium")
		item, err := w.a.store.Get(t.Context(), w.tables.Usage, key)
		require.NoError(t, err)
		if len(item) > 0 { // all records were on the shards that were read: another label's page is missing
			assert.Equal(t, store.Int(64*16_500*1_000_000), item["cost_picos"], "no total lacks a page")
		}

		client.pages.Store(-1000)
		got, err := k.Totals(t.Context(), orgO, appA, "20990123")
		require.NoError(t, err)
		assert.Equal(t, int64(64*16_500), got.CostMicros)
		k.ledger.WaitForTotals()
		item, err = w.a.store.Get(t.Context(), w.tables.Usage, key)
		require.NoError(t, err)
		assert.NotEmpty(t, item, "the day is closed")
	})
}

// TestUnprocessedKeysAreNotAbsentItems: an app's own configuration must not be
// taken for missing.
func TestUnprocessedKeysAreNotAbsentItems(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	_, err := w.a.Setup().PutApp(t.Context(), orgO, App{ID: appA, Ordering: []string{"economy"}})
	require.NoError(t, err)
	var asked atomic.Int32
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "BatchGetItem" && asked.Add(1) <= 2 {
			return ddbmem.Fault{Unprocessed: 2}
		}
		return ddbmem.Fault{}
	})
	assert.Equal(t, "economy", w.recommend(w.b, appA).Label)

	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "BatchGetItem" {
			return ddbmem.Fault{Unprocessed: 1}
		}
		return ddbmem.Fault{}
	})
	fresh := w.keeper(&Options{})
	_, err = fresh.Recommend(t.Context(), orgO, appA)
	require.ErrorIs(t, err, ddb.ErrUnprocessed)
	var u *fault.UnavailableError
	require.ErrorAs(t, err, &u)
	w.db.SetFaults(nil)
}

func TestCaseB19NoFixedListOfScopes(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		_, err := w.a.Submit(t.Context(), orgO, "app-never-put", call(1))
		require.NoError(t, err)
		require.NoError(t, w.a.Close(context.Background()))
		node2 := w.keeper(&Options{})
		for _, app := range []string{"app-never-put", ""} {
			got, err := node2.Totals(t.Context(), orgO, app, "")
			require.NoError(t, err)
			assert.Equal(t, int64(16_500), got.CostMicros)
		}
		_, err = node2.Totals(t.Context(), "00000000-0000-4000-8000-000000000000", appA, "")
		require.ErrorIs(t, err, ErrNotFound)
	})
}

func TestUsageIsValidated(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	for field, change := range map[string]func(*prices.Usage){
		"request_id":   func(u *prices.Usage) { u.RequestID = "7C9E6679-7425-40DE-944B-E07FC1F90AE7" },
		"model_label":  func(u *prices.Usage) { u.Label = "-premium" },
		"tokens.input": func(u *prices.Usage) { u.Tokens.Input = 100_000_001 },
		"tags":         func(u *prices.Usage) { u.Tags = map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"} },
		"tags.user":    func(u *prices.Usage) { u.Tags = map[string]string{"user": "a b"} },
	} {
		u := call(1)
		change(&u)
		_, err := w.a.Submit(t.Context(), orgO, appA, u)
		assert.Equal(t, field, requireCode(t, err, fault.InvalidRequest).Field)
	}
	_, err := w.a.Submit(t.Context(), "550E8400-e29b-41d4-a716-446655440000", appA, call(1))
	requireCode(t, err, fault.InvalidRequest)
	_, err = w.a.Submit(t.Context(), orgO, "a/b", call(1))
	requireCode(t, err, fault.InvalidRequest)
	assert.Empty(t, w.items(""))
}
