package budgethttp

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
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

// force_check asks the store, even if everything is known.
func TestForcedSelectionIsFresh(t *testing.T) {
	w := newWorld(t)
	assert.Equal(t, "premium", w.b.get(pathA+"/model-selection").is(http.StatusOK).at("recommended_model.label"))
	_, err := w.a.keeper.Setup().Adjust(t.Context(), orgO, appA, budget.Adjustment{Label: "premium", DeltaMicros: 10_000_000, Reason: "test"})
	require.NoError(t, err)
	assert.Equal(t, "premium", w.b.get(pathA+"/model-selection").is(http.StatusOK).at("recommended_model.label"), "known for 5 s")
	assert.Equal(t, "standard", w.b.get(pathA+"/model-selection?force_check=true").is(http.StatusOK).at("recommended_model.label"))
}
