package budgethttp

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
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
			assert.Equal(t, step.rest, r.entryOf("quota_status", "premium").at("status"))
			assert.Equal(t, step.secs, r.number("cache_duration_secs"))
			assert.Equal(t, fmt.Sprintf("private, max-age=%d", step.secs), r.header.Get("Cache-Control"))
			assert.Equal(t, []any{"20990123", "2099-01-24T05:00:00Z"}, []any{r.at("day"), r.at("reset_at")})
		}
	})
}
