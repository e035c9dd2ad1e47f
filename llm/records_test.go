package llm_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/testworld"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

// TestTheKeeperIsNotWaitedFor: a call settles while its table does not answer, and is counted
// when it does.
func TestTheKeeperIsNotWaitedFor(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		c := w.start(w.guard(both), request())
		w.budget.away.Store(true)
		began := time.Now()
		w.settle(c)
		assert.Zero(t, time.Since(began))
		require.NoError(t, c.Rollback(t.Context()), "a call that happened is not given back")
		<-time.After(time.Minute)
		assert.Empty(t, w.refused)
		w.budget.away.Store(false)
		<-time.After(20 * time.Second)
		w.requireSettled("premium", callMicros)
	})
}

// TestCallThatOutlivesItsKeeper: what it cost is told to OnRefused, and its lease is settled.
func TestCallThatOutlivesItsKeeper(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		c := w.start(w.guard(both), request())
		require.NoError(t, w.keeper.Close(t.Context()))
		w.settle(c)
		w.flush()
		require.Len(t, w.refused, 1)
		assert.Equal(t, c.RequestID, w.refused[0].Record.RequestID)
		assert.Equal(t, used.Tokens, w.refused[0].Record.Tokens)
		assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 2_300}, c.Lease().Used())
	})
}

// TestLimitsThatHangAreWaitedForOnce: the first call that ends finds them silent, and the others
// do not wait.
func TestLimitsThatHangAreWaitedForOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		calls := []*llm.Call{w.start(g, request()), w.start(g, request()), w.start(g, request())}
		w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "UpdateItem" {
				return ddbmem.Fault{Before: time.Hour}
			}
			return ddbmem.Fault{}
		})
		for i, c := range calls {
			began := time.Now()
			_ = c.Settle(t.Context(), used) // the lease is not corrected
			if took := time.Since(began); i == 0 {
				assert.LessOrEqual(t, took, 1100*time.Millisecond, "one request's time")
			} else {
				assert.Zero(t, took)
			}
		}
		w.recovers()
		assert.Equal(t, int64(3), w.spent("premium").Requests)
	})
}

// TestTheRecordOfACallHasTheTimeItBeganAndItsModel: by these it is priced and counted on its day.
func TestTheRecordOfACallHasTheTimeItBeganAndItsModel(t *testing.T) {
	w := memWorld(t)
	began := noon.Add(12*time.Hour - time.Second)
	w.clock.set(began)
	c := w.start(w.guard(both), request())
	w.clock.advance(time.Hour)
	w.settle(c)
	w.flush()
	record := w.budget.records[c.RequestID]
	assert.Equal(t, began, record.Time)
	assert.Equal(t, premiumModel, record.Model)
}

// stuck is a keeper that takes no record until it is told to.
type stuck struct {
	*fakeKeeper
	open  chan struct{}
	asked atomic.Int64
}

func (s *stuck) CountCalls(ctx context.Context, org, app string, u []prices.Usage) ([]error, error) {
	s.asked.Add(1)
	select {
	case <-s.open:
		return s.fakeKeeper.CountCalls(ctx, org, app, u)
	case <-ctx.Done():
		return nil, &fault.UnavailableError{Package: "keeper", Err: ctx.Err()}
	}
}

// TestRecordsThatWaitAreBounded: the next call waits for one of them, and says so if it waits
// in vain; later it is handed over.
func TestRecordsThatWaitAreBounded(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.limits(dynalimit.PerMinute("rpm", 10_000), dynalimit.PerMinute("tpm", 100_000_000))
		keeper := &stuck{fakeKeeper: w.keeper, open: make(chan struct{})}
		g := w.guard(with{keeper: true}, func(o *llm.Options) { o.Keeper = keeper })
		for range 1_000 {
			w.settle(w.start(g, request()))
		}
		c := w.start(g, request())
		began := time.Now()
		err := c.Settle(t.Context(), used)
		assert.Equal(t, 20*time.Second, time.Since(began))
		var unsettled *llm.UnsettledError
		require.ErrorAs(t, err, &unsettled)
		require.ErrorIs(t, unsettled.Budget, fault.ErrUnavailable)
		close(keeper.open)
		w.settle(c)
		assert.Equal(t, int64(1_001), w.spent("premium").Requests)
		assert.Empty(t, w.refused)
	})
}

// TestCloseGivesUpInTime, and tells of every record that the keeper does not have. The guard
// can go on.
func TestCloseGivesUpInTime(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		keeper := &stuck{fakeKeeper: w.keeper, open: make(chan struct{})}
		g := w.guard(both, func(o *llm.Options) { o.Keeper = keeper })
		for range 3 {
			w.settle(w.start(g, request()))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		closed := make(chan error, 2)
		for range 2 { // at once
			go func() { closed <- g.Close(ctx) }()
		}
		for range 2 {
			require.ErrorIs(t, <-closed, context.DeadlineExceeded)
		}
		synctest.Wait()
		require.Len(t, w.refused, 3)
		for _, r := range w.refused {
			require.ErrorIs(t, r.Err, fault.ErrUnavailable)
			errs, err := w.keeper.CountCalls(t.Context(), r.Org, r.App, []prices.Usage{r.Record})
			require.NoError(t, err)
			require.NoError(t, errs[0], "as the record is")
		}
		close(keeper.open)
		w.settle(w.start(g, request()))
		require.NoError(t, g.Close(t.Context()))
		assert.Equal(t, int64(4), w.spent("premium").Requests)
	})
}

// TestARefusalIsFinal: what the keeper refuses for good is not sent again.
func TestARefusalIsFinal(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		keeper := &stuck{fakeKeeper: w.keeper, open: make(chan struct{})}
		close(keeper.open)
		g := w.guard(both, func(o *llm.Options) { o.Keeper = keeper })
		c := w.start(g, request())
		require.NoError(t, c.Settle(t.Context(), llm.Usage{Tokens: used.Tokens, Time: noon.Add(-25 * time.Hour)}))
		w.flush()
		require.Len(t, w.refused, 1)
		var bad *fault.ValidationError
		require.True(t, errors.As(w.refused[0].Err, &bad))
		assert.Equal(t, "timestamp", bad.Field)
		assert.Equal(t, int64(1), keeper.asked.Load())
	})
}

// buggy is a keeper that does not return when it is given records.
type buggy struct {
	*fakeKeeper
	end func()
}

func (b buggy) CountCalls(context.Context, string, string, []prices.Usage) ([]error, error) {
	b.end()
	return nil, nil
}

// A keeper or a hook that does not return neither ends the process nor leaves a record, a lease or
// Close waiting. Each record is told of.
func TestKeeperOrHookThatDoesNotReturn(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("a bug") }, "Goexit": runtime.Goexit} {
		t.Run("CountCalls "+name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				g := w.guard(both, func(o *llm.Options) { o.Keeper = buggy{w.keeper, end} })
				for range 3 {
					w.settle(w.start(g, request()))
				}
				w.flush()
				require.Len(t, w.refused, 3)
				for _, r := range w.refused {
					assert.ErrorContains(t, r.Err, "llm: the keeper did not return")
				}
			})
		})
		t.Run("OnRefused "+name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				var told atomic.Int32
				g := w.guard(both, func(o *llm.Options) {
					o.Keeper = buggy{w.keeper, end}
					o.OnRefused = func(llm.Refused) { told.Add(1); end() }
				})
				for range 3 {
					w.settle(w.start(g, request()))
				}
				w.flush()
				assert.EqualValues(t, 3, told.Load())
			})
		})
		t.Run("OnSettled "+name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				var told atomic.Int32
				g := w.guard(both, func(o *llm.Options) { o.OnSettled = func(llm.Settled) { told.Add(1); end() } })
				for _, call := range []func(*llm.Call) error{
					func(c *llm.Call) error { return c.SettleSoon(t.Context(), used) },
					func(c *llm.Call) error { c.Sent(); return c.Failed(t.Context(), llm.Outcome{Status: 500}) },
				} {
					c := w.start(g, request())
					require.NoError(t, call(c))
				}
				w.flush()
				assert.EqualValues(t, 2, told.Load())
				assert.EqualValues(t, 1, w.spent("premium").Requests)
			})
		})
	}
}

// TestFullRecordBatchIsSentAtOnce, and so is any batch while many records are pending, or when the guard
// closes.
func TestFullRecordBatchIsSentAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.org(10_000*callMicros, 10_000*callMicros)
		keeper := &stuck{fakeKeeper: w.keeper, open: make(chan struct{})}
		close(keeper.open)
		g := w.guard(with{keeper: true}, func(o *llm.Options) { o.Keeper = keeper })
		settle := func(n int) {
			for range n {
				w.settle(w.start(g, request()))
			}
			synctest.Wait()
		}
		settle(99)
		assert.Zero(t, keeper.asked.Load())
		settle(1)
		assert.EqualValues(t, 1, keeper.asked.Load())
		settle(1)
		<-time.After(time.Second - 1)
		assert.EqualValues(t, 1, keeper.asked.Load())
		<-time.After(1)
		synctest.Wait()
		assert.EqualValues(t, 2, keeper.asked.Load())
		settle(1)
		began := time.Now()
		w.flush()
		assert.Zero(t, time.Since(began))
		assert.EqualValues(t, 3, keeper.asked.Load())
		assert.Equal(t, int64(102), w.spent("premium").Requests)
	})
}

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
							w.db.SetFaults(testworld.FaultOnFirst("UpdateItem", 1, fault))
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
				w.db.SetFaults(testworld.FaultOnFirst("UpdateItem", 100, fault)) // sent again once, it would be answered in time
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

// TestCloseEndsThoughCallsGoOn: what is settled while Close gives up is sent later, and does not
// keep it.
func TestCloseEndsThoughCallsGoOn(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		keeper := &stuck{fakeKeeper: w.keeper, open: make(chan struct{})}
		var g *llm.Guard
		g = w.guard(both, func(o *llm.Options) {
			o.Keeper = keeper
			o.OnRefused = func(r llm.Refused) {
				w.refused = append(w.refused, r)
				w.settle(w.start(g, request()))
			}
		})
		w.settle(w.start(g, request()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, g.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		require.Len(t, w.refused, 1)
		close(keeper.open)
		require.NoError(t, g.Close(t.Context()))
		assert.Equal(t, int64(1), w.spent("premium").Requests)
	})
}
