package budgethttp

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/budget/internal/fixture"
)

// The thresholds of the modes are exact, and the answer says how long it may be kept.
func TestCaseC20ThresholdsAreExact(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for _, step := range []struct {
			add                       int64
			label, mode, reason, rest string
			secs                      int64
		}{
			{0, "premium", "NORMAL", "WITHIN_QUOTA", "NORMAL", 300},
			{9_499_999, "premium", "NORMAL", "WITHIN_QUOTA", "NORMAL", 300},
			{1, "premium", "TIGHT", "WITHIN_QUOTA", "TIGHT", 60},
			{499_999, "premium", "TIGHT", "WITHIN_QUOTA", "TIGHT", 60},
			{1, "standard", "NORMAL", "QUOTA_EXCEEDED_premium", "EXCEEDED", 300},
		} {
			if step.add > 0 {
				w.spend(appA, "premium", step.add)
			}
			r := w.b.get(pathA + "/model-selection").is(http.StatusOK)
			assert.Equal(t, []any{step.label, step.mode, step.reason}, []any{r.at("recommended_model.label"), r.at("mode"), r.at("reason")})
			assert.Equal(t, fixtureModels[step.label], r.at("recommended_model.model_id"))
			assert.Equal(t, step.rest, r.of("quota_status", "premium").at("status"))
			assert.Equal(t, step.secs, r.number("cache_duration_secs"))
			assert.Equal(t, fmt.Sprintf("private, max-age=%d", step.secs), r.header.Get("Cache-Control"))
			assert.Equal(t, []any{"20260123", "2026-01-24T05:00:00Z"}, []any{r.at("day"), r.at("reset_at")})
		}
	})
}

// The answer to usage says what to use next, by sums that are at most 5 s old.
func TestCaseC21UsageReplyDrivesTheSwitch(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		assert.Equal(t, []any{"premium", "NORMAL", "WITHIN_QUOTA"}, w.b.choice(pathA), "this node knows that nothing is spent")
		_, err := w.a.keeper.Adjust(t.Context(), orgO, appA, budget.Adjustment{Label: "premium", DeltaMicros: 9_990_000, Reason: "test"})
		require.NoError(t, err)
		w.clock.Advance(5 * time.Second)
		r := w.b.submit(call(1)).is(http.StatusAccepted)
		assert.Equal(t, int64(10_006_500), r.number("spend_usd_micros"))
		assert.Equal(t, []any{"TIGHT", "EXCEEDED", "standard"}, []any{r.at("mode"), r.at("quota_status"), r.at("recommended_label")})
		assert.InDelta(t, 100.1, r.at("quota_pct"), 0)
	})
}

// A sticky label that is exceeded is passed over, too.
func TestCaseC22ChainWalksPastAnExceededStickyLabel(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.put(nil)
		w.spend(appA, "premium", 10_000_000)
		assert.Equal(t, []any{"standard", "NORMAL", "QUOTA_EXCEEDED_premium"}, w.a.choice(pathA))
		sticky, err := w.b.keeper.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, []any{1, "standard", "premium"}, []any{sticky.Index, sticky.Label, sticky.Previous})
		w.spend(appA, "standard", 5_000_000)
		assert.Equal(t, []any{"economy", "NORMAL", "QUOTA_EXCEEDED_standard"}, w.b.choice(pathA))
		sticky, err = w.a.keeper.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, []any{2, "economy", "standard"}, []any{sticky.Index, sticky.Label, sticky.Previous})
	})
}

func TestCaseC23AllExceeded(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for label, micros := range map[string]int64{"premium": 10_000_000, "standard": 5_000_000, "economy": 2_000_100} {
			w.spend(appA, label, micros)
		}
		w.clock.Set(fixtureNow)
		r := w.node(w.keeper()).get(pathA+"/model-selection").fails(http.StatusTooManyRequests, wire.QuotaExceeded)
		assert.Equal(t, "48555", r.header.Get("Retry-After"))
		assert.Equal(t, "2026-01-24T05:00:00Z", r.at("details.retry_after"))
		assert.Equal(t, int64(100), r.number("details.total_overage_usd_micros"))
		assert.Len(t, r.at("details.labels"), 3)
		for label, percent := range map[string]float64{"premium": 100, "standard": 100, "economy": 100} {
			l := r.of("details.labels", label)
			assert.InDelta(t, percent, l.at("quota_pct"), 0.1, label)
			assert.Equal(t, "EXCEEDED", l.at("status"), label)
		}
		submitted := w.a.submit(call(1)).is(http.StatusAccepted)
		assert.NotContains(t, submitted.body, "recommended_label", "no label has room")
	})
}

// A quota that is raised is in force at once where it was put, and elsewhere after what is
// kept of configuration and sums; one that is lowered, too.
func TestCaseC25QuotaRaisedMidDay(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		quotas := func(premium int64) example {
			return example{"quotas": example{"premium": premium, "standard": 5_000_000, "economy": 2_000_000}}
		}
		w.put(nil)
		w.spend(appA, "premium", 10_000_000)
		for _, n := range []*node{w.a, w.b} {
			assert.Equal(t, []any{"standard", "NORMAL", "QUOTA_EXCEEDED_premium"}, n.choice(pathA))
		}
		sticky, err := w.b.keeper.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, "standard", sticky.Label)

		w.put(quotas(20_000_000))
		raised := func(n *node) {
			t.Helper()
			assert.Equal(t, []any{"premium", "NORMAL", "WITHIN_QUOTA"}, n.choice(pathA))
			selected := n.get(pathA + "/model-selection").is(http.StatusOK)
			assert.InDelta(t, 50.0, selected.of("quota_status", "premium").at("quota_pct"), 0)
		}
		raised(w.a)
		w.clock.Advance(35 * time.Second)
		raised(w.b)

		w.put(quotas(9_000_000))
		assert.Equal(t, []any{"standard", "NORMAL", "QUOTA_EXCEEDED_premium"}, w.a.choice(pathA))
		w.clock.Advance(35 * time.Second)
		assert.Equal(t, []any{"standard", "NORMAL", "QUOTA_EXCEEDED_premium"}, w.b.choice(pathA))
	})
}

// A quota of 0 is never selectable, and divides nothing; a label without one is refused.
func TestCaseC27QuotaOfZeroAndMissingQuota(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.put(example{"quotas": example{"premium": 0, "standard": 5_000_000, "economy": 2_000_000}})
		assert.Equal(t, []any{"standard", "NORMAL", "QUOTA_EXCEEDED_premium"}, w.a.choice(pathA))
		r := w.a.get(pathA + "/model-selection").is(http.StatusOK)
		assert.InDelta(t, 0.0, r.of("quota_status", "premium").at("quota_pct"), 0)
		counted := w.a.submit(call(1)).is(http.StatusAccepted)
		assert.InDelta(t, 0.0, counted.at("quota_pct"), 0)
		assert.InDelta(t, 0.0, w.total("premium", "").at("quota_pct"), 0)

		admin := w.a.as("key")
		before := admin.get(pathO).is(http.StatusOK).number("version")
		for name, values := range map[string]example{
			"no quota":         {"quotas": example{"premium": 1, "standard": 1}},
			"a negative quota": {"quotas": example{"premium": -1, "standard": 1, "economy": 1}},
			"a quota too high": {"quotas": example{"premium": 1_000_000_000_001, "standard": 1, "economy": 1}},
			"a label twice":    {"model_ordering": []any{"premium", "standard", "economy", "premium"}},
		} {
			r := admin.do(http.MethodPut, pathO, exampleOrg.but(values))
			require.Equal(t, []any{http.StatusBadRequest, "INVALID_CONFIG"}, []any{r.status, r.at("error")}, "%s: %s", name, r.raw)
		}
		admin.do(http.MethodPut, pathA, exampleApp.but(example{"model_ordering": []any{"premium", "micro"}})).fails(http.StatusBadRequest, wire.InvalidConfig)
		assert.Equal(t, before, admin.get(pathO).is(http.StatusOK).number("version"), "nothing was changed")
	})
}

// Under scope ORG one total binds all apps, whatever their own quotas; under scope APP each has
// its own. Apps of the same name in two organisations share nothing.
func TestCaseC28ScopeDecidesWhoseSpendBinds(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		const whole = "/api/v1/orgs/" + orgNone
		admin := w.a.as("key")
		admin.do(http.MethodPut, whole, exampleOrg.but(example{"quota_scope": "ORG"})).is(http.StatusCreated)
		generous := exampleApp.but(example{"quotas": example{"premium": 1_000_000_000, "standard": 1_000_000_000}})
		admin.do(http.MethodPut, whole+"/apps/"+appA, generous).is(http.StatusCreated)
		charge := func(path string, n int, micros int64) {
			t.Helper()
			admin.do(http.MethodPost, path+"/adjustments", exampleAdjustment.but(example{"id": uuid(n), "delta_usd_micros": micros})).is(http.StatusOK)
		}
		charge(whole+"/apps/"+appA, 1, 6_000_000)
		charge(whole+"/apps/"+appB, 2, 4_000_000)
		charge(pathA, 1, 6_000_000)
		charge(pathB, 2, 4_000_000)
		w.clock.Advance(6 * time.Second)
		for _, app := range []string{appA, appB} {
			assert.Equal(t, []any{"standard", "NORMAL", "QUOTA_EXCEEDED_premium"}, w.b.as("gone").choice(whole+"/apps/"+app))
		}
		for path, percent := range map[string]float64{pathA: 60, pathB: 40} {
			assert.Equal(t, []any{"premium", "NORMAL", "WITHIN_QUOTA"}, w.b.choice(path))
			r := w.b.get(path + "/model-selection").is(http.StatusOK)
			assert.InDelta(t, percent, r.of("quota_status", "premium").at("quota_pct"), 0)
		}
		other := w.b.as("other").get("/api/v1/orgs/" + orgOther + "/apps/" + appA + "/aggregates/today").is(http.StatusOK)
		assert.Equal(t, int64(0), other.number("cost_usd_micros"), "a third has spent nothing")
	})
}

// Clients that obey the answers to their usage overshoot a quota by little.
func TestCaseC31OvershootBound(t *testing.T) {
	for staleness, most := range map[time.Duration]int64{5 * time.Second: 11_000_000, time.Second: 10_300_000} {
		open := func(t testing.TB, e *fixture.Engine) *world {
			return worldOn(t, e, func(o *budget.Options) { o.Staleness = staleness })
		}
		t.Run(staleness.String(), func(t *testing.T) {
			fixture.Engines(t, open, func(t *testing.T, w *world) {
				w.spend(appA, "premium", 9_000_000) // the overshoot is the last seconds'
				adapt := func(o *budget.Options) { o.Staleness = staleness }
				nodes := []*node{w.a, w.b, w.node(w.keeper(adapt)), w.node(w.keeper(adapt))}
				labels := []any{"premium", "premium", "premium", "premium"}
				for step := 0; step < 1000; step++ { // each client 2.5 times a second
					w.clock.Advance(100 * time.Millisecond)
					if i := step % 4; labels[i] == "premium" {
						r := nodes[i].submit(call(step).but(example{"timestamp": w.clock.Now().Format(time.RFC3339Nano)})).is(http.StatusAccepted)
						labels[i] = r.at("recommended_label")
					}
				}
				assert.Equal(t, []any{"standard", "standard", "standard", "standard"}, labels)
				spent := w.total("premium", "").number("cost_usd_micros")
				assert.GreaterOrEqual(t, spent, int64(10_000_000))
				assert.LessOrEqual(t, spent, most)
			})
		})
	}
}

// force_check asks the store, even if everything is known.
func TestForcedSelectionIsFresh(t *testing.T) {
	w := newWorld(t)
	assert.Equal(t, "premium", w.b.get(pathA+"/model-selection").is(http.StatusOK).at("recommended_model.label"))
	_, err := w.a.keeper.Adjust(t.Context(), orgO, appA, budget.Adjustment{Label: "premium", DeltaMicros: 10_000_000, Reason: "test"})
	require.NoError(t, err)
	assert.Equal(t, "premium", w.b.get(pathA+"/model-selection").is(http.StatusOK).at("recommended_model.label"), "known for 5 s")
	assert.Equal(t, "standard", w.b.get(pathA+"/model-selection?force_check=true").is(http.StatusOK).at("recommended_model.label"))
}
