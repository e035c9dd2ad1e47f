package dynalimit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// inSlot makes a limiter on a table whose writes go to one op slot.
func inSlot(t *testing.T, e *engine, table string, slot int) *RateLimiter {
	t.Helper()
	l, err := New(e.open(t, table, &RepositoryOptions{Now: time.Now}), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(context.WithoutCancel(t.Context()))) })
	l.lanes.IDs.Slot = slot
	return l
}

// A give-back beside a charge is resent after a lost answer; the resend is
// refused by a bound, not by the slot; then the first try lands after all. What
// is decided anew must not give back a second time.
func TestGiveBackDecidedAgainLandsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		repo := e.repository(t, &RepositoryOptions{Now: time.Now})
		ctx := t.Context()
		require.NoError(t, repo.SetSystemLimits(ctx, []Limit{PerHour("rpm", 1000), PerHour("tpm", 1000)}, nil))
		a, b := inSlot(t, e, repo.Table(), 0), inSlot(t, e, repo.Table(), 1)
		lease, err := a.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 100, "tpm": 100})
		require.NoError(t, err)
		other, err := b.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 500, "tpm": 10})
		require.NoError(t, err)
		elapse(30 * time.Minute)                                 // refills half
		require.NoError(t, lease.Adjust(ctx, Amounts{"rpm": 1})) // its image is the newest, its slot its own

		type spared struct{}
		unhindered := context.WithValue(ctx, spared{}, true)
		late := make(chan struct{})
		var tries atomic.Int64
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			switch {
			case q.Operation != "UpdateItem" || q.Context.Value(spared{}) != nil:
				return ddbmem.Fault{}
			case tries.Add(1) == 1:
				return ddbmem.Fault{Late: late}
			}
			return ddbmem.Fault{Before: time.Second}
		})
		done := make(chan error)
		go func() { done <- lease.Adjust(ctx, Amounts{"rpm": 50, "tpm": -100}) }()
		elapse(500 * time.Millisecond) // the resend is on its way
		require.NoError(t, other.Settle(unhindered, Amounts{"rpm": 0}))
		elapse(time.Second) // refused by the upper bound
		_, err = b.Acquire(unhindered, "key", "gpt-4", Amounts{"rpm": 600})
		require.NoError(t, err)
		close(late)
		e.db.Wait()
		if err = <-done; err != nil {
			require.True(t, errors.Is(err, ErrUnconfirmed), "%v", err)
		}
		image, err := repo.readBucket(ctx, a.lanes.Of("key", "gpt-4").Key, nil, 0)
		require.NoError(t, err)
		require.Equal(t, int64(10_000), image.Limits[image.Set.Index("tpm")].Consumed, "given back once")
	})
}

// The configuration of a bucket may vanish while a take is decided.
func TestLimitsDeletedWhileDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		ctx := t.Context()
		operator := e.open(t, repo.Table(), &RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetSystemLimits(ctx, []Limit{PerMinute("rpm", 100)}, nil))
		lease, err := l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1})
		require.NoError(t, err)
		elapse(100 * time.Millisecond)
		require.NoError(t, operator.SetSystemLimits(ctx, []Limit{PerMinute("rpm", 50)}, nil))
		elapse(100 * time.Millisecond)
		other, err := New(e.open(t, repo.Table(), &RepositoryOptions{Now: time.Now}), nil)
		require.NoError(t, err)
		_, err = other.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1}) // brings the newer limit
		require.NoError(t, err)
		require.NoError(t, operator.DeleteSystemLimits(ctx))
		var wrong *ValidationError
		_, err = l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1}) // too close to tell: reads again
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "limits", wrong.Field)
		require.NoError(t, lease.Adjust(ctx, Amounts{"rpm": 5}))
		image, err := repo.readBucket(ctx, l.lanes.Of("org", "gpt-4").Key, nil, 0)
		require.NoError(t, err)
		require.Equal(t, int64(7_000), image.Limits[0].Consumed)
	})
}
