package budget

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
)

func TestCaseC20ThresholdsAreExact(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		spent := int64(0)
		for _, tc := range []struct {
			spend  int64
			label  string
			mode   Mode
			cache  time.Duration
			reason string
		}{
			{0, "premium", ModeNormal, 300 * time.Second, "WITHIN_QUOTA"},
			{9_499_999, "premium", ModeNormal, 300 * time.Second, "WITHIN_QUOTA"},
			{9_500_000, "premium", ModeTight, 60 * time.Second, "WITHIN_QUOTA"},
			{9_999_999, "premium", ModeTight, 60 * time.Second, "WITHIN_QUOTA"},
			{10_000_000, "standard", ModeNormal, 300 * time.Second, "QUOTA_EXCEEDED_premium"},
		} {
			if tc.spend > spent {
				w.spend(appA, "premium", tc.spend-spent)
				spent = tc.spend
			}
			rec := w.recommend(w.b, appA)
			assert.Equal(t, tc.label, rec.Label, tc.spend)
			assert.Equal(t, tc.mode, rec.Mode, tc.spend)
			assert.Equal(t, tc.cache, rec.CacheFor, tc.spend)
			assert.Equal(t, tc.reason, rec.Reason, tc.spend)
			assert.Equal(t, fixtureModels[tc.label], rec.Model)
			assert.Equal(t, int64(1_769_230_800), rec.ResetAt.Unix())
		}
	})
}

func TestCaseC21UsageReplyDrivesTheSwitch(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.spend(appA, "premium", 9_990_000)
		r := w.submit(w.b, call(1))
		assert.Equal(t, int64(10_006_500), r.SpendMicros)
		assert.Equal(t, ModeTight, r.Mode)
		assert.Equal(t, StatusExceeded, r.QuotaStatus)
		assert.Equal(t, "standard", r.RecommendedLabel)
	})
}

func TestCaseC22ChainWalksPastAnExceededStickyLabel(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.spend(appA, "premium", 10_000_000)
		assert.Equal(t, "standard", w.recommend(w.a, appA).Label)
		sticky, err := w.b.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, 1, sticky.Index)
		assert.Equal(t, "premium", sticky.Previous)
		w.spend(appA, "standard", 5_000_000)
		assert.Equal(t, "economy", w.recommend(w.b, appA).Label)
		sticky, err = w.a.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, 2, sticky.Index)
		assert.Equal(t, "economy", sticky.Label)
		assert.Equal(t, "standard", sticky.Previous)
	})
}

func TestCaseC23AllExceeded(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		for label, micros := range map[string]int64{"premium": 10_000_000, "standard": 5_000_100, "economy": 2_000_000} {
			w.spend(appA, label, micros)
		}
		w.clock.Set(fixtureNow.Add(time.Minute))
		_, err := w.b.Recommend(t.Context(), orgO, appA)
		var q *QuotaExceededError
		require.ErrorAs(t, err, &q)
		require.ErrorIs(t, err, ErrQuotaExceeded)
		assert.Equal(t, 48_555*time.Second-time.Minute, q.RetryAt.Sub(w.clock.Now()))
		assert.Equal(t, int64(100), q.OverageMicros)
		assert.Len(t, q.Labels, 3)
		assert.InDelta(t, 100, q.Labels[0].Percent, 0)
	})
}

func TestCaseC25QuotaRaisedMidDay(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.spend(appA, "premium", 10_000_000)
		assert.Equal(t, "standard", w.recommend(w.a, appA).Label)
		assert.Equal(t, "standard", w.recommend(w.b, appA).Label)
		o := fixtureOrg()
		o.Quotas["premium"] = 20_000_000
		w.org(o)
		rec := w.recommend(w.a, appA)
		assert.Equal(t, "premium", rec.Label, "at once where it was put")
		assert.Equal(t, ModeNormal, rec.Mode)
		assert.InDelta(t, 50.0, rec.Labels[0].Percent, 0)
		w.clock.Advance(35 * time.Second)
		assert.Equal(t, "premium", w.recommend(w.b, appA).Label)
		sticky, err := w.b.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, 0, sticky.Index, "a newer configuration moves the record back")

		o.Quotas["premium"] = 9_000_000
		w.org(o)
		w.clock.Advance(35 * time.Second)
		assert.Equal(t, "standard", w.recommend(w.b, appA).Label)
	})
}

func TestCaseC27QuotaZeroAndMissingQuota(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Quotas["premium"] = 0
		w.org(o)
		rec := w.recommend(w.a, appA)
		assert.Equal(t, "standard", rec.Label)
		assert.Zero(t, rec.Labels[0].Percent)
		assert.Zero(t, w.total(appA, "premium", "").Percent)

		for name, change := range map[string]func(*Org){
			"missing quota":   func(o *Org) { delete(o.Quotas, "economy") },
			"negative quota":  func(o *Org) { o.Quotas["economy"] = -1 },
			"huge quota":      func(o *Org) { o.Quotas["economy"] = maxQuota + 1 },
			"duplicate label": func(o *Org) { o.Ordering = append(o.Ordering, "premium") },
			"no label":        func(o *Org) { o.Ordering = nil },
			"17 labels":       func(o *Org) { o.Ordering = make([]string, 17) },
			"tight 49":        func(o *Org) { o.TightPercent = 49 },
			"257 shards":      func(o *Org) { o.Shards = 257 },
			"scope":           func(o *Org) { o.Scope = "TEAM" },
			"enforcement":     func(o *Org) { o.Enforcement = "MEDIUM" },
			"label":           func(o *Org) { o.Ordering = []string{"pre mium"} },
		} {
			bad := fixtureOrg()
			change(&bad)
			_, err := w.a.PutOrg(t.Context(), bad)
			requireCode(t, err, CodeInvalidConfig)
			assert.NotEmpty(t, name)
		}
	})
}

func TestCaseC28OrgAndAppScope(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Scope = ScopeOrg
		w.org(o)
		_, err := w.a.PutApp(t.Context(), orgO, App{ID: appA, Quotas: map[string]int64{"premium": maxQuota, "standard": 1, "economy": 1}})
		require.NoError(t, err)
		w.spend(appA, "premium", 6_000_000)
		w.spend(appB, "premium", 4_000_000)
		assert.Equal(t, "standard", w.recommend(w.b, appA).Label)
		assert.Equal(t, "standard", w.recommend(w.b, appB).Label)

		other := fixtureOrg() // another organisation, the same app names
		other.ID = otherOrg
		_, err = w.a.PutOrg(t.Context(), other)
		require.NoError(t, err)
		require.NoError(t, adjust(t.Context(), w.a, other.ID, appA, Adjustment{Label: "premium", DeltaMicros: 6_000_000, Reason: "test"}))
		require.NoError(t, adjust(t.Context(), w.a, other.ID, appB, Adjustment{Label: "premium", DeltaMicros: 4_000_000, Reason: "test"}))
		for app, percent := range map[string]float64{appA: 60, appB: 40} {
			rec, err := w.b.Recommend(t.Context(), other.ID, app)
			require.NoError(t, err)
			assert.Equal(t, "premium", rec.Label)
			assert.InDelta(t, percent, rec.Labels[0].Percent, 0)
		}
	})
}

func TestOrgPutValidatesItsApps(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		_, err := w.a.PutApp(t.Context(), orgO, App{ID: appA, Ordering: []string{"micro"}, Quotas: map[string]int64{"micro": 5}})
		require.NoError(t, err)
		o := fixtureOrg()
		o.Scope = ScopeOrg
		_, err = w.a.PutOrg(t.Context(), o)
		assert.Contains(t, requireCode(t, err, CodeInvalidConfig).Reason, appA, "under ORG the app's label needs an org quota")
		_, err = w.a.PutApp(t.Context(), orgO, App{ID: appB, Ordering: []string{"micro"}})
		requireCode(t, err, CodeInvalidConfig)
		_, err = w.a.PutApp(t.Context(), "00000000-0000-4000-8000-000000000000", App{ID: appB})
		require.ErrorIs(t, err, ErrNotFound)
	})
}

func TestManualOverride(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		until := w.clock.Now().Add(time.Hour)
		require.NoError(t, w.a.Override(t.Context(), orgO, appA, "economy", until))
		w.org(fixtureOrg()) // survives a PUT
		rec := w.recommend(w.b, appA)
		assert.Equal(t, "economy", rec.Label)
		assert.Equal(t, ReasonManualOverride, rec.Reason)
		assert.Equal(t, "premium", w.recommend(w.b, appB).Label)
		w.clock.Set(until)
		assert.Equal(t, "premium", w.recommend(w.b, appA).Label, "it has expired")

		require.NoError(t, w.a.Override(t.Context(), orgO, appA, "economy", until.Add(time.Hour)))
		require.NoError(t, w.a.ClearOverride(t.Context(), orgO, appA))
		assert.Equal(t, "premium", w.recommend(w.a, appA).Label)
		requireCode(t, w.a.Override(t.Context(), orgO, appA, "nowhere", until.Add(time.Hour)), CodeInvalidModelLabel)
		requireCode(t, w.a.Override(t.Context(), orgO, appA, "economy", until.Add(-time.Hour)), CodeInvalidRequest)
	})
}

func TestCaseC29HardCap(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		won := make([]bool, 200)
		together(200, 200, func(i int) {
			k := w.a
			if i%2 == 1 {
				k = w.b
			}
			_, err := k.Reserve(t.Context(), orgO, appA, "premium", 100_000, time.Minute)
			if won[i] = err == nil; !won[i] {
				assert.ErrorIs(t, err, ErrQuotaExceeded)
			}
		})
		count := 0
		for _, ok := range won {
			if ok {
				count++
			}
		}
		assert.Equal(t, 100, count)
		got := w.total(appA, "premium", "")
		assert.Equal(t, int64(10_000_000), got.CostMicros+got.HeldMicros)
		w.clock.Advance(6 * time.Second)
		assert.Equal(t, "standard", w.recommend(w.b, appA).Label, "what is held counts")
		_, err := w.b.Sticky(t.Context(), orgO, appA)
		require.ErrorIs(t, err, ErrNotFound, "only spend moves the record")
	})
}

func TestCaseC30HoldsHeal(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		reserve := func(k *Keeper, micros int64) *Hold {
			h, err := k.Reserve(t.Context(), orgO, appA, "premium", micros, time.Minute)
			require.NoError(t, err)
			return h
		}
		settle := func(h *Hold, n int, input int64) (Receipt, error) {
			u := call(n)
			u.Tokens = Tokens{Input: input}
			u.Time = time.Time{}
			return h.Settle(t.Context(), u)
		}
		check := func(spent, held int64) {
			t.Helper()
			got := w.total(appA, "premium", "")
			assert.Equal(t, []int64{spent, held}, []int64{got.CostMicros, got.HeldMicros})
		}
		h := reserve(w.a, 100_000)
		check(0, 100_000)
		r, err := settle(h, 1, 13_334) // 40,002 µ$
		require.NoError(t, err)
		assert.Equal(t, int64(40_002), r.CostMicros)
		check(40_002, 0)

		reserve(w.a, 9_959_998) // a client that dies
		_, err = w.b.Reserve(t.Context(), orgO, appA, "premium", 1, time.Minute)
		require.ErrorIs(t, err, ErrQuotaExceeded)
		w.clock.Advance(time.Minute + ledger.LeaseMargin)
		assert.Equal(t, "premium", w.recommend(w.b, appA).Label, "no sweeper ran")
		check(40_002, 0)
		reserve(w.b, 1)
		w.clock.Advance(time.Minute + ledger.LeaseMargin)

		r, err = settle(h, 1, 13_334)
		require.NoError(t, err)
		assert.True(t, r.Duplicate, "settled twice")
		late := reserve(w.a, 100_000)
		w.clock.Advance(2 * time.Minute)
		_, err = w.b.Reserve(t.Context(), orgO, appA, "premium", 9_959_998, time.Minute) // releases both
		require.NoError(t, err)
		w.clock.Advance(time.Minute + ledger.LeaseMargin)
		r, err = settle(late, 2, 1000)
		require.NoError(t, err)
		assert.False(t, r.Duplicate, "after the lease it counts all the same")
		_, err = w.a.Sweep(t.Context(), orgO)
		require.NoError(t, err)
		check(43_002, 0)
		require.NoError(t, late.Release(t.Context()))
		check(43_002, 0)
		assert.Empty(t, w.items("HOLD#"))
	})
}

func TestReleaseAndExtend(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		h, err := w.a.Reserve(t.Context(), orgO, appA, "premium", 100_000, time.Minute)
		require.NoError(t, err)
		w.clock.Advance(50 * time.Second)
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		assert.Equal(t, w.clock.Now().Add(time.Minute).UnixMilli(), h.ExpiresAt().UnixMilli())
		w.clock.Advance(30 * time.Second)
		w.recommend(w.b, appA)
		assert.Equal(t, int64(100_000), w.total(appA, "premium", "").HeldMicros, "not expired")
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, h.Release(t.Context()))
		assert.Zero(t, w.total(appA, "premium", "").HeldMicros)
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), ErrNotFound)

		gone, err := w.a.Reserve(t.Context(), orgO, appA, "premium", 100_000, time.Minute)
		require.NoError(t, err)
		w.clock.Advance(time.Hour)
		_, err = w.b.Sweep(t.Context(), orgO)
		require.NoError(t, err)
		require.ErrorIs(t, gone.Extend(t.Context(), time.Minute), ErrNotFound)
		_, err = w.a.Reserve(t.Context(), orgO, appA, "premium", 10_000_001, time.Minute)
		require.ErrorIs(t, err, ErrQuotaExceeded, "more than the quota")
		_, err = w.a.Reserve(t.Context(), orgO, appA, "premium", 1, time.Millisecond)
		requireCode(t, err, CodeInvalidRequest)
		_, err = w.a.Reserve(t.Context(), orgO, appA, "nowhere", 1, time.Minute)
		requireCode(t, err, CodeInvalidModelLabel)
	})
}

// TestOvershootStaysUsed: an actual above its estimate counts in full.
func TestOvershootStaysUsed(t *testing.T) {
	w := newWorld(t)
	w.org(hardOrg())
	h, err := w.a.Reserve(t.Context(), orgO, appA, "premium", 9_990_000, time.Minute)
	require.NoError(t, err)
	u := call(1)
	u.Tokens = Tokens{Input: 4_000_000}
	_, err = h.Settle(t.Context(), u)
	require.NoError(t, err)
	assert.Equal(t, int64(12_000_000), w.total(appA, "premium", "").CostMicros)
	_, err = w.b.Reserve(t.Context(), orgO, appA, "premium", 1, time.Minute)
	var q *QuotaExceededError
	require.True(t, errors.As(err, &q))
	assert.Equal(t, int64(1_769_230_800), q.RetryAt.Unix())
}

// TestSubmitDebitsHardMode: a plain submission counts against reservations.
func TestSubmitDebitsHardMode(t *testing.T) {
	w := newWorld(t)
	w.org(hardOrg())
	w.submit(w.a, call(1))
	_, err := w.b.Reserve(t.Context(), orgO, appA, "premium", 10_000_000-16_500+1, time.Minute)
	require.ErrorIs(t, err, ErrQuotaExceeded)
	_, err = w.b.Reserve(t.Context(), orgO, appA, "premium", 10_000_000-16_500, time.Minute)
	require.NoError(t, err)
}

// TestSoftReserveHoldsNothing: it admits by what is spent.
func TestSoftReserveHoldsNothing(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	h, err := w.a.Reserve(t.Context(), orgO, appA, "premium", 100_000, time.Minute)
	require.NoError(t, err)
	assert.True(t, h.Soft)
	assert.Empty(t, w.items("HOLD#"))
	require.NoError(t, h.Extend(t.Context(), time.Minute))
	_, err = h.Settle(t.Context(), call(1))
	require.NoError(t, err)
	assert.Equal(t, int64(16_500), w.total(appA, "premium", "").CostMicros)
	w.spend(appA, "premium", 10_000_000)
	h, err = w.a.Reserve(t.Context(), orgO, appA, "premium", 1, time.Minute)
	require.ErrorIs(t, err, ErrQuotaExceeded)
	assert.Nil(t, h, "there is nothing to settle")
}
