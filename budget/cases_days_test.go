package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCaseD32Rollover(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.spend(appA, "premium", 10_000_000)
		midnight := at(t, "2026-01-24T05:00:00Z")
		w.clock.Set(midnight.Add(-time.Second))
		assert.Equal(t, "standard", w.recommend(w.a, appA).Label)
		w.clock.Set(midnight)
		for _, k := range []*Keeper{w.a, w.b} {
			rec := w.recommend(k, appA)
			assert.Equal(t, "premium", rec.Label)
			assert.Equal(t, ModeNormal, rec.Mode)
			assert.Zero(t, rec.Labels[0].SpendMicros)
			assert.Equal(t, "20260124", rec.Day)
		}
		late := call(1)
		late.Time = midnight.Add(-time.Second)
		assert.Equal(t, "20260123", w.submit(w.a, late).Day)
		assert.Equal(t, int64(10_016_500), w.total(appA, "premium", "20260123").CostMicros)
		assert.Zero(t, w.total(appA, "premium", "20260124").CostMicros)
	})
}

func TestCaseD34ZoneChangeDoesNotRefund(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.spend(appA, "premium", 10_000_000)
		o := fixtureOrg()
		o.Timezone = "Asia/Tokyo"
		put, err := w.a.PutOrg(t.Context(), o)
		require.NoError(t, err)
		end := at(t, "2026-01-24T05:00:00Z")
		assert.Equal(t, end.Unix(), put.ChangesAt.Unix())
		for _, k := range []*Keeper{w.a, w.b} {
			assert.Equal(t, "standard", w.recommend(k, appA).Label)
		}
		w.clock.Set(end.Add(-time.Second))
		for _, k := range []*Keeper{w.a, w.b} {
			rec := w.recommend(k, appA)
			assert.Equal(t, "standard", rec.Label)
			assert.Equal(t, "20260123", rec.Day)
		}
		w.clock.Set(end)
		for _, k := range []*Keeper{w.a, w.b} {
			rec := w.recommend(k, appA)
			assert.Equal(t, "premium", rec.Label)
			assert.Equal(t, "20260124", rec.Day)
			assert.Equal(t, at(t, "2026-01-24T15:00:00Z").Unix(), rec.ResetAt.Unix(), "Tokyo's midnight")
		}
		o.Timezone = "Mars/Olympus"
		_, err = w.a.PutOrg(t.Context(), o)
		assert.Equal(t, "timezone", requireCode(t, err, CodeInvalidConfig).Field)
	})
}

// TestScopeAndEnforcementChangeWithTheDay: until then the day goes on as it
// began, and its totals are found afterwards.
func TestScopeAndEnforcementChangeWithTheDay(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.submit(w.a, call(1))
		o := hardOrg()
		o.Scope = ScopeOrg
		w.org(o)
		h, err := w.a.Reserve(t.Context(), orgO, appA, "premium", 1, time.Minute)
		require.NoError(t, err)
		assert.True(t, h.Soft, "still soft today")
		w.clock.Set(at(t, "2026-01-24T05:00:00Z"))
		h, err = w.b.Reserve(t.Context(), orgO, appB, "premium", 10_000_000, time.Minute)
		require.NoError(t, err)
		assert.False(t, h.Soft)
		_, err = w.a.Reserve(t.Context(), orgO, appA, "premium", 1, time.Minute)
		require.ErrorIs(t, err, ErrQuotaExceeded, "one total for the organisation")
		assert.Equal(t, int64(16_500), w.total(appA, "premium", "20260123").CostMicros)
		late := call(2)
		late.Time = fixtureNow
		w.submit(w.a, late)
		assert.Equal(t, int64(33_000), w.total(appA, "premium", "20260123").CostMicros, "counted as its day was")
	})
}
