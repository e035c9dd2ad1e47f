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

// Another time zone begins when the running day has ended: nothing that is spent comes back.
func TestCaseD34ZoneChangeDoesNotRefund(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.put(nil)
		w.spend(appA, "premium", 10_000_000)
		put := w.put(example{"timezone": "Asia/Tokyo"}) // where it is the 24th
		assert.Equal(t, midnight.Format(time.RFC3339), put.at("changes_at"))
		exceeded := func(why string) {
			t.Helper()
			for _, n := range []*node{w.a, w.b} {
				assert.Equal(t, []any{"standard", "NORMAL", "QUOTA_EXCEEDED_premium"}, n.choice(pathA), why)
				assert.Equal(t, "20260123", n.get(pathA+"/model-selection").is(http.StatusOK).at("day"), why)
			}
		}
		exceeded("at once")
		w.clock.Advance(35 * time.Second)
		exceeded("when the other node knows")
		assert.Equal(t, "20260123", w.b.submit(call(1)).is(http.StatusAccepted).at("day"))
		w.clock.Set(midnight.Add(-time.Second))
		exceeded("to the end of the day")
		w.clock.Set(midnight)
		for _, n := range []*node{w.a, w.b} {
			assert.Equal(t, []any{"premium", "NORMAL", "WITHIN_QUOTA"}, n.choice(pathA))
			r := n.get(pathA + "/model-selection").is(http.StatusOK)
			assert.Equal(t, []any{"20260124", "2026-01-24T15:00:00Z"}, []any{r.at("day"), r.at("reset_at")}, "to Tokyo's midnight")
		}
		assert.Equal(t, int64(10_016_500), w.total("premium", "20260123").number("cost_usd_micros"))
		w.a.as("key").do(http.MethodPut, pathO, exampleOrg.but(example{"timezone": "Mars/Olympus"})).fails(http.StatusBadRequest, wire.InvalidConfig)
	})
}
