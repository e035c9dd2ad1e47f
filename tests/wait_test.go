package tests

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestWaitSleepsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		began, meter := time.Now(), db.Meter()
		lease, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 5})
		require.NoError(t, err)
		require.Equal(t, dynalimit.Amounts{"rpm": 5}, lease.Consumed())
		require.Equal(t, 5*time.Second, time.Since(began))
		require.EqualValues(t, 1, db.Meter().Sub(meter).Requests(), "the known level needs no polling")
	})
}

func TestWaitIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		began := time.Now()
		var mu sync.Mutex
		var served []string
		var wg sync.WaitGroup
		for i, n := range []int64{50, 1, 3, 1} {
			wg.Go(func() {
				_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": n})
				mu.Lock()
				defer mu.Unlock()
				served = append(served, fmt.Sprintf("%d:%d@%v", i, n, time.Since(began)))
				require.NoError(t, err)
			})
			synctest.Wait()
		}
		// Acquires keep asking for what the first waits for, and do not get it.
		for time.Since(began) < 49*time.Second {
			<-time.After(time.Second)
			_, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 1})
			require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []string{"0:50@50s", "1:1@51s", "2:3@54s", "3:1@55s"}, served)
	})
}

func TestWaitFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4999*time.Millisecond)
		defer cancel()
		_, err := l.Wait(ctx, "u", "m", dynalimit.Amounts{"rpm": 5})
		var exceeded *dynalimit.LimitExceededError
		require.ErrorAs(t, err, &exceeded)
		require.Equal(t, 5*time.Second, exceeded.RetryAfter)
		_, err = l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 61})
		require.ErrorIs(t, err, dynalimit.ErrExceedsBurst)
		require.Zero(t, time.Since(began))

		// Behind another, the wait is longer: its needs come first.
		go func() { _, _ = l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 30}) }()
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		meter := db.Meter()
		_, err = l.Wait(ctx, "u", "m", dynalimit.Amounts{"rpm": 5})
		require.ErrorAs(t, err, &exceeded)
		require.Equal(t, 35*time.Second, exceeded.RetryAfter)
		require.Zero(t, time.Since(began))
		require.Zero(t, db.Meter().Sub(meter).Requests())
		<-time.After(time.Minute)
	})
}

func TestWaitCancelledKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := l.Wait(ctx, "u", "m", dynalimit.Amounts{"rpm": 60})
			failed <- err
		}()
		synctest.Wait()
		granted := make(chan time.Time, 1)
		began := time.Now()
		go func() {
			_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 10})
			require.NoError(t, err)
			granted <- time.Now()
		}()
		<-time.After(2 * time.Second)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		require.Equal(t, 10*time.Second, (<-granted).Sub(began), "the next moves up")
	})
}

func TestWaitersShareWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerSecond("rps", 1000))
		drain(t, l, dynalimit.Amounts{"rps": 1000})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 5 * time.Millisecond} })
		meter, began := db.Meter(), time.Now()
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rps": 1})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Less(t, time.Since(began), 560*time.Millisecond, "500 tokens take 500 ms")
		require.Less(t, db.Meter().Sub(meter).Requests(), int64(200))
	})
}

func TestWaitEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		failed := make(chan error, 1)
		go func() {
			_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 60})
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Close(t.Context()))
		require.True(t, errors.Is(<-failed, dynalimit.ErrClosed))
	})
}

// Waiters who bring limits that differ claim the bucket for theirs in turn. Each
// tries when its turn is due, not whenever another has claimed.
func TestWaitersThatDisagreeDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60, "tpm": 60})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 5 * time.Millisecond} })
		began, meter := time.Now(), db.Meter()
		var group sync.WaitGroup
		for name, opts := range map[string][]dynalimit.AcquireOption{"rpm": nil, "tpm": {dynalimit.WithLimits(dynalimit.PerMinute("tpm", 61))}} {
			group.Go(func() { // both are at the head: they need nothing of each other's
				_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{name: 10}, opts...)
				require.NoError(t, err)
			})
		}
		group.Wait()
		require.Less(t, time.Since(began), time.Minute)
		require.Less(t, db.Meter().Sub(meter).Requests(), int64(60))
	})
}

// A Wait that fails returns no lease.
func TestFailedWaitReturnsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		lease, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 61})
		require.ErrorIs(t, err, dynalimit.ErrExceedsBurst)
		require.Nil(t, lease)
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		})
		<-time.After(time.Hour)
		lease, err = l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 60})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.Nil(t, lease)
	})
}
