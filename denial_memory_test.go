package dynalimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// family is a child that cascades to a parent, in virtual time, with limits
// that the test sets.
func family(t *testing.T, client *engine, opts *Options) (*RateLimiter, *Repository) {
	t.Helper()
	repo := client.repository(t, &RepositoryOptions{Now: time.Now})
	ctx := t.Context()
	require.NoError(t, repo.CreateEntity(ctx, Entity{ID: "org"}))
	require.NoError(t, repo.CreateEntity(ctx, Entity{ID: "key", ParentID: "org", Cascade: true}))
	l, err := New(repo, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(context.WithoutCancel(t.Context()))) })
	return l, repo
}

// A denial by one level's memory must not hide that another level denies for
// longer.
func TestDenialFromMemoryKnowsEveryLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		ctx := t.Context()
		require.NoError(t, repo.SetEntityLimits(ctx, "key", "", []Limit{PerMinute("rpm", 10)}))
		require.NoError(t, repo.SetEntityLimits(ctx, "org", "", []Limit{PerHour("rpm", 10)}))
		_, err := l.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 10})
		require.NoError(t, err)

		other, err := New(e.open(t, repo.Table(), &RepositoryOptions{Now: time.Now}), nil)
		require.NoError(t, err)
		_, err = other.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 10}) // reads the parent's configuration
		require.ErrorIs(t, err, ErrLimitExceeded)
		elapse(2 * time.Second)
		_, err = other.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 10}) // and now the child's, with its bucket
		wait, ok := RetryAfter(err)
		require.True(t, ok, "%v", err)
		require.Equal(t, time.Hour-2*time.Second, wait)
		elapse(wait - time.Millisecond)
		_, err = other.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 10})
		require.ErrorIs(t, err, ErrLimitExceeded)
		elapse(time.Millisecond)
		_, err = other.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 10})
		require.NoError(t, err)
	})
}

// What a lease takes further is admitted by the configuration in force, not by
// the one it was granted under.
func TestConsumeUnderTheConfigurationInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		ctx := t.Context()
		require.NoError(t, repo.SetSystemLimits(ctx, []Limit{PerMinute("rpm", 100), PerMinute("tpm", 100)}, nil))
		lease, err := l.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 1, "tpm": 1})
		require.NoError(t, err)
		operator := e.open(t, repo.Table(), &RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetSystemLimits(ctx, []Limit{PerMinute("rpm", 10)}, nil))
		elapse(61 * time.Second) // the cache's TTL
		require.ErrorIs(t, lease.Consume(ctx, Amounts{"rpm": 11}), ErrExceedsBurst)
		var wrong *ValidationError
		require.ErrorAs(t, lease.Consume(ctx, Amounts{"tpm": 1}), &wrong)
		require.NoError(t, lease.Consume(ctx, Amounts{"rpm": 10}))
		require.Equal(t, Amounts{"rpm": 11, "tpm": 1}, lease.Consumed())
		elapse(10 * time.Minute)
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: q.Operation == "BatchGetItem"} })
		require.ErrorIs(t, lease.Consume(ctx, Amounts{"rpm": 1}), ErrUnavailable)
		e.db.SetFaults(nil)
		require.NoError(t, lease.Rollback(ctx))
	})
}

// A denial by one level's memory must still bring another level its newer
// configuration, for what it says of the wait holds only from then on.
func TestDenialFromMemoryBringsNewerConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		ctx := t.Context()
		require.NoError(t, repo.SetEntityLimits(ctx, "key", "", []Limit{PerMinute("rpm", 10)}))
		require.NoError(t, repo.SetEntityLimits(ctx, "org", "", []Limit{PerHour("rpm", 10)}))
		_, err := l.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 10})
		require.NoError(t, err)
		elapse(3 * time.Second)
		require.NoError(t, repo.SetEntityLimits(ctx, "org", "", []Limit{PerHour("rpm", 100)}))
		other, err := New(e.open(t, repo.Table(), &RepositoryOptions{Now: time.Now}), nil)
		require.NoError(t, err)
		_, err = other.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 10})
		wait, ok := RetryAfter(err)
		require.True(t, ok, "%v", err)
		elapse(wait)
		_, err = other.Acquire(ctx, "key", "gpt-4", Amounts{"rpm": 10})
		require.NoError(t, err)
	})
}

// What a batch gives back comes before what it takes, and a full bucket holds no
// more: a take denied beside both must say how long, not that it would fit.
func TestDenialBesideGiveBackAndTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		require.NoError(t, repo.SetSystemLimits(t.Context(), []Limit{PerDay("rpm", 100)}, nil))
		old, err := l.Acquire(t.Context(), "org", "gpt-4", Amounts{"rpm": 90})
		require.NoError(t, err)
		elapse(25 * time.Hour) // full again
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 10 * time.Millisecond} })
		errs := make(map[int64]chan error)
		take := func(n int64) {
			done := make(chan error, 1)
			errs[n] = done
			go func() {
				_, err := l.Acquire(t.Context(), "org", "gpt-4", Amounts{"rpm": n})
				done <- err
			}()
			synctest.Wait()
		}
		take(40)
		elapse(15 * time.Millisecond) // reads the configuration
		for _, n := range []int64{1, 80, 65} {
			take(n) // while the 40 are written
		}
		elapse(10 * time.Millisecond) // the 1 is written, and 80 and 65 do not fit beside
		require.NoError(t, old.Rollback(t.Context()))
		for _, n := range []int64{40, 1, 80} {
			require.NoError(t, <-errs[n])
		}
		var denied *LimitExceededError
		require.ErrorAs(t, <-errs[65], &denied)
		require.Equal(t, int64(20), denied.Primary().Remaining)
		require.Equal(t, 45*24*time.Hour/100, denied.RetryAfter.Round(time.Minute))
	})
}

// A waiter whose turn is due when its deadline has passed is not told to come
// back after no time at all.
func TestWaiterIsDueAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, PerMinute("rpm", 60))
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 1})
		require.NoError(t, err)
		at := position{waiter: lane.NewWaiter(1), lane: l.lanes.Of("u", "m")}
		defer at.quit()
		at.lane.Join(at.waiter)
		at.lane.Lacks(at.waiter, lease.levels[0].asked, []string{"rpm"}, lease.levels[0].cfg)
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		_, err = l.pause(ctx, lease.request, at, &LimitExceededError{}, 0)
		require.NotErrorIs(t, err, ErrLimitExceeded)
	})
}
