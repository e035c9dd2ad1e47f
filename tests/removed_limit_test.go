package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// A limit that another process has just removed is named as such, not as one
// that holds nothing.
func TestJustRemovedLimitIsNoLimitAnyMore(t *testing.T) {
	for _, mode := range []dynalimit.CascadeMode{dynalimit.CascadeParallel, dynalimit.CascadeTransaction} {
		s := memProcess(t, &dynalimit.Options{Cascade: mode})
		two := []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1000)}
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, two))
		s.family("key", "project")
		s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 1})
		s.clock.advance(10 * time.Second) // refilled
		p := s.peer(nil)
		require.NoError(t, p.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, two[:1]))
		p.acquire("key", dynalimit.Amounts{"rpm": 1}) // claims: tpm is full and goes

		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1, "tpm": 1})
		requireInvalid(t, err, "amounts[tpm]")
		require.ErrorContains(t, err, `amounts[tpm]: is not a limit of entity "key"`)
		assert.EqualValues(t, 2*milli, s.stored("key", "rpm").Consumed, "nothing was taken")
		assert.EqualValues(t, 2*milli, s.stored("project", "rpm").Consumed)
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
	}
}

// Nothing of a limit that goes stays in the item, also what another process has added since
// the one that removes it saw the bucket: the limit comes back without it.
func TestRemovedLimitLeavesNothing(t *testing.T) {
	s := memProcess(t, nil)
	two := []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1000)}
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, two))
	s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 1}) // there is no level above yet
	s.family("key", "project")
	s.peer(nil).acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 1})
	s.clock.advance(10 * time.Second) // refilled
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, two[:1]))
	s.acquire("key", dynalimit.Amounts{"rpm": 1}) // claims from what it saw
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, two))
	s.clock.advance(10 * time.Second)
	s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 5})
	assert.EqualValues(t, 5*milli, s.stored("key", "tpm").Consumed)
	assert.EqualValues(t, 5*milli, s.stored("key", "tpm").Passed)
}

// A bucket that only a transaction has made is not missing for a give-back.
func TestGiveBackAsksForABucketItHasNotSeen(t *testing.T) {
	s := memProcess(t, perMinute())
	s.family("key", "project")
	lease := s.acquire("key", dynalimit.Amounts{"tpm": 500}, dynalimit.WithCascade(dynalimit.CascadeTransaction))
	for _, entity := range []string{"key", "project"} { // as left by what a lane had under way meanwhile
		s.limiter.lanes.Of(entity, model).Observe(nil, s.limiter.lanes.Ask())
	}
	require.NoError(t, lease.Rollback(t.Context()))
	assert.Equal(t, int64(10_000), s.level("key", "tpm"))
	assert.Equal(t, int64(10_000), s.level("project", "tpm"))
}

// A charge of a limit that is gone from bucket and configuration is dropped, so
// that the lease does not hold it: given back once the limit is there again, it
// would be tokens that nobody paid.
func TestDroppedChargeIsNotGivenBack(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		ctx := t.Context()
		both, one := []dynalimit.Limit{dynalimit.PerHour("rpm", 100), dynalimit.PerHour("tpm", 100)}, []dynalimit.Limit{dynalimit.PerHour("rpm", 100)}
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, both))
		lease := s.acquire("org", dynalimit.Amounts{"rpm": 1})
		elapse(2 * time.Second)
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, one))
		elapse(2 * time.Second)
		s.acquire("org", dynalimit.Amounts{"rpm": 1})                       // removes tpm, which is full
		require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 50})) // charges nothing
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, both))
		elapse(2 * time.Second)
		s.acquire("org", dynalimit.Amounts{"tpm": 80})
		require.NoError(t, lease.Rollback(ctx))
		require.Equal(t, int64(80_000), s.stored("org", "tpm").Consumed)
	})
}

// A limit that comes, or comes back, while a lease is out is charged what the lease uses of
// it from then on.
func TestLeaseUsesALimitThatComesBack(t *testing.T) {
	for name, before := range map[string]dynalimit.Amounts{"came back": {"rpm": 1, "tpm": 100}, "came": {"rpm": 1}} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, nil)
			ctx := t.Context()
			both := []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1000)}
			set := func(limits []dynalimit.Limit) {
				require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, limits))
				s.clock.advance(2 * time.Minute)
			}
			set(both[:len(before)])
			s.family("key", "project")
			lease := s.acquire("key", before)
			set(both[:1])
			require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"rpm": 1}))
			require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"rpm": 1}))
			set(both)
			s.acquire("key", dynalimit.Amounts{"tpm": 1})
			require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"rpm": 3, "tpm": 500}))
			want := 501 - before["tpm"]
			assert.EqualValues(t, want*milli, s.stored("key", "tpm").Consumed)
			assert.EqualValues(t, want*milli, s.stored("project", "tpm").Consumed)
			assert.EqualValues(t, want, s.countedOnce("tpm", "key", "project"))
		})
	}
}

// A limit that is not configured any more stays in the bucket until it owes nothing.
func TestLimitThatOwesIsNotRemoved(t *testing.T) {
	pair(t, []dynalimit.Limit{dynalimit.PerHour("rpm", 100), dynalimit.PerHour("tpm", 100)}, func(t *testing.T, a, b *process) {
		a.acquire("key", dynalimit.Amounts{"rpm": 1}) // sees tpm full
		b.acquire("key", dynalimit.Amounts{"tpm": 90})
		operator := a.open(t, a.repo.Table(), &dynalimit.RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerHour("rpm", 50)}))
		elapse(2 * time.Minute)
		a.acquire("key", dynalimit.Amounts{"rpm": 1})
		assert.GreaterOrEqual(t, a.image("key").Set.Index("tpm"), 0)
	})
}
