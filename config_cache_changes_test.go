package dynalimit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
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
		require.Equal(t, dynalimit.Amounts{"rpm": 11, "tpm": 1}, lease.Used())
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

// A limit that another process has just removed is named as such, not as one
// that holds nothing.
func TestJustRemovedLimitIsNoLimitAnyMore(t *testing.T) {
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		s := memProcess(t, &dynalimit.Options{ChargeMode: mode})
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
	lease := s.acquire("key", dynalimit.Amounts{"tpm": 500}, dynalimit.WithChargeMode(dynalimit.ChargeTransaction))
	for _, entity := range []string{"key", "project"} { // as left by what a lane had under way meanwhile
		s.limiter.lanes.Of(entity, model).Memory.Observe(nil, s.limiter.lanes.Ask())
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

// Naming a limit that a source has, but not the one that won, says which source won, which
// one has it, and what to do.
func TestHiddenLimitIsTold(t *testing.T) {
	s := memProcess(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("usd", 5)}})
	s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
	s.says(ofSystem, limited(dynalimit.Amounts{"rps": 1, "images": 1}))
	s.says(ofResource, limited(dynalimit.Amounts{"rps": 1, "tpm": 1}))
	for _, test := range []struct {
		won                 sources.Source
		limit, hidden, lift string
	}{
		{sources.PlanDefault, "tpm", "source resource", "Limits.Set for the plan"},
		{sources.PlanDefault, "images", "source system", "Limits.Set for the plan"},
		{sources.PlanDefault, "usd", "source options", "Limits.Set for the plan"},
		{sources.Plan, "rps", "source resource", "Limits.Set for the plan"},
		{sources.Entity, "rps", "source resource", "Limits.Set for the entity"},
	} {
		s.says(ofSource[test.won], limited(dynalimit.Amounts{"rpm": 10}))
		p := s.peer(&dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("usd", 5)}})
		lease := p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		_, err := p.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1, test.limit: 1}, dynalimit.WithLimits(dynalimit.PerDay("tpd", 5)))
		for _, err := range []error{err, lease.Adjust(t.Context(), dynalimit.Amounts{test.limit: 1}), lease.Consume(t.Context(), dynalimit.Amounts{test.limit: 1})} {
			requireInvalid(t, err, "amounts["+test.limit+"]")
			assert.ErrorContains(t, err, "(source "+string(test.won)+") won")
			assert.ErrorContains(t, err, "("+test.hidden+"), which has it")
			assert.ErrorContains(t, err, "admin."+test.lift)
		}
		p.skipsNoHidden("user-1", test.limit)
		_, err = p.limiter.Check(t.Context(), "user-1", model, dynalimit.Amounts{test.limit: 1})
		requireInvalid(t, err, "amounts["+test.limit+"]")
	}
}

// A limit that a parent has is not hidden: it is charged there.
func TestLimitHiddenAtTheChildAndInForceAtTheParent(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "org")
		s.says(schema.ConfigOwner{Entity: "key"}, limited(dynalimit.Amounts{"rps": 10}))
		assert.Equal(t, []string{"org tpm"}, holders(s.acquire("key", dynalimit.Amounts{"tpm": 1}).Statuses()))
	})
}

// skipsNoHidden checks that WithIgnoreUnknown skips a limit nowhere that a source has which
// is not in force, beside rpm, which is: otherwise any list of an entity's own would lift
// the limits that everybody has.
func (s *process) skipsNoHidden(entity, hidden string) {
	s.t.Helper()
	ctx, both := s.t.Context(), dynalimit.Amounts{"rpm": 1, hidden: 1}
	lease := s.acquire(entity, dynalimit.Amounts{"rpm": 1, "images_of_none": 1}, dynalimit.WithIgnoreUnknown())
	_, err := s.limiter.Acquire(ctx, entity, model, both, dynalimit.WithIgnoreUnknown())
	_, waitErr := s.limiter.Wait(ctx, entity, model, both, dynalimit.WithIgnoreUnknown())
	_, checkErr := s.limiter.Check(ctx, entity, model, both, dynalimit.WithIgnoreUnknown())
	for _, err := range []error{err, waitErr, checkErr, lease.Consume(ctx, both), lease.Adjust(ctx, both), lease.Settle(ctx, both)} {
		requireInvalid(s.t, err, "amounts["+hidden+"]")
	}
	require.NoError(s.t, lease.Settle(ctx, dynalimit.Amounts{"rpm": 1, "images_of_none": 5}))
}

// A call that nothing would limit is refused, whatever it ignores.
func TestWithIgnoreUnknownNeedsOneLimit(t *testing.T) {
	s := memProcess(t, perMinute())
	_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"images": 1, "audio": 1}, dynalimit.WithIgnoreUnknown())
	requireInvalid(t, err, "amounts[audio]")
	_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"images": 1, "rpm": 0}, dynalimit.WithIgnoreUnknown())
	require.NoError(t, err, "it names one, though it takes nothing of it")
	_, err = memProcess(t, nil).limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithIgnoreUnknown())
	requireInvalid(t, err, "limits")
}

// TestLimitThatOnlyAParentHides: WithIgnoreUnknown skips a limit that a source of the parent alone hides,
// when it is acquired and when the lease is corrected.
func TestLimitThatOnlyAParentHides(t *testing.T) {
	s := memProcess(t, nil)
	s.says(schema.ConfigOwner{Entity: "key"}, limited(dynalimit.Amounts{"rpm": 10}))
	s.says(schema.ConfigOwner{Entity: "team"}, limited(dynalimit.Amounts{"images": 10}))
	s.says(schema.ConfigOwner{Entity: "team", Resource: model}, limited(dynalimit.Amounts{"rpm": 10}))
	s.family("key", "team")
	lease := s.acquire("key", dynalimit.Amounts{"rpm": 1, "images": 1}, dynalimit.WithIgnoreUnknown())
	assert.Equal(t, dynalimit.Amounts{"rpm": 1}, lease.Used())
	require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 2, "images": 3}))
	assert.Equal(t, dynalimit.Amounts{"rpm": 2}, lease.Used())
}
