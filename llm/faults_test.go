package llm_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
)

// down takes the store of one table away.
func down(operations ...string) ddbmem.FaultFunc {
	return func(r *ddbmem.Request) ddbmem.Fault {
		for _, o := range operations {
			if r.Operation == o {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}}
			}
		}
		return ddbmem.Fault{}
	}
}

// TestLostAnswersCountOnce: whatever answer is lost, on the way in or out.
func TestLostAnswersCountOnce(t *testing.T) {
	const money, limits = "TransactWriteItems", "UpdateItem"
	for _, operation := range []string{money, limits} {
		for name, fault := range map[string]ddbmem.Fault{"lost answer": {Lose: true}, "lost request": {Drop: true}} {
			for _, during := range []string{"start", "settle", "rollback"} {
				t.Run(operation+", "+name+", "+during, func(t *testing.T) {
					virtual(t, func(t *testing.T, w *world) {
						g := w.guard(both)
						w.warm(g)
						inject := func(at string) {
							if at == during {
								w.db.SetFaults(on(operation, 1, fault))
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
}

// TestOneSideFails: the other is settled all the same, and Settle again writes
// what is missing.
func TestOneSideFails(t *testing.T) {
	for _, test := range []struct {
		operations []string
		left       int64 // of tpm, after the first Settle
		requests   int64
	}{
		{[]string{"TransactWriteItems"}, 97_700, 0},
		{[]string{"UpdateItem", "PutItem"}, 94_000, 1},
		{[]string{"TransactWriteItems", "UpdateItem", "PutItem"}, 94_000, 0},
	} {
		virtual(t, func(t *testing.T, w *world) {
			c := w.start(w.guard(both), request())
			w.db.SetFaults(down(test.operations...))
			_, err := c.Settle(t.Context(), used)
			var unsettled *llm.UnsettledError
			require.ErrorAs(t, err, &unsettled)
			require.ErrorContains(t, err, "call "+c.RequestID+" is not settled")
			assert.Equal(t, test.requests == 0, unsettled.Budget != nil)
			assert.Equal(t, test.left == 94_000, unsettled.Lease != nil)
			assert.Equal(t, used.Tokens, unsettled.Record.Tokens)
			assert.Equal(t, []string{org, app, c.RequestID}, []string{unsettled.Org, unsettled.App, unsettled.Record.RequestID})
			if unsettled.Budget != nil {
				var unavailable *budget.UnavailableError
				require.ErrorAs(t, err, &unavailable)
			}
			if unsettled.Lease != nil {
				require.ErrorIs(t, err, dynalimit.ErrUnconfirmed)
			}
			w.recovers()
			_, tpm := w.left()
			assert.Equal(t, test.left, tpm)
			assert.Equal(t, test.requests, w.spent("premium").Requests)

			require.NoError(t, c.Rollback(t.Context()), "a call that happened is not given back")
			w.settle(c)
			l := w.spent("premium")
			assert.Equal(t, []int64{callMicros, 0, 1}, []int64{l.CostMicros, l.HeldMicros, l.Requests})
			assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 2_300}, c.Lease().Consumed())
		})
	}
}

// TestStoreDown: nothing is admitted, and it is no denial.
func TestStoreDown(t *testing.T) {
	for _, operations := range [][]string{{"TransactWriteItems"}, {"UpdateItem", "PutItem"}} {
		virtual(t, func(t *testing.T, w *world) {
			g := w.guard(both)
			w.warm(g)
			w.db.SetFaults(down(operations...))
			_, err := g.Start(t.Context(), request())
			require.Error(t, err)
			require.NotErrorIs(t, err, dynalimit.ErrLimitExceeded)
			require.NotErrorIs(t, err, budget.ErrQuotaExceeded)
			var denied *llm.DeniedError
			assert.NotErrorAs(t, err, &denied)
			w.recovers()
			w.requireNothing()
		})
	}
}

// TestDenialWhoseGiveBackFails: the denial is told, and the money comes back
// with the end of the hold.
func TestDenialWhoseGiveBackFails(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		w.org(budget.Hard, estimateMicros, 0)
		w.warm(g)
		taken, err := w.limiter.Acquire(t.Context(), user, "chat", dynalimit.Amounts{"tpm": 100_000})
		require.NoError(t, err)
		var transactions atomic.Int64
		w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "TransactWriteItems" && transactions.Add(1) > 1 {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}}
			}
			return ddbmem.Fault{}
		})
		_, err = g.Start(t.Context(), request())
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		_, ok := llm.RetryAfter(err)
		assert.True(t, ok)
		var unavailable *budget.UnavailableError
		require.ErrorAs(t, err, &unavailable, "what could not be given back")
		w.db.SetFaults(nil)
		require.NoError(t, taken.Rollback(t.Context()))
		assert.Equal(t, int64(estimateMicros), w.spent("premium").HeldMicros)

		_, err = g.Start(t.Context(), request())
		require.ErrorIs(t, err, budget.ErrQuotaExceeded)
		w.clock.advance(time.Minute + 2*time.Second) // its end, and the margin for clocks that differ
		w.settle(w.start(g, request()))
		w.requireSettled("premium", callMicros)
	})
}

// TestCrashHeals: a process that dies after Start leaves an estimate in the
// buckets until it is refilled, and a hold until its end.
func TestCrashHeals(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(budget.Hard, estimateMicros, 0)
		_, err := w.keeper.Reserve(t.Context(), org, app, "premium", estimateMicros, time.Minute) // before the acquire
		require.NoError(t, err)
		other := w.guard(both, func(o *llm.Options) { o.Keeper = w.newKeeper() })
		_, err = other.Start(t.Context(), request())
		require.ErrorIs(t, err, budget.ErrQuotaExceeded)
		w.clock.advance(time.Minute + 2*time.Second) // its end, and the margin for clocks that differ

		lost := w.start(other, request()) // after both
		_, tpm := w.left()
		assert.Equal(t, int64(94_000), tpm)
		third := w.guard(both, func(o *llm.Options) { o.Keeper = w.newKeeper() })
		_, err = third.Start(t.Context(), request())
		require.ErrorIs(t, err, budget.ErrQuotaExceeded)
		w.clock.advance(time.Minute + 2*time.Second) // its end, and the margin for clocks that differ
		w.settle(w.start(third, request()))
		w.requireSettled("premium", callMicros)

		// It was not dead, but slow: its call counts all the same, once.
		w.settle(lost)
		l := w.spent("premium")
		assert.Equal(t, []int64{2 * callMicros, 0, 2}, []int64{l.CostMicros, l.HeldMicros, l.Requests})
	})
}

// TestCallerGivesUp: whatever Start was doing, it leaves nothing behind.
func TestCallerGivesUp(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{"before": {Before: time.Second}, "after": {After: time.Second}} {
		for _, operation := range []string{"TransactWriteItems", "UpdateItem"} {
			t.Run(operation+" "+name, func(t *testing.T) {
				virtual(t, func(t *testing.T, w *world) {
					g := w.guard(both)
					w.warm(g)
					times := 1
					if operation == "UpdateItem" { // sent again, it would be answered in time
						times = 100
					}
					w.db.SetFaults(on(operation, times, fault))
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
		_, err = kept.Settle(ctx, used)
		require.NoError(t, err)
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

// TestDegradedBudget: with OnUnavailable.Reserve: Allow calls go on without a
// reservation, and are counted when the store is back.
func TestDegradedBudget(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.warm(w.guard(both))
		keeper := w.newKeeper(func(o *budget.Options) { o.OnUnavailable.Reserve = budget.Allow })
		g := w.guard(both, func(o *llm.Options) { o.Keeper = keeper })
		w.db.SetFaults(down("TransactWriteItems"))
		c := w.start(g, request())
		assert.True(t, c.Hold().Degraded)
		assert.Equal(t, []string{"premium", premiumModel}, []string{c.Label, c.Model})
		c.Meter().Add(t.Context(), budget.Tokens{Output: 1})
		w.db.SetFaults(nil)
		w.settle(c)
		w.requireSettled("premium", callMicros)
	})
}

// TestDegraded: with OnUnavailable: Allow calls go on without limits, and are
// charged when the store is back.
func TestDegraded(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		w.warm(g)
		r := request()
		r.AcquireOptions = []dynalimit.AcquireOption{dynalimit.WithOnUnavailable(dynalimit.Allow)}
		w.db.SetFaults(down("UpdateItem", "PutItem", "GetItem", "BatchGetItem", "Query"))
		require.NoError(t, w.start(g, r).Rollback(t.Context()), "its writes went unanswered")
		c := w.start(g, r)
		assert.True(t, c.Lease().Degraded())
		w.settle(c)
		w.recovers()
		w.requireSettled("premium", callMicros)
	})
}

// TestSameRequestAgain: a call that is retried under its id is paid once.
func TestSameRequestAgain(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		r := request()
		r.RequestID = uuid(7)
		w.settle(w.start(g, r))
		assert.True(t, w.settle(w.start(g, r)).Duplicate)
		assert.Equal(t, int64(callMicros), w.spent("premium").CostMicros)

		held := w.spent("premium").HeldMicros
		c := w.start(g, r)
		assert.Equal(t, held+estimateMicros, w.spent("premium").HeldMicros)
		_, err := c.Settle(t.Context(), llm.Usage{Tokens: budget.Tokens{Output: 1}})
		require.ErrorIs(t, err, budget.ErrConflict)
		require.True(t, errors.As(err, new(*llm.UnsettledError)))
		l := w.spent("premium")
		assert.Equal(t, []int64{held, callMicros, 1}, []int64{l.HeldMicros, l.CostMicros, l.Requests}, "its hold is given back")
	})
}
