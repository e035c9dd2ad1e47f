package llm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/testworld"
	"github.com/dynalimit/dynalimit/llm"
)

// TestLostAnswersCountOnce: whatever answer is lost, on the way in or out.
func TestLostAnswersCountOnce(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{"lost answer": {Lose: true}, "lost request": {Drop: true}} {
		for _, during := range []string{"start", "settle", "rollback"} {
			t.Run(name+", "+during, func(t *testing.T) {
				virtual(t, func(t *testing.T, w *world) {
					g := w.guard(both)
					w.warm(g)
					inject := func(at string) {
						if at == during {
							w.db.SetFaults(testworld.FirstOf("UpdateItem", 1, fault))
						}
					}
					inject("start")
					c := w.start(g, request())
					inject("settle")
					if during == "rollback" {
						inject("rollback")
						require.NoError(t, c.Rollback(t.Context()))
						w.db.SetFaults(nil)
						w.requireNothing()
						return
					}
					w.settle(c)
					w.db.SetFaults(nil)
					w.requireSettled("premium", callMicros)
				})
			})
		}
	}
}

// TestCallerGivesUp: whatever Start was doing, it leaves nothing behind.
func TestCallerGivesUp(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{"before": {Before: time.Second}, "after": {After: time.Second}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				g := w.guard(both)
				w.warm(g)
				w.db.SetFaults(testworld.FirstOf("UpdateItem", 100, fault)) // sent again once, it would be answered in time
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := g.Start(ctx, request())
				require.ErrorIs(t, err, context.DeadlineExceeded)
				w.db.SetFaults(nil)
				<-time.After(5 * time.Second) // what was in flight is found and given back
				w.requireNothing()
			})
		})
	}
	engines(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.guard(both).Start(ctx, request())
		require.ErrorIs(t, err, context.Canceled)
		w.requireNothing()
	})
}

// TestSettlementSurvivesTheCaller: a client that hung up pays for what was
// used, and no more.
func TestSettlementSurvivesTheCaller(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kept, err := g.Start(ctx, request())
		require.NoError(t, err)
		dropped, err := g.Start(ctx, request())
		require.NoError(t, err)
		cancel()
		require.NoError(t, kept.Settle(ctx, used))
		require.NoError(t, dropped.Rollback(ctx))
		w.requireSettled("premium", callMicros)

		ctx, cancel = context.WithCancel(t.Context())
		err = g.Do(ctx, request(), func(ctx context.Context, c *llm.Call) (llm.Usage, error) {
			cancel()
			return llm.Usage{}, errors.Join(ctx.Err(), c.Rollback(ctx)) // it knows that nothing was sent
		})
		require.ErrorIs(t, err, context.Canceled)
		w.requireSettled("premium", callMicros)
	})
}
