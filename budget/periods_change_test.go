package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// change puts a configuration and goes to the day it begins on.
func (w *world) change(o Org, at string) {
	w.t.Helper()
	w.org(o)
	instant, err := time.Parse(time.RFC3339, at)
	require.NoError(w.t, err)
	w.clock.Set(instant)
}

func monthly(o Org) Org {
	o.Limits = []PeriodQuota{{Month, "", 9_000_000}}
	return o
}

// TestMonthSurvivesHardToSoft: what the month's counter has is not forgotten
// when it is kept no longer.
func TestMonthSurvivesHardToSoft(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(monthly(hardOrg()))
		w.spend(appA, "premium", 8_900_000)
		before := w.recommend(w.b, appA).Labels[0].Limits[0]
		require.Equal(t, int64(8_900_000), before.SpendMicros)
		w.change(monthly(fixtureOrg()), "2026-01-24T12:00:00Z")
		for range 2 { // its day open, and closed
			assert.Equal(t, int64(8_900_000), w.recommend(w.b, appA).Labels[0].Limits[0].SpendMicros)
			w.clock.Advance(48 * time.Hour)
		}
	})
}

// TestMonthSurvivesAnInterval: the days between two hard ones count, whether
// the enforcement or the limit was away.
func TestMonthSurvivesAnInterval(t *testing.T) {
	for name, between := range map[string]Org{"soft": monthly(fixtureOrg()), "no limit": hardOrg()} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, w *world) {
				w.clock.Set(at(t, "2026-01-05T15:00:00Z"))
				w.org(monthly(hardOrg()))
				w.spend(appA, "premium", 1_000_000)
				w.change(between, "2026-01-06T15:00:00Z")
				w.spend(appA, "premium", 6_000_000)
				w.change(monthly(hardOrg()), "2026-01-07T15:00:00Z")
				for day := range 3 {
					_, err := w.b.Reserve(t.Context(), orgO, appA, "premium", 2_000_001, time.Minute)
					require.ErrorIs(t, err, ErrQuotaExceeded, "7 of the month's 9 are spent, %d days ago", day+1)
					h, err := w.b.Reserve(t.Context(), orgO, appA, "premium", 2_000_000, time.Minute)
					require.NoError(t, err)
					require.NoError(t, h.Release(t.Context()))
					assert.Equal(t, int64(7_000_000), w.recommend(w.a, appA).Labels[0].Limits[0].SpendMicros)
					w.clock.Advance(24 * time.Hour)
				}
			})
		})
	}
}

// TestMonthSurvivesAScopeChange: the organisation's month has what its apps
// spent, and an app's what the organisation spent, under both enforcements.
func TestMonthSurvivesAScopeChange(t *testing.T) {
	for _, tc := range []struct {
		from, to Scope
		base     Org
	}{
		{ScopeApp, ScopeOrg, fixtureOrg()}, {ScopeOrg, ScopeApp, fixtureOrg()}, {ScopeApp, ScopeOrg, hardOrg()}, {ScopeOrg, ScopeApp, hardOrg()},
	} {
		t.Run(string(tc.base.Enforcement)+" to "+string(tc.to), func(t *testing.T) {
			engines(t, func(t *testing.T, w *world) {
				o := monthly(tc.base)
				o.Scope = tc.from
				w.org(o)
				w.submit(w.a, call(1))
				w.spend(appA, "premium", 4_900_000)
				w.spend(appB, "economy", 1_000_000)
				o.Scope = tc.to
				w.change(o, "2026-01-24T12:00:00Z")
				w.spend(appA, "standard", 83_500)
				for range 2 {
					assert.Equal(t, int64(6_000_000), w.recommend(w.b, appA).Labels[0].Limits[0].SpendMicros)
					if tc.base.Enforcement == Hard {
						_, err := w.b.Reserve(t.Context(), orgO, appA, "premium", 3_000_001, time.Minute)
						require.ErrorIs(t, err, ErrQuotaExceeded)
					}
					w.clock.Advance(48 * time.Hour)
				}
				assert.Zero(t, w.recommend(w.b, appA).Labels[0].SpendMicros, "the day's quota is its own")
			})
		})
	}
}

// TestScopeChangeAndBack: each day of the month counts once.
func TestScopeChangeAndBack(t *testing.T) {
	w := newWorld(t)
	w.clock.Set(at(t, "2026-01-05T15:00:00Z"))
	o := monthly(hardOrg())
	w.org(o)
	w.spend(appA, "premium", 1_000_000)
	o.Scope = ScopeOrg
	w.change(o, "2026-01-06T15:00:00Z")
	w.spend(appA, "premium", 2_000_000)
	o.Scope = ScopeApp
	w.change(o, "2026-01-07T15:00:00Z")
	w.spend(appA, "premium", 4_000_000)
	assert.Equal(t, int64(7_000_000), w.recommend(w.b, appA).Labels[0].Limits[0].SpendMicros)
	assert.Equal(t, int64(2_000_000), w.recommend(w.b, appB).Labels[0].Limits[0].SpendMicros)
}

// TestWhatWasImportedCounts: days before the organisation was put belong to its
// month too.
func TestWhatWasImportedCounts(t *testing.T) {
	w := newWorld(t)
	w.org(monthly(fixtureOrg()))
	a := Adjustment{Label: "premium", Day: "20260103", DeltaMicros: 2_500_000, Reason: "import"}
	require.NoError(t, adjust(t.Context(), w.a, orgO, appA, a))
	assert.Equal(t, int64(2_500_000), w.recommend(w.b, appA).Labels[0].Limits[0].SpendMicros)
}

// TestWhatAReadCloses: at most so many days, none from before there was
// anything, and none twice.
func TestWhatAReadCloses(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		history := func(from, to string) (sum int64) {
			for d, err := range w.b.History(t.Context(), orgO, appA, from, to) {
				require.NoError(t, err)
				sum += d.CostMicros
			}
			return sum
		}
		assert.Zero(t, history("20250101", "20260123"))
		assert.Empty(t, w.items("T#"), "nothing was spent in a year")

		a := Adjustment{Label: "premium", Day: "20250601", DeltaMicros: 300, Reason: "import"}
		for range 120 {
			require.NoError(t, adjust(t.Context(), w.a, orgO, appA, a))
			a.Day = calendar.AddDays(a.Day, 1)
		}
		opened := len(w.items("T#")) // by the adjustments
		assert.Equal(t, int64(36_000), history("20250101", "20260123"))
		oldest := ""
		closed := func() (n int) {
			for _, item := range w.items("T#") {
				if _, ok := item[ledger.AttrSeq]; ok {
					n++
					if day := store.KeyOf(item).SK[:8]; oldest == "" || day < oldest {
						oldest = day
					}
				}
			}
			return n
		}
		assert.Equal(t, ledger.MaxClosings, closed())
		assert.Equal(t, calendar.AddDays("20250601", 20), oldest, "the newest days")
		assert.Len(t, w.items("T#"), opened)
		assert.Equal(t, int64(36_000), history("20250101", "20260123"))
		assert.Equal(t, 120, closed())
		assert.Equal(t, int64(36_000), history("20250101", "20260123"))
	})
}
