package llm_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

// TestLimiterDenies: no money is counted.
func TestLimiterDenies(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		taken, err := w.limiter.Acquire(t.Context(), user, "chat", dynalimit.Amounts{"tpm": 95_000})
		require.NoError(t, err)
		for range 3 {
			_, err = g.Start(t.Context(), request())
			require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
			require.NotErrorIs(t, err, prices.ErrQuotaExceeded)
			require.ErrorContains(t, err, "tpm of user-1 on chat exceeded")
			wait, ok := dynalimit.RetryAfter(err)
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
			case errors.Is(err, prices.ErrQuotaExceeded):
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
			assert.NoError(t, c.Settle(t.Context(), used))
		})
	}
	group.Wait()
}

// TestBudgetDenies: no limit is charged.
func TestBudgetDenies(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(0, 0)
		for _, label := range []string{"", "premium"} {
			r := request()
			r.Label = label
			_, err := w.guard(both).Start(t.Context(), r)
			require.ErrorIs(t, err, prices.ErrQuotaExceeded)
			require.NotErrorIs(t, err, dynalimit.ErrLimitExceeded)
			var denied *llm.DeniedError
			require.ErrorAs(t, err, &denied)
			assert.Equal(t, 12*time.Hour, denied.RetryAfter, "until the day ends")
			var exceeded *prices.QuotaExceededError
			require.ErrorAs(t, err, &exceeded)
			assert.Len(t, exceeded.Labels, 2)
		}
		err := w.guard(both).Do(t.Context(), request(), func(context.Context, *llm.Call) (llm.Usage, error) {
			assert.Fail(t, "a denied call is not made")
			return used, nil
		})
		require.ErrorIs(t, err, prices.ErrQuotaExceeded)
		w.requireNothing()
	})
}

// TestDenialsCostNothing once the limiter remembers them, and keep no other from its money.
func TestDenialsCostNothing(t *testing.T) {
	w := memWorld(t)
	g := w.guard(both)
	_, err := w.limiter.Acquire(t.Context(), user, "chat", dynalimit.Amounts{"tpm": 100_000})
	require.NoError(t, err)
	_, err = g.Start(t.Context(), request())
	require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
	before := w.db.Meter()
	for range 500 {
		_, err = g.Start(t.Context(), request())
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
	}
	assert.Zero(t, w.db.Meter().Sub(before).Requests())
	r := request()
	r.Entity = "user-2"
	w.settle(w.start(g, r))
	assert.Equal(t, int64(callMicros), w.spent("premium").CostMicros)
}

// TestRacersOnTheLimits: 50 with limits for 20.
func TestRacersOnTheLimits(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.limits(dynalimit.PerMinute("rpm", 30), dynalimit.PerMinute("tpm", 20*6_000))
		started, noQuota, noLimit := race(t, w, 50)
		assert.Len(t, started, 20)
		assert.Equal(t, []int64{0, 30}, []int64{noQuota, noLimit})
		rpm, tpm := w.left()
		assert.Equal(t, []int64{10, 0}, []int64{rpm, tpm})

		for _, c := range started[:10] {
			require.NoError(t, c.Rollback(t.Context()))
		}
		settleAll(t, started[10:])
		rpm, tpm = w.left()
		assert.Equal(t, []int64{20, 20*6_000 - 10*2_300}, []int64{rpm, tpm})
		l := w.spent("premium")
		assert.Equal(t, []int64{10 * callMicros, 10}, []int64{l.CostMicros, l.Requests})
	})
}

// TestBlockedEntity: no wait helps.
func TestBlockedEntity(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		require.NoError(t, admin.New(w.repository()).Limits.SetBlocked(t.Context(), admin.Scope{Entity: user}, true))
		_, err := w.guard(both).Start(t.Context(), request())
		require.ErrorIs(t, err, dynalimit.ErrBlocked)
		var denied *llm.DeniedError
		require.ErrorAs(t, err, &denied)
		assert.Equal(t, dynalimit.Never, denied.RetryAfter)
		_, ok := dynalimit.RetryAfter(err)
		assert.False(t, ok)
		w.requireNoMoney()
	})
}

// TestUnlimitedEntity: money alone counts.
func TestUnlimitedEntity(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		require.NoError(t, admin.New(w.repository()).Limits.SetUnlimited(t.Context(), admin.Scope{Entity: user}))
		c := w.start(w.guard(both), request())
		assert.Empty(t, c.Lease().Used())
		w.settle(c)
		assert.False(t, c.Lease().Degraded())
		assert.Equal(t, int64(callMicros), w.spent("premium").CostMicros)
	})
}

func TestRetryAfterHoldsForEveryError(t *testing.T) {
	limit := func(d time.Duration) error { return &dynalimit.LimitExceededError{RetryAfter: d} }
	plain := errors.New("plain")
	for _, test := range []struct {
		name string
		err  error
		want time.Duration
		ok   bool
	}{
		{"limit", limit(time.Second), time.Second, true},
		{"limit that never fits", limit(dynalimit.Never), 0, false},
		{"denied call", &llm.DeniedError{RetryAfter: 2 * time.Second, Err: limit(time.Second)}, 2 * time.Second, true},
		{"call that never fits", &llm.DeniedError{RetryAfter: dynalimit.Never, Err: limit(dynalimit.Never)}, 0, false},
		{"limiter's store", &dynalimit.UnavailableError{Err: plain, RetryAfter: 3 * time.Second}, 3 * time.Second, true},
		{"limiter's store, unknown", &dynalimit.UnavailableError{Err: plain}, 0, false},
		{"keeper's store", &fault.UnavailableError{Err: plain, RetryAfter: 4 * time.Second}, 4 * time.Second, true},
		{"keeper's store, unknown", &fault.UnavailableError{Err: plain}, 0, false},
		{"unsettled", &llm.UnsettledError{
			Lease: &dynalimit.UnavailableError{Err: plain, RetryAfter: time.Second}, Budget: &fault.UnavailableError{Err: plain, RetryAfter: 2 * time.Second},
		}, 2 * time.Second, true},
		{"quota of nobody's", &prices.QuotaExceededError{RetryAt: time.Now()}, 0, false},
		{"validation", &llm.ValidationError{}, 0, false},
		{"plain", plain, 0, false},
		{"none", nil, 0, false},
	} {
		for how, err := range map[string]error{
			"as is": test.err, "wrapped": fmt.Errorf("call: %w", test.err), "joined": errors.Join(plain, test.err),
			"joined and wrapped": fmt.Errorf("%w (%w)", plain, fmt.Errorf("call: %w", test.err)),
		} {
			if test.err == nil && how != "as is" {
				continue
			}
			wait, ok := dynalimit.RetryAfter(err)
			assert.Equal(t, test.ok, ok, "%s, %s", test.name, how)
			assert.Equal(t, test.want, wait, "%s, %s", test.name, how)
		}
	}
	wait, ok := dynalimit.RetryAfter(errors.Join(limit(time.Second), &fault.UnavailableError{Err: plain, RetryAfter: time.Minute}))
	assert.True(t, ok)
	assert.Equal(t, time.Minute, wait, "both must be over")
}
