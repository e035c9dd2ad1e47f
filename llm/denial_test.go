package llm_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/llm"
)

// TestLimiterDenies: no money stays held.
func TestLimiterDenies(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		taken, err := w.limiter.Acquire(t.Context(), user, "chat", dynalimit.Amounts{"tpm": 95_000})
		require.NoError(t, err)
		for range 3 {
			_, err = g.Start(t.Context(), request())
			require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
			require.NotErrorIs(t, err, budget.ErrQuotaExceeded)
			require.ErrorContains(t, err, "tpm of user-1 on chat exceeded")
			wait, ok := llm.RetryAfter(err)
			assert.True(t, ok)
			assert.Equal(t, 600*time.Millisecond, wait, "1,000 of 100,000 a minute")
		}
		rpm, tpm := w.left()
		assert.Equal(t, []int64{60, 5_000}, []int64{rpm, tpm})
		w.requireNoMoney()
		require.NoError(t, taken.Rollback(t.Context()))
		w.requireNothing()
	})
}

// TestBudgetDenies: no limit is charged.
func TestBudgetDenies(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(budget.Hard, estimateMicros-1, 17_000)
		_, err := w.guard(both).Start(t.Context(), request())
		require.ErrorIs(t, err, budget.ErrQuotaExceeded)
		require.NotErrorIs(t, err, dynalimit.ErrLimitExceeded)
		_, ok := llm.RetryAfter(err)
		assert.False(t, ok, "it never fits")
		var denied *llm.DeniedError
		require.ErrorAs(t, err, &denied)
		assert.Equal(t, dynalimit.Never, denied.RetryAfter)
		var exceeded *budget.QuotaExceededError
		require.ErrorAs(t, err, &exceeded)
		assert.Len(t, exceeded.Labels, 2)
		err = w.guard(both).Do(t.Context(), request(), func(context.Context, *llm.Call) (llm.Usage, error) {
			assert.Fail(t, "a denied call is not made")
			return used, nil
		})
		require.ErrorIs(t, err, budget.ErrQuotaExceeded)
		w.requireNothing()
	})
}

// TestDenialThatEndsIsTold: a label that will have room is worth the wait, although
// the one after it is too small for the call for ever.
func TestDenialThatEndsIsTold(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(budget.Hard, estimateMicros+1_000, 1_000)
		g := w.guard(both)
		call, err := g.Start(t.Context(), request())
		require.NoError(t, err)
		_, err = g.Start(t.Context(), request())
		require.ErrorIs(t, err, budget.ErrQuotaExceeded)
		wait, ok := llm.RetryAfter(err)
		assert.True(t, ok, "premium has room when the first call ends")
		assert.LessOrEqual(t, wait, 6*time.Minute, "by then its hold has ended")
		require.NoError(t, call.Rollback(t.Context()))
		w.requireNothing()
	})
}

// TestNothingElseIsADenial: failures have no wait.
func TestNothingElseIsADenial(t *testing.T) {
	for _, err := range []error{nil, errors.New("503"), llm.ErrEnded, budget.ErrNotFound, dynalimit.ErrClosed} {
		_, ok := llm.RetryAfter(err)
		assert.False(t, ok)
	}
}

// race starts n calls at once, of four processes, and settles none.
func race(t *testing.T, w *world, n int) (started []*llm.Call, noQuota, noLimit int64) {
	t.Helper()
	guards := make([]*llm.Guard, 4)
	for i := range guards {
		guards[i] = w.otherProcess()
	}
	var quota, limit atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	r := request()
	r.Label = "premium"
	for i := range n {
		group.Go(func() {
			c, err := guards[i%len(guards)].Start(t.Context(), r)
			switch {
			case errors.Is(err, budget.ErrQuotaExceeded):
				quota.Add(1)
			case errors.Is(err, dynalimit.ErrLimitExceeded):
				limit.Add(1)
			case assert.NoError(t, err):
				mu.Lock()
				started = append(started, c)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return started, quota.Load(), limit.Load()
}

// settleAll settles calls at once.
func settleAll(t *testing.T, calls []*llm.Call) {
	t.Helper()
	var group sync.WaitGroup
	for _, c := range calls {
		group.Go(func() {
			_, err := c.Settle(t.Context(), used)
			assert.NoError(t, err)
		})
	}
	group.Wait()
}

// TestRacersOnTheBudget: 50 with money for 20 and limits for 30.
func TestRacersOnTheBudget(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(budget.Hard, 20*estimateMicros, 0)
		w.limits(dynalimit.PerMinute("rpm", 30), dynalimit.PerMinute("tpm", 1_000_000))
		started, noQuota, noLimit := race(t, w, 50)
		assert.Len(t, started, 20)
		assert.Equal(t, []int64{30, 0}, []int64{noQuota, noLimit})
		rpm, tpm := w.left()
		assert.Equal(t, []int64{10, 1_000_000 - 20*6_000}, []int64{rpm, tpm})
		assert.Equal(t, int64(20*estimateMicros), w.spent("premium").HeldMicros)

		settleAll(t, started)
		_, tpm = w.left()
		assert.Equal(t, int64(1_000_000-20*2_300), tpm)
		l := w.spent("premium")
		assert.Equal(t, []int64{20 * callMicros, 0, 20}, []int64{l.CostMicros, l.HeldMicros, l.Requests})
	})
}

// TestRacersOnTheLimits: 50 with money for 50 and limits for 20.
func TestRacersOnTheLimits(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(budget.Hard, 50*estimateMicros, 0)
		w.limits(dynalimit.PerMinute("rpm", 30), dynalimit.PerMinute("tpm", 20*6_000))
		started, noQuota, noLimit := race(t, w, 50)
		assert.Len(t, started, 20)
		assert.Equal(t, []int64{0, 30}, []int64{noQuota, noLimit})
		rpm, tpm := w.left()
		assert.Equal(t, []int64{10, 0}, []int64{rpm, tpm})
		assert.Equal(t, int64(20*estimateMicros), w.spent("premium").HeldMicros)

		for _, c := range started {
			require.NoError(t, c.Rollback(t.Context()))
		}
		rpm, tpm = w.left()
		assert.Equal(t, []int64{30, 20 * 6_000}, []int64{rpm, tpm})
		w.requireNoMoney()
	})
}

// TestOneCallSettledByMany: once.
func TestOneCallSettledByMany(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		c := w.start(w.guard(both), request())
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				receipt, err := c.Settle(t.Context(), used)
				assert.NoError(t, err)
				assert.Equal(t, int64(callMicros), receipt.CostMicros)
				assert.False(t, receipt.Duplicate)
			})
		}
		group.Wait()
		w.requireSettled("premium", callMicros)
	})
}

// TestBlockedEntity: no wait helps, and no money stays held.
func TestBlockedEntity(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		require.NoError(t, w.repository().SetBlocked(t.Context(), dynalimit.Scope{Entity: user}, true))
		_, err := w.guard(both).Start(t.Context(), request())
		require.ErrorIs(t, err, dynalimit.ErrBlocked)
		var denied *llm.DeniedError
		require.ErrorAs(t, err, &denied)
		assert.Equal(t, dynalimit.Never, denied.RetryAfter)
		_, ok := llm.RetryAfter(err)
		assert.False(t, ok)
		w.requireNoMoney()
	})
}

// TestLimitsThatAnEntityDoesNotHave: a call is limited by those it has, before the call
// and after it.
func TestLimitsThatAnEntityDoesNotHave(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		require.NoError(t, w.repository().SetEntityLimits(t.Context(), user, "", []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}))
		c := w.start(w.guard(both), request())
		assert.Equal(t, dynalimit.Amounts{"rpm": 1}, c.Lease().Consumed())
		w.settle(c)
		assert.Equal(t, dynalimit.Amounts{"rpm": 1}, c.Lease().Consumed())
		available, err := w.limiter.Available(t.Context(), user, "chat")
		require.NoError(t, err)
		assert.Equal(t, dynalimit.Amounts{"rpm": 4}, available)
	})
}

// TestUnlimitedEntity: money alone counts.
func TestUnlimitedEntity(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		require.NoError(t, w.repository().SetUnlimited(t.Context(), dynalimit.Scope{Entity: user}))
		c := w.start(w.guard(both), request())
		assert.Empty(t, c.Lease().Consumed())
		w.settle(c)
		assert.False(t, c.Lease().Degraded())
		assert.Equal(t, int64(callMicros), w.spent("premium").CostMicros)
	})
}
