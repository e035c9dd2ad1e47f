package llm_test

import (
	"context"
	"testing"

	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMeterSettlesWhatWasSeen(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		c := w.start(w.guard(both), request())
		m := c.Meter()
		assert.Same(t, m, c.Meter())
		m.Add(prices.Tokens{Input: 1_500})
		for range 8 {
			m.Add(prices.Tokens{Output: 90}) // a guess per chunk
		}
		assert.Equal(t, prices.Tokens{Input: 1_500, Output: 720}, m.Seen())
		m.Set(used.Tokens) // the provider's last word
		require.NoError(t, m.Close(t.Context()))
		w.requireSettled("premium", callMicros)
		require.NoError(t, m.Close(t.Context()))
		w.requireSettled("premium", callMicros)
	})
}

// TestCutStream: the client hangs up in the middle; nobody reported the prompt.
func TestCutStream(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		err := w.guard(both).Do(ctx, request(), func(ctx context.Context, c *llm.Call) (llm.Usage, error) {
			for i := range 100 {
				c.Meter().Add(prices.Tokens{Output: 10})
				if i == 29 {
					hangUp()
				}
				if err := ctx.Err(); err != nil {
					return llm.Usage{}, err
				}
			}
			return llm.Usage{}, nil
		})
		require.ErrorIs(t, err, context.Canceled)
		rpm, tpm := w.left()
		assert.Equal(t, []int64{59, 100_000 - 2_300}, []int64{rpm, tpm}, "the prompt's estimate and 300 tokens")
		l := w.spent("premium")
		assert.Equal(t, []int64{2_000*3 + 300*15, 1}, []int64{l.CostMicros, l.Requests})
	})
}

// TestStreamWithoutUsageKeepsItsEstimate: it was sent, and billed. Rollback says that it was
// not.
func TestStreamWithoutUsageKeepsItsEstimate(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		none := w.start(g, request())
		require.NoError(t, none.Rollback(t.Context()))
		require.NoError(t, none.Meter().Close(t.Context()))
		w.requireNothing()

		r := request()
		r.Estimate.LikelyOutputTokens = 1_000
		c := w.start(g, r)
		require.NoError(t, c.Meter().Close(t.Context()))
		require.NoError(t, c.Meter().Close(t.Context()))
		w.flush()
		rpm, tpm := w.left()
		assert.Equal(t, []int64{59, 100_000 - 3_000}, []int64{rpm, tpm})
		l := w.spent("premium")
		assert.Equal(t, []int64{2_000*3 + 1_000*15, 1}, []int64{l.CostMicros, l.Requests})
	})
}
