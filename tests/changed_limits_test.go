package tests

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// A limit that is added reaches existing buckets, full.
func TestAddedLimitReachesActiveBuckets(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		ctx := t.Context()
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		p := s.peer(nil)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 10})
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1000)}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 300})
		assert.Equal(t, int64(700), s.level("user-1", "tpm"))
		assert.Equal(t, int64(88), s.level("user-1", "rpm"))
		s.clock.advance(time.Minute) // the other process's cache
		p.acquire("user-1", dynalimit.Amounts{"tpm": 300})
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	})
}

// A changed default is in force in every process within one cache TTL.
func TestChangedLimitReachesActiveBuckets(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		ctx := t.Context()
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		p := s.peer(nil)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}))
		exceeded := s.deny("user-1", dynalimit.Amounts{"rpm": 6})
		assert.Equal(t, int64(5), exceeded.Primary().Limit.Capacity, "errors report the limit in force")
		assert.ErrorIs(t, exceeded, dynalimit.ErrExceedsBurst)
		assert.Equal(t, 5, s.allowed(20, "user-1", "rpm"), "a cut clamps what is left")
		assert.Zero(t, p.allowed(20, "user-1", "rpm"), "also for who has not heard of it")
		s.clock.advance(time.Minute)
		assert.Equal(t, 5, p.allowed(20, "user-1", "rpm"))
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 600)}))
		assert.Zero(t, s.allowed(3, "user-1", "rpm"), "raising does not fill")
		s.clock.advance(time.Second)
		assert.Equal(t, 10, s.allowed(20, "user-1", "rpm"), "and refills at the new rate from then on")
	})
}

// An older cache does not flip a bucket back to an older configuration.
func TestOlderCacheDoesNotRestoreOldLimits(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		ctx := t.Context()
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		p := s.peer(nil)
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.clock.advance(10 * time.Second)
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 50)}))
		for range 5 {
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			assert.Equal(t, int64(50_000), s.stored("user-1", "rpm").Burst)
			s.clock.advance(3 * time.Second)
		}
	})
}

// A bucket that shows a newer configuration has this process read its own again at
// once: a limit that came with it can be asked for.
func TestNewerBucketRefreshesTheConfiguration(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		ctx := t.Context()
		operator := s.open(t, s.repo.Table(), &dynalimit.RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerHour("rpm", 100)}))
		s.acquire("org", dynalimit.Amounts{"rpm": 1})
		elapse(3 * time.Second)
		require.NoError(t, operator.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerHour("rpm", 100), dynalimit.PerHour("tpm", 100)}))
		s.peer(nil).inSlot(1).acquire("org", dynalimit.Amounts{"rpm": 1})
		s.acquire("org", dynalimit.Amounts{"rpm": 1})
		s.acquire("org", dynalimit.Amounts{"tpm": 1})
	})
}

// What a lease takes further is admitted by the configuration in force, not by
// the one it was granted under.
func TestConsumeUnderTheConfigurationInForce(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		ctx := t.Context()
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 100)}))
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 1})
		operator := s.open(t, s.repo.Table(), &dynalimit.RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
		elapse(61 * time.Second) // the cache's TTL
		require.ErrorIs(t, lease.Consume(ctx, dynalimit.Amounts{"rpm": 11}), dynalimit.ErrExceedsBurst)
		var wrong *dynalimit.ValidationError
		require.ErrorAs(t, lease.Consume(ctx, dynalimit.Amounts{"tpm": 1}), &wrong)
		require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"rpm": 10}))
		require.Equal(t, dynalimit.Amounts{"rpm": 11, "tpm": 1}, lease.Consumed())
		elapse(2 * time.Hour) // past MaxStale, whether or not the table is taken to be away
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: q.Operation == "BatchGetItem"} })
		require.ErrorIs(t, lease.Consume(ctx, dynalimit.Amounts{"rpm": 1}), dynalimit.ErrUnavailable)
		s.db.SetFaults(nil)
		require.NoError(t, lease.Rollback(ctx))
	})
}

// The configuration of a bucket may vanish while a take is decided.
func TestLimitsDeletedWhileDeciding(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		ctx := t.Context()
		operator := s.open(t, s.repo.Table(), &dynalimit.RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		lease := s.acquire("org", dynalimit.Amounts{"rpm": 1})
		elapse(100 * time.Millisecond)
		require.NoError(t, operator.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 50)}))
		elapse(100 * time.Millisecond)
		other := s.peer(nil)
		other.acquire("org", dynalimit.Amounts{"rpm": 1}) // brings the newer limit
		require.NoError(t, operator.DeleteLimits(ctx, admin.Scope{Everyone: true}))
		var wrong *dynalimit.ValidationError
		_, err := s.limiter.Acquire(ctx, "org", "gpt-4", dynalimit.Amounts{"rpm": 1}) // too close to tell: reads again
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "limits", wrong.Field)
		require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"rpm": 5}))
		require.Equal(t, int64(7_000), s.stored("org", "rpm").Consumed)
	})
}

// Keys that DynamoDB left out of a batch are asked for again, never taken for
// absent: not the limits, not the parent, not the bucket.
func TestUnprocessedKeysAreNotAbsent(t *testing.T) {
	for left := range 6 {
		virtual(t, nil, func(t *testing.T, s *process) {
			ctx := t.Context()
			require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)}))
			require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "key", Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 3)}))
			s.family("key", "project")
			s.acquire("key", dynalimit.Amounts{"rpm": 2})
			p := s.peer(nil)
			s.db.SetFaults(firstOf("BatchGetItem", 1, ddbmem.Fault{Unprocessed: left + 1}))
			exceeded := p.deny("key", dynalimit.Amounts{"rpm": 2})
			s.db.SetFaults(nil)
			assert.Equal(t, int64(3), exceeded.Primary().Limit.Capacity)
			assert.Equal(t, int64(1), exceeded.Primary().Remaining)
			p.acquire("key", dynalimit.Amounts{"rpm": 1})
			assert.Equal(t, int64(3000), s.stored("project", "rpm").Consumed, "the parent was not dropped")

			q := s.peer(nil)
			s.db.SetFaults(firstOf("BatchGetItem", -1, ddbmem.Fault{Unprocessed: left + 1}))
			before := s.item("key")
			_, err := q.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"rpm": 1})
			s.db.SetFaults(nil)
			require.ErrorIs(t, err, dynalimit.ErrUnavailable)
			require.False(t, errors.Is(err, dynalimit.ErrLimitExceeded))
			assert.Equal(t, before, s.item("key"))
			elapse(time.Minute) // the read that others might wait for ends
		})
	}
}

// A bucket without a limit that is configured, whoever took it out, is given it
// by the next call that names it: no memory of the bucket denies it.
func TestBucketWithoutAConfiguredLimit(t *testing.T) {
	for _, ghost := range []bool{false, true} {
		testEngines(t, func(t *testing.T, e *engine) {
			s := newProcess(t, e, perMinute())
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			item := s.item("user-1")
			left := ghostOf("tpm", -300_000)
			for attribute := range left {
				delete(item, attribute)
				if v := left[attribute]; ghost && v != nil {
					item[attribute] = v
				}
			}
			put(t, s.repo, item)
			_, err := s.limiter.Check(t.Context(), "user-1", model, nil) // seen just now
			require.NoError(t, err)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 1000})
			want := int64(9000)
			if ghost {
				want -= 300
			}
			assert.Equal(t, want, s.level("user-1", "tpm"))
			s.deny("user-1", dynalimit.Amounts{"tpm": 9001})
		})
	}
}
