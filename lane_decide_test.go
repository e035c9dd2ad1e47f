package dynalimit

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// A refusal after a try that nobody answered says nothing about that try.
func TestRefusalAfterAnUnansweredTryIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, PerDay("rpm", 100))
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 10})
		require.NoError(t, err)
		for name, call := range map[string]func() error{
			"take": func() error {
				_, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 5})
				return err
			},
			"give-back": func() error { return lease.Adjust(t.Context(), Amounts{"rpm": -5}) },
		} {
			var tries atomic.Int32
			db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if q.Operation != "UpdateItem" {
					return ddbmem.Fault{}
				}
				if tries.Add(1) == 1 {
					return ddbmem.Fault{Lose: true}
				}
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "ValidationException"}}
			})
			var unconfirmed *UnconfirmedError
			require.ErrorAs(t, call(), &unconfirmed, name)
			assert.False(t, unconfirmed.NotWritten, name)
			db.SetFaults(nil)
		}
	})
}

// An image that was seen later than now, for the clock went back, is not recent.
func TestMemoryOfTheFutureDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		back := time.Duration(0)
		repo := e.repository(t, &RepositoryOptions{Now: func() time.Time { return time.Now().Add(-back) }})
		require.NoError(t, repo.SetSystemLimits(t.Context(), []Limit{PerDay("rpm", 100)}, nil))
		l, err := New(repo, nil)
		require.NoError(t, err)
		other := inSlot(t, e, repo.Table(), 1)
		lease, err := other.Acquire(t.Context(), "u", "m", Amounts{"rpm": 60})
		require.NoError(t, err)
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 40})
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
		back = 10 * time.Second
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 50})
		require.NoError(t, err)
	})
}

// Memory of a bucket under other limits than those in force says nothing: the
// wait is another.
func TestMemoryUnderOtherLimitsDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		ctx := t.Context()
		require.NoError(t, repo.SetSystemLimits(ctx, []Limit{PerDay("rpm", 100)}, nil))
		_, err := l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 100})
		require.NoError(t, err)
		require.NoError(t, repo.SetSystemLimits(ctx, []Limit{PerHour("rpm", 100)}, nil))
		_, err = l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 100})
		wait, ok := RetryAfter(err)
		require.True(t, ok, "%v", err)
		require.LessOrEqual(t, wait, time.Hour)
	})
}

// A bucket that shows a newer configuration has this process read its own again at
// once: a limit that came with it can be asked for.
func TestNewerBucketRefreshesTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		ctx := t.Context()
		operator := e.open(t, repo.Table(), &RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetSystemLimits(ctx, []Limit{PerHour("rpm", 100)}, nil))
		_, err := l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1})
		require.NoError(t, err)
		elapse(3 * time.Second)
		require.NoError(t, operator.SetSystemLimits(ctx, []Limit{PerHour("rpm", 100), PerHour("tpm", 100)}, nil))
		_, err = inSlot(t, e, repo.Table(), 1).Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1})
		require.NoError(t, err)
		_, err = l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1})
		require.NoError(t, err)
		_, err = l.Acquire(ctx, "org", "gpt-4", Amounts{"tpm": 1})
		require.NoError(t, err)
	})
}
