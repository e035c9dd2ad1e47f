package budgethttp

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

// midnight is when 24 January begins in New York.
var midnight = time.Date(2026, 1, 24, 5, 0, 0, 0, time.UTC)

// A new day begins with nothing spent; what belongs to the old one still counts there.
func TestCaseD32Rollover(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.put(nil)
		w.spend(appA, "premium", 10_000_000)
		w.clock.Set(midnight.Add(-time.Second))
		for _, n := range []*node{w.a, w.b} {
			assert.Equal(t, []any{"standard", "NORMAL", "QUOTA_EXCEEDED_premium"}, n.choice(pathA))
		}
		sticky, err := w.b.keeper.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, "standard", sticky.Label)
		w.clock.Set(midnight)
		for _, n := range []*node{w.a, w.b} {
			assert.Equal(t, []any{"premium", "NORMAL", "WITHIN_QUOTA"}, n.choice(pathA))
			r := n.get(pathA + "/model-selection").is(http.StatusOK)
			assert.Equal(t, "20260124", r.at("day"))
			assert.Equal(t, int64(0), r.of("quota_status", "premium").number("spend_usd_micros"))
		}
		late := w.a.submit(call(1).but(example{"timestamp": "2026-01-24T04:59:59Z"})).is(http.StatusAccepted)
		assert.Equal(t, "20260123", late.at("day"))
		assert.Equal(t, int64(10_016_500), w.total("premium", "20260123").number("cost_usd_micros"))
		assert.Equal(t, int64(0), w.total("premium", "20260124").number("cost_usd_micros"))
	})
}

// A time zone and a scope are for good: what was counted is by them.
func TestCaseD34ZoneAndScopeAreFixed(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.put(nil)
		w.a.submit(call(1)).is(http.StatusAccepted)
		for _, change := range []example{{"timezone": "Asia/Tokyo"}, {"quota_scope": "ORG"}, {"timezone": "Mars/Olympus"}} {
			w.a.as("key").do(http.MethodPut, pathO, exampleOrg.but(change)).fails(http.StatusBadRequest, wire.InvalidConfig)
		}
		assert.Equal(t, []any{"premium", "NORMAL", "WITHIN_QUOTA"}, w.b.choice(pathA))
	})
}
