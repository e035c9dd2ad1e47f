package budget

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/prices"
)

// TestNobodyInUseWaitsForTheStore: spend, configuration and the sticky record are read again
// before they are too old, beside an app's calls. What was written elsewhere is known as soon
// as before, and an app that nobody asks for is not read.
func TestNobodyInUseWaitsForTheStore(t *testing.T) {
	simulated(t, Options{OnEvent: func(context.Context, Event) {}}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		other, err := New(db.Client(), Tables{}, &Options{Models: fixtureModels, AllowUnknownApps: true, AllowAnonymous: true})
		require.NoError(t, err)
		defer func() { assert.NoError(t, other.Close(t.Context())) }()
		ask := func() (Recommendation, time.Duration) {
			asked := time.Now()
			rec, err := k.Recommend(t.Context(), orgO, appA)
			require.NoError(t, err)
			return rec, time.Since(asked)
		}
		ask()
		const latency = 50 * time.Millisecond
		db.SetFaults(allOf(ddbmem.Fault{Before: latency}))
		for n := range 600 {
			rec, took := ask()
			require.Zero(t, took, n)
			if n == 300 {
				_, err := other.Setup().Adjust(t.Context(), orgO, appA, Adjustment{Label: "premium", DeltaMicros: 10_000_000, Reason: "test"})
				require.NoError(t, err)
			}
			if n > 350 {
				require.Equal(t, "standard", rec.Label)
			}
			pass(100 * time.Millisecond)
		}
		before := db.Meter()
		pass(time.Hour)
		assert.Zero(t, db.Meter().Sub(before).Requests())
		_, took := ask()
		assert.GreaterOrEqual(t, took, latency)
	})
}

// TestAStoreThatFailsIsNotAskedAheadAgain, and what is known stays as long as it would have.
func TestAStoreThatFailsIsNotAskedAheadAgain(t *testing.T) {
	simulated(t, Options{OnUnavailable: OnUnavailable{Recommend: Refuse}}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Recommend(t.Context(), orgO, appA)
		require.NoError(t, err)
		pass(4 * time.Second)
		db.SetFaults(refuseAll("AccessDeniedException"))
		before := db.Meter()
		for range 9 {
			_, err := k.Recommend(t.Context(), orgO, appA)
			require.NoError(t, err)
			pass(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, db.Meter().Sub(before).Requests(), int64(3), "one for each label")
		pass(100 * time.Millisecond)
		_, err = k.Recommend(t.Context(), orgO, appA)
		require.Error(t, err)
	})
}

// TestAPlanEndsWithWhatItComesFrom: one is remembered while nothing changes, and that may be
// time, a price, an override or a call of one's own.
func TestAPlanEndsWithWhatItComesFrom(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Staleness, o.ConfigTTL = 100*time.Hour, 100*time.Hour })
	w.org(fixtureOrg())
	now := w.clock.Now()
	require.NoError(t, w.a.Prices().Put(t.Context(), premiumModel, prices.Price{Model: premiumModel, EffectiveFrom: now.Add(time.Hour), Rates: prices.Rates{Input: 7_000_000, Output: 8_000_000}}))
	require.NoError(t, w.a.Setup().Override(t.Context(), orgO, appA, "economy", now.Add(10*time.Minute)))

	first := w.recommend(w.a, appA)
	assert.Equal(t, "economy", first.Label)
	assert.Equal(t, 5*time.Minute, first.CacheFor)
	assert.Zero(t, w.spentOn(func() {
		w.clock.Set(now.Add(10*time.Minute - time.Minute))
		again := w.recommend(w.a, appA)
		assert.Equal(t, time.Minute, again.CacheFor)
		again.CacheFor = first.CacheFor
		assert.Equal(t, first, again)
		again.Labels[0].Label = "changed by the caller"
		assert.Equal(t, first.Labels, w.recommend(w.a, appA).Labels)
	}).Requests())

	w.clock.Set(now.Add(10 * time.Minute))
	assert.Equal(t, "premium", w.recommend(w.a, appA).Label, "the override is over")
	w.submit(w.a, call(1))
	assert.EqualValues(t, 16_500, w.recommend(w.a, appA).Labels[0].SpendMicros)
	w.clock.Set(now.Add(time.Hour - 1))
	assert.NotEqual(t, int64(7_000_000), w.recommend(w.a, appA).Price.Input)
	w.clock.Set(now.Add(time.Hour))
	assert.EqualValues(t, 7_000_000, w.recommend(w.a, appA).Price.Input)
	reset := w.recommend(w.a, appA).ResetAt
	w.clock.Set(reset.Add(-1))
	assert.EqualValues(t, 16_500, w.recommend(w.a, appA).Labels[0].SpendMicros)
	w.clock.Set(reset)
	rec := w.recommend(w.a, appA)
	assert.Zero(t, rec.Labels[0].SpendMicros)
	assert.True(t, rec.ResetAt.After(reset))
}
