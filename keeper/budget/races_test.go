package budget

import (
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/prices"
)

// TestOneRecordSentByMany: one is accepted, all others are duplicates.
func TestOneRecordSentByMany(t *testing.T) {
	engines(t, sendByMany)
}

func sendByMany(t *testing.T, w *world) {
	w.org(fixtureOrg())
	var accepted, duplicates atomic.Int64
	together(50, 50, func(i int) {
		r, err := []*Keeper{w.a, w.b}[i%2].Submit(t.Context(), orgO, appA, call(1))
		assert.NoError(t, err)
		assert.Equal(t, int64(16_500), r.CostMicros)
		if r.Duplicate {
			duplicates.Add(1)
		} else {
			accepted.Add(1)
		}
	})
	assert.Equal(t, []int64{1, 49}, []int64{accepted.Load(), duplicates.Load()})
	assert.Equal(t, int64(1), w.total(appA, "premium", "").Requests)
}

// TestDedupKeyIsOrgAppAndRequest: another label or day under the same id is a
// conflict, another app or organisation another record.
func TestDedupKeyIsOrgAppAndRequest(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Scope = ScopeOrg
		w.org(o)
		w.submit(w.a, call(1))
		label, day := call(1), call(1)
		label.Label, label.Model = "standard", standardModel
		day.Time = fixtureNow.Add(-12 * time.Hour)
		for _, u := range []prices.Usage{label, day} {
			_, err := w.b.Submit(t.Context(), orgO, appA, u)
			require.ErrorIs(t, err, ErrConflict)
		}
		r, err := w.b.Submit(t.Context(), orgO, appB, call(1))
		require.NoError(t, err)
		assert.False(t, r.Duplicate)
		assert.Equal(t, int64(33_000), w.total(appA, "premium", "").CostMicros)
		other := o
		other.ID = otherOrg
		w.org(other)
		r, err = w.b.Submit(t.Context(), other.ID, appA, call(1))
		require.NoError(t, err)
		assert.False(t, r.Duplicate)

		w.clock.Advance(20 * time.Hour)
		assert.True(t, w.submit(w.a, call(1)).Duplicate)
	})
}

// TestOrderingChangedMidDay: the record follows the label, not its place.
func TestOrderingChangedMidDay(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.spend(appA, "premium", 10_000_000)
		assert.Equal(t, "standard", w.recommend(w.a, appA).Label)
		o := fixtureOrg()
		o.Ordering = []string{"premium", "economy", "standard"}
		w.org(o)
		rec := w.recommend(w.a, appA)
		assert.Equal(t, "economy", rec.Label)
		assert.Equal(t, "QUOTA_EXCEEDED_premium", rec.Reason)
		sticky, err := w.b.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, "economy", sticky.Label)
		o.Ordering = []string{"economy"}
		w.org(o)
		assert.Equal(t, "economy", w.recommend(w.a, appA).Label)
		got, err := w.b.Totals(t.Context(), orgO, appA, "")
		require.NoError(t, err)
		assert.Equal(t, int64(10_000_000), got.CostMicros, "a label no longer in the ordering is not forgotten")
	})
}

// TestDaysOfOtherLengths: the reset of the 23 and the 25 hour day.
func TestDaysOfOtherLengths(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		for _, tc := range []struct{ now, reset string }{
			{"2099-03-08T05:30:00Z", "2099-03-09T04:00:00Z"},
			{"2099-11-01T04:30:00Z", "2099-11-02T05:00:00Z"},
		} {
			w.clock.Set(at(t, tc.now))
			rec := w.recommend(w.a, appA)
			assert.Equal(t, tc.reset, rec.ResetAt.UTC().Format(time.RFC3339))
		}
		o := fixtureOrg()
		o.ID, o.Timezone = otherOrg, "America/Santiago"
		w.org(o)
		w.clock.Set(at(t, "2099-09-05T12:00:00Z"))
		rec, err := w.b.Recommend(t.Context(), otherOrg, appA)
		require.NoError(t, err)
		assert.Equal(t, "2099-09-06T04:00:00Z", rec.ResetAt.UTC().Format(time.RFC3339))
	})
}

// TestOptionsAreTheKeepersOwn: who made a keeper may go on using its map of models.
func TestOptionsAreTheKeepersOwn(t *testing.T) {
	models := maps.Clone(fixtureModels)
	w := newWorld(t, func(o *Options) { o.Models = models })
	w.org(fixtureOrg())
	together(2, 2, func(i int) {
		if i == 0 {
			models["premium"] = standardModel
			return
		}
		r, err := w.a.Submit(t.Context(), orgO, appA, call(1))
		assert.NoError(t, err)
		assert.Equal(t, int64(16_500), r.CostMicros)
	})
	r, err := w.a.Recommend(t.Context(), orgO, appA)
	require.NoError(t, err)
	assert.Equal(t, premiumModel, r.Model)
}
