package llm_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
)

func TestMeterSettlesWhatWasSeen(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		c := w.start(w.guard(both), request())
		m := c.Meter()
		assert.Same(t, m, c.Meter())
		m.Add(t.Context(), budget.Tokens{Input: 1_500})
		for range 8 {
			m.Add(t.Context(), budget.Tokens{Output: 90}) // a guess per chunk
		}
		assert.Equal(t, budget.Tokens{Input: 1_500, Output: 720}, m.Seen())
		m.Set(t.Context(), used.Tokens) // the provider's last word
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
				c.Meter().Add(ctx, budget.Tokens{Output: 10})
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
		assert.Equal(t, []int64{2_000*3 + 300*15, 0, 1}, []int64{l.CostMicros, l.HeldMicros, l.Requests})
	})
}

func TestStreamThatNeverBegan(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		c := w.start(w.guard(both), request())
		require.NoError(t, c.Meter().Close(t.Context()))
		w.requireNothing()
	})
}

// TestLongStreamKeepsItsHold: tokens that arrive extend it, and only those.
func TestLongStreamKeepsItsHold(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.org(budget.Hard, estimateMicros, 0)
		g := w.guard(both)
		c := w.start(g, request())
		w.db.SetFaults(on("TransactWriteItems", 1, ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}))
		for range 300 {
			w.clock.advance(time.Second)
			c.Meter().Add(t.Context(), budget.Tokens{Output: 1})
			<-time.After(time.Second) // the stream does not wait for what it began
		}
		assert.True(t, c.Hold().ExpiresAt().After(w.clock.now()))
		_, err := w.guard(both, func(o *llm.Options) { o.Keeper = w.newKeeper() }).Start(t.Context(), request())
		require.ErrorIs(t, err, budget.ErrQuotaExceeded, "the money is still held")
		require.NoError(t, c.Meter().Close(t.Context()))
		l := w.spent("premium")
		assert.Equal(t, []int64{2_000*3 + 300*15, 0}, []int64{l.CostMicros, l.HeldMicros})
	})
}

// TestStalledStream loses its hold, and counts all the same.
func TestStalledStream(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(budget.Hard, 2*estimateMicros-1, 0)
		g := w.guard(both)
		c := w.start(g, request())
		c.Meter().Add(t.Context(), budget.Tokens{Output: 100})
		w.clock.advance(2 * time.Minute)
		other := w.start(w.guard(both, func(o *llm.Options) { o.Keeper = w.newKeeper() }), request())
		require.ErrorIs(t, c.Extend(t.Context()), budget.ErrNotFound)
		for range 3 {
			c.Meter().Add(t.Context(), budget.Tokens{Output: 100})
		}
		require.NoError(t, c.Meter().Close(t.Context()))
		w.settle(other)
		l := w.spent("premium")
		assert.Equal(t, []int64{2_000*3 + 400*15 + callMicros, 0, 2}, []int64{l.CostMicros, l.HeldMicros, l.Requests})
	})
}
