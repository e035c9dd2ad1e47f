package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/prices"
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
			assert.Equal(t, int64(4_072_914_000), rec.ResetAt.Unix())
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
		assert.Equal(t, prices.StatusExceeded, r.QuotaStatus)
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
		var q *prices.QuotaExceededError
		require.ErrorAs(t, err, &q)
		require.ErrorIs(t, err, prices.ErrQuotaExceeded)
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
			"label":           func(o *Org) { o.Ordering = []string{"pre mium"} },
		} {
			bad := fixtureOrg()
			change(&bad)
			_, err := w.a.Setup().PutOrg(t.Context(), bad)
			requireCode(t, err, fault.InvalidConfig)
			assert.NotEmpty(t, name)
		}
	})
}

func TestCaseC28OrgAndAppScope(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Scope = ScopeOrg
		w.org(o)
		_, err := w.a.Setup().PutApp(t.Context(), orgO, App{ID: appA, Quotas: map[string]int64{"premium": maxQuota, "standard": 1, "economy": 1}})
		require.NoError(t, err)
		w.spend(appA, "premium", 6_000_000)
		w.spend(appB, "premium", 4_000_000)
		assert.Equal(t, "standard", w.recommend(w.b, appA).Label)
		assert.Equal(t, "standard", w.recommend(w.b, appB).Label)

		other := fixtureOrg() // another organisation, the same app names
		other.ID = otherOrg
		_, err = w.a.Setup().PutOrg(t.Context(), other)
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
		_, err := w.a.Setup().PutApp(t.Context(), orgO, App{ID: appA, Ordering: []string{"micro"}, Quotas: map[string]int64{"micro": 5}})
		require.NoError(t, err)
		_, err = w.a.Setup().PutApp(t.Context(), orgO, App{ID: appB, Ordering: []string{"economy"}})
		require.NoError(t, err)
		o := fixtureOrg()
		o.Ordering, o.Quotas = []string{"premium"}, map[string]int64{"premium": 1}
		_, err = w.a.Setup().PutOrg(t.Context(), o)
		assert.Contains(t, requireCode(t, err, fault.InvalidConfig).Reason, appB, "it inherits the quotas")
		_, err = w.a.Setup().PutApp(t.Context(), orgO, App{ID: appB, Ordering: []string{"micro"}})
		requireCode(t, err, fault.InvalidConfig)

		shared := fixtureOrg()
		shared.ID, shared.Scope = otherOrg, ScopeOrg
		w.org(shared)
		_, err = w.a.Setup().PutApp(t.Context(), otherOrg, App{ID: appA, Ordering: []string{"micro"}, Quotas: map[string]int64{"micro": 5}})
		assert.Contains(t, requireCode(t, err, fault.InvalidConfig).Reason, appA, "under ORG the app's label needs an org quota")
		_, err = w.a.Setup().PutApp(t.Context(), "00000000-0000-4000-8000-000000000000", App{ID: appB})
		require.ErrorIs(t, err, ErrNotFound)
	})
}

func TestManualOverride(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		until := w.clock.Now().Add(time.Hour)
		require.NoError(t, w.a.Setup().Override(t.Context(), orgO, appA, "economy", until))
		w.org(fixtureOrg()) // survives a PUT
		rec := w.recommend(w.b, appA)
		assert.Equal(t, "economy", rec.Label)
		assert.Equal(t, ReasonManualOverride, rec.Reason)
		assert.Equal(t, "premium", w.recommend(w.b, appB).Label)
		w.clock.Set(until)
		assert.Equal(t, "premium", w.recommend(w.b, appA).Label, "it has expired")

		require.NoError(t, w.a.Setup().Override(t.Context(), orgO, appA, "economy", until.Add(time.Hour)))
		require.NoError(t, w.a.Setup().ClearOverride(t.Context(), orgO, appA))
		assert.Equal(t, "premium", w.recommend(w.a, appA).Label)
		requireCode(t, w.a.Setup().Override(t.Context(), orgO, appA, "nowhere", until.Add(time.Hour)), fault.InvalidModelLabel)
		requireCode(t, w.a.Setup().Override(t.Context(), orgO, appA, "economy", until.Add(-time.Hour)), fault.InvalidRequest)
	})
}
