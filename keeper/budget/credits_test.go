package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/prices"
)

// TestACreditMayBeMoreThanWasSpent: the day's cost is below zero then, and that much more is
// spent before its label is passed over. A label with a quota of 0 stays out of use.
func TestACreditMayBeMoreThanWasSpent(t *testing.T) {
	w := newWorld(t)
	o := fixtureOrg()
	o.Quotas["standard"] = 0
	w.org(o)
	for _, label := range []string{"premium", "standard"} {
		require.NoError(t, adjust(t.Context(), w.a, orgO, appA, Adjustment{Label: label, DeltaMicros: -5_000_000, Reason: "invoice"}))
	}
	got := w.total(appA, "premium", "")
	assert.Equal(t, int64(-5_000_000), got.CostMicros)
	assert.InDelta(t, -50, got.Percent, 0)
	assert.Equal(t, prices.StatusNormal, got.Status)
	assert.Equal(t, prices.StatusExceeded, w.total(appA, "standard", "").Status)
	require.NoError(t, adjust(t.Context(), w.a, orgO, appA, Adjustment{Label: "premium", DeltaMicros: 14_999_999, Reason: "imported"}))
	w.clock.Advance(6 * time.Second)
	assert.Equal(t, "premium", w.recommend(w.b, appA).Label)
	require.NoError(t, adjust(t.Context(), w.a, orgO, appA, Adjustment{Label: "premium", DeltaMicros: 1, Reason: "imported"}))
	w.clock.Advance(6 * time.Second)
	assert.Equal(t, "economy", w.recommend(w.b, appA).Label)
}

// TestAPriceReachesOthersWithTheirConfiguration: they count at the price before it for
// Options.ConfigTTL, also after it has begun.
func TestAPriceReachesOthersWithTheirConfiguration(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	cost := func(k *Keeper, n int) int64 {
		u := call(n)
		u.Time, u.Tokens = w.clock.Now(), prices.Tokens{Output: 1_000}
		return w.submit(k, u).CostMicros
	}
	require.Equal(t, int64(15_000), cost(w.b, 1))
	raised := prices.Price{Model: premiumModel, EffectiveFrom: w.clock.Now().Add(time.Second), Rates: prices.Rates{Input: 1, Output: 100_000_000}}
	require.NoError(t, w.a.Prices().Put(t.Context(), premiumModel, raised))
	assert.Equal(t, int64(15_000), cost(w.a, 2), "it has not begun")
	w.clock.Advance(time.Second)
	assert.Equal(t, int64(100_000), cost(w.a, 3))
	assert.Equal(t, int64(15_000), cost(w.b, 4))
	w.clock.Advance(30 * time.Second)
	assert.Equal(t, int64(100_000), cost(w.b, 5))
}
