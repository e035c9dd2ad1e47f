package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func microOrg() Org {
	o := hardOrg()
	o.Ordering, o.Quotas = []string{"micro"}, map[string]int64{"micro": 100}
	return o
}

// TestEstimateRoundsUp: a hold of the estimate covers its call, so that many
// tiny ones do not pass a hard quota.
func TestEstimateRoundsUp(t *testing.T) {
	w := newWorld(t)
	w.org(microOrg())
	ctx := t.Context()
	for tokens, want := range map[int64]int64{0: 0, 1: 1, 42: 2, 1000: 35, 1001: 36} { // at 0.035 µ$
		got, err := w.a.Estimate(ctx, orgO, appA, "micro", tokens, 0)
		require.NoError(t, err)
		assert.Equal(t, want, got, "%d tokens", tokens)
	}
	estimate, err := w.a.Estimate(ctx, orgO, appA, "micro", 42, 0) // 1.47 µ$
	require.NoError(t, err)
	var holds []*Hold
	for range 60 {
		if h, err := w.a.Reserve(ctx, orgO, appA, "micro", estimate, time.Minute); err == nil {
			holds = append(holds, h)
		}
	}
	require.Len(t, holds, 50)
	for i, h := range holds {
		_, err := h.Settle(ctx, Usage{RequestID: uuid(i), Label: "micro", Tokens: Tokens{Input: 42}})
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, w.total(appA, "micro", "").CostMicros, int64(100))
}

// TestNothingFitsAUsedUpQuota: not even an estimate of 0.
func TestNothingFitsAUsedUpQuota(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(microOrg())
		ctx := t.Context()
		free, err := w.a.Reserve(ctx, orgO, appA, "micro", 0, time.Minute)
		require.NoError(t, err, "there is room")
		require.NoError(t, free.Release(ctx))
		w.spend(appA, "micro", 100)
		_, err = w.a.Reserve(ctx, orgO, appA, "micro", 0, time.Minute)
		require.ErrorIs(t, err, ErrQuotaExceeded)

		never := microOrg()
		never.ID, never.Quotas = "550e8400-e29b-41d4-a716-446655440001", map[string]int64{"micro": 0}
		w.org(never)
		_, err = w.a.Reserve(ctx, never.ID, appA, "micro", 0, time.Minute)
		require.ErrorIs(t, err, ErrQuotaExceeded, "quota 0")
	})
}

// TestSettleHoldsNoOlderPrice: a time before the reservation is not a way to an
// older, cheaper price.
func TestSettleHoldsNoOlderPrice(t *testing.T) {
	for _, enforcement := range []Enforcement{Hard, Soft} {
		t.Run(string(enforcement), func(t *testing.T) {
			w := newWorld(t, func(o *Options) {
				o.Prices = []Price{
					{Model: premiumModel, Rates: Rates{Input: 3_000_000, Output: 15_000_000}},
					{Model: premiumModel, EffectiveFrom: fixtureNow.Add(-time.Minute), Rates: Rates{Input: 30_000_000, Output: 150_000_000}},
				}
			})
			o := fixtureOrg()
			o.Enforcement = enforcement
			w.org(o)
			for i, before := range []time.Duration{365 * 24 * time.Hour, 2 * time.Minute, 0} {
				h, err := w.a.Reserve(t.Context(), orgO, appA, "premium", 200_000, time.Minute)
				require.NoError(t, err)
				u := call(i)
				u.Time = fixtureNow.Add(-before)
				r, err := h.Settle(t.Context(), u)
				require.NoError(t, err)
				assert.Equal(t, int64(165_000), r.CostMicros, "%v before", before)
			}
		})
	}
}
