package dynalimit

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// Ways in which limiters on DynamoDB have gone wrong, each with a test. This
// file and pitfalls2_test.go hold those that no other test is about; the rest:
//
//	a lost answer counted twice               TestLostAnswerOfATakeCountsOnce, TestLostAnswerOfAGiveBackCountsOnce
//	a lost transaction counted twice          TestLostTransactionCountsOnce
//	a conflict taken for a denial             TestTransactionConflictIsNoDenial, TestConflictOfAPlainWriteIsRetried
//	a child not given back                    TestUnavailableParentTakesNothingFromTheChild, TestDenialWinsOverUnavailability
//	a give-back that failed in silence        TestDenialNamesWhatItCouldNotGiveBack
//	a failed exit write refunding done work   TestChargeThatDidNotLandIsWrittenAgain
//	a parent cached before it exists          TestCascadeSeesANewParentWithinTheConfigTTL
//	typos and negative amounts admitted       TestUnknownLimitIsRefusedUnwritten, TestBadCallsAskNothingOfTheStore
//	an override that decides nothing          TestOverrideDecidesOnANewBucketToo
//	names that break expressions              TestEveryLegalLimitNameWorks
//	debt that blocks other limits             TestOnlyLimitsNamedAreChecked
//	a finite wait that cures nothing          TestAmountAboveTheBurstNeverFits
//	a wait of 0 beside a denial               TestRetryAfterIsExact
//	every error taken for unavailability      TestBugsAndBadRequestsNeverFailOpen
//	a degraded lease that cannot be told      TestDegradedLeaseIsChargedOnceTheStoreIsBack
//	setters that leave the cache              TestSettersReachThisProcessAtOnce
//	configuration read by every acquire       TestWarmAcquireIsOneRequest
//	an index that doubles every write         TestNoIndexIsChargedForAnAcquire
//	items beyond a kilobyte                   TestWarmAcquireIsOneRequest
//	children and registries left behind       TestDeleteEntityRemovesAllItOwns, TestRegistries
//
// Shards, their capacity token, the stream aggregator's usage records and its
// refill, audit records, namespace registries and infrastructure stacks have
// their own pitfalls; there is nothing of the kind here.

// allowed counts how many of n calls for one token are admitted now.
func (s *process) allowed(n int, entity, limit string) (admitted int) {
	s.t.Helper()
	for range n {
		if _, err := s.limiter.Acquire(s.t.Context(), entity, model, Amounts{limit: 1}); err == nil {
			admitted++
		} else {
			_ = s.denied(err)
		}
	}
	return admitted
}

// Idle time must not be spent from a stale image and then credited again.
func TestIdleThenBurstAdmitsTheBurst(t *testing.T) {
	for _, idle := range []time.Duration{30 * time.Second, 10 * time.Minute, 3 * time.Hour} {
		testEngines(t, func(t *testing.T, e *engine) {
			s := newProcess(t, e, perMinute())
			processes := []*process{s, s.peer(perMinute()), s.peer(perMinute())}
			for _, p := range processes {
				p.acquire("user-1", Amounts{"rpm": 1})
			}
			s.clock.advance(idle)
			admitted := 0
			for range 60 {
				for _, p := range processes {
					admitted += p.allowed(1, "user-1", "rpm")
				}
			}
			assert.Equal(t, 100, admitted)
		})
	}
}

func TestDrainedIdleThenBurstAdmitsTheRefill(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		s.acquire("user-1", Amounts{"rpm": 99})
		p.acquire("user-1", Amounts{"rpm": 1})
		s.clock.advance(30 * time.Second)
		assert.Equal(t, 50, s.allowed(40, "user-1", "rpm")+p.allowed(40, "user-1", "rpm"))
	})
}

// A slow limit beside a fast one gets every millitoken of its refill.
func TestSlowLimitIsNotStarvedByAFastOne(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &Options{Limits: []Limit{PerMinute("rpm", 60).WithBurst(1), PerDay("rpd", 10)}})
		s.acquire("user-1", Amounts{"rpd": 10})
		for range 500 {
			s.clock.advance(20 * time.Second)
			s.acquire("user-1", Amounts{"rpm": 1})
		}
		now := s.clock.now().UnixMilli()
		image := s.image("user-1")
		grid := func(ms int64) int64 { return ms * 10_000 / 86_400_000 }
		want := grid(now) - grid(noon().UnixMilli())
		assert.Equal(t, int64(1157), want)
		assert.Equal(t, want, image.State(image.Set.Index("rpd")).Level(now), "of 10,000 s")
	})
}

// Clients whose clocks differ, taking turns, do not multiply the rate.
func TestSkewedClocksDoNotMultiplyTheRate(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		ahead := newHandClock()
		ahead.advance(2 * time.Second)
		opts := &Options{Limits: []Limit{PerMinute("rpm", 60)}}
		s := newProcess(t, e, opts)
		p := s.peer(opts, ahead)
		s.acquire("user-1", Amounts{"rpm": 60})
		admitted, refilled := 0, int64(0)
		for range 300 {
			for _, process := range []*process{s, p} {
				process.clock.advance(200 * time.Millisecond)
				admitted += process.allowed(1, "user-1", "rpm")
				rf := s.image("user-1").Refilled
				require.GreaterOrEqual(t, rf, refilled, "the refill instant never goes back")
				refilled = rf
			}
		}
		assert.LessOrEqual(t, admitted, 60+2, "a clock ahead adds its own refill, once")
		assert.GreaterOrEqual(t, admitted, 60)
	})
}

// A clock that jumps back grants nothing, and takes nothing.
func TestClockSetBack(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("user-1", Amounts{"rpm": 90})
		s.clock.advance(-time.Hour)
		assert.Equal(t, 10, s.allowed(20, "user-1", "rpm"))
		s.clock.advance(time.Hour + 6*time.Second)
		assert.Equal(t, 10, s.allowed(20, "user-1", "rpm"))
	})
}

// One now per decision: no refill falls between two clock reads.
func TestLatencyLosesNoRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		opts := &Options{Limits: []Limit{PerMinute("rpm", 60)}}
		s := (&process{engine: e, t: t}).on(e.repository(t, &RepositoryOptions{Now: time.Now}), opts)
		s.acquire("user-1", Amounts{"rpm": 60})
		s.down(ddbmem.Fault{Before: 10 * time.Millisecond, After: 10 * time.Millisecond})
		defer s.db.SetFaults(nil)
		admitted := 0
		for began := time.Now(); time.Since(began) < 60*time.Second; {
			elapse(30 * time.Millisecond)
			admitted += s.allowed(1, "user-1", "rpm")
		}
		assert.GreaterOrEqual(t, admitted, 59)
		assert.LessOrEqual(t, admitted, 60)
	})
}

// A limit that is added reaches existing buckets, full.
func TestAddedLimitReachesActiveBuckets(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		ctx := t.Context()
		require.NoError(t, s.repo.SetResourceLimits(ctx, model, []Limit{PerMinute("rpm", 100)}))
		p := s.peer(nil)
		s.acquire("user-1", Amounts{"rpm": 10})
		p.acquire("user-1", Amounts{"rpm": 1})
		require.NoError(t, s.repo.SetResourceLimits(ctx, model, []Limit{PerMinute("rpm", 100), PerMinute("tpm", 1000)}))
		s.acquire("user-1", Amounts{"rpm": 1, "tpm": 300})
		assert.Equal(t, int64(700), s.level("user-1", "tpm"))
		assert.Equal(t, int64(88), s.level("user-1", "rpm"))
		s.clock.advance(time.Minute) // the other process's cache
		p.acquire("user-1", Amounts{"tpm": 300})
		s.acquire("user-1", Amounts{"rpm": 1})
	})
}

// A changed default is in force in every process within one cache TTL.
func TestChangedLimitReachesActiveBuckets(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		ctx := t.Context()
		require.NoError(t, s.repo.SetResourceLimits(ctx, model, []Limit{PerMinute("rpm", 100)}))
		p := s.peer(nil)
		s.acquire("user-1", Amounts{"rpm": 1})
		p.acquire("user-1", Amounts{"rpm": 1})
		require.NoError(t, s.repo.SetResourceLimits(ctx, model, []Limit{PerMinute("rpm", 5)}))
		exceeded := s.deny("user-1", Amounts{"rpm": 6})
		assert.Equal(t, int64(5), exceeded.Primary().Limit.Capacity, "errors report the limit in force")
		assert.ErrorIs(t, exceeded, ErrExceedsBurst)
		assert.Equal(t, 5, s.allowed(20, "user-1", "rpm"), "a cut clamps what is left")
		assert.Zero(t, p.allowed(20, "user-1", "rpm"), "also for who has not heard of it")
		s.clock.advance(time.Minute)
		assert.Equal(t, 5, p.allowed(20, "user-1", "rpm"))
		require.NoError(t, s.repo.SetResourceLimits(ctx, model, []Limit{PerMinute("rpm", 600)}))
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
		require.NoError(t, s.repo.SetResourceLimits(ctx, model, []Limit{PerMinute("rpm", 100)}))
		p := s.peer(nil)
		p.acquire("user-1", Amounts{"rpm": 1})
		s.clock.advance(10 * time.Second)
		require.NoError(t, s.repo.SetResourceLimits(ctx, model, []Limit{PerMinute("rpm", 50)}))
		for range 5 {
			s.acquire("user-1", Amounts{"rpm": 1})
			p.acquire("user-1", Amounts{"rpm": 1})
			assert.Equal(t, int64(50_000), s.stored("user-1", "rpm").Burst)
			s.clock.advance(3 * time.Second)
		}
	})
}

// Nothing but an acquire, or a charge, makes a bucket; what it makes is whole.
func TestNoGhostsAfterADeletion(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		up, down, back := s.acquire("key", Amounts{"tpm": 100}), s.acquire("key", Amounts{"tpm": 100}), s.acquire("key", Amounts{"tpm": 100})
		for _, id := range []string{"key", "project"} {
			s.delete(id)
		}
		require.NoError(t, down.Adjust(t.Context(), Amounts{"tpm": -50}))
		require.NoError(t, back.Rollback(t.Context()))
		assert.Nil(t, s.item("key"))
		assert.Nil(t, s.item("project"))
		require.NoError(t, up.Adjust(t.Context(), Amounts{"tpm": 900}))
		for _, id := range []string{"key", "project"} {
			assert.Equal(t, int64(9100), s.level(id, "tpm"))
			assert.Equal(t, int64(100), s.level(id, "rpm"), "every limit is there")
			assert.True(t, s.image(id).HasRefilled)
		}
		s.acquire("key", Amounts{"rpm": 100, "tpm": 9100})
		s.deny("key", Amounts{"tpm": 1})
	})
}

// A bucket that vanishes while a cascade gives back is not resurrected.
func TestNoGhostFromACompensation(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.family("key", "project")
		key := writesOf("key")
		f := &fault{match: key}
		p := s.faulty(perMinute(), f)
		p.acquire("key", Amounts{"rpm": 1})
		s.acquire("project", Amounts{"tpm": 9900})
		f.after = func() { s.delete("key") }
		f.times(1)
		p.deny("key", Amounts{"tpm": 500})
		assert.Equal(t, 1, f.count())
		assert.Nil(t, s.item("key"))
	})
}

func TestDoneWorkIsNotRefundedWhenAnAdjustFails(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		err := s.limiter.Do(t.Context(), "user-1", model, Amounts{"tpm": 500}, func(ctx context.Context, lease *Lease) error {
			s.down(throttled1)
			err := lease.Adjust(ctx, Amounts{"tpm": 200})
			s.db.SetFaults(nil)
			require.ErrorIs(t, err, ErrUnconfirmed)
			return nil // the work was done all the same
		})
		require.NoError(t, err)
		assert.Equal(t, int64(9500), s.level("user-1", "tpm"))
	})
}

// Keys that DynamoDB left out of a batch are asked for again, never taken for
// absent: not the limits, not the parent, not the bucket.
func TestUnprocessedKeysAreNotAbsent(t *testing.T) {
	for left := range 6 {
		virtual(t, nil, func(t *testing.T, s *process) {
			ctx := t.Context()
			require.NoError(t, s.repo.SetSystemLimits(ctx, []Limit{PerMinute("rpm", 1000)}, nil))
			require.NoError(t, s.repo.SetEntityLimits(ctx, "key", model, []Limit{PerMinute("rpm", 3)}))
			s.family("key", "project")
			s.acquire("key", Amounts{"rpm": 2})
			p := s.peer(nil)
			s.db.SetFaults(firstOf("BatchGetItem", 1, ddbmem.Fault{Unprocessed: left + 1}))
			exceeded := p.deny("key", Amounts{"rpm": 2})
			s.db.SetFaults(nil)
			assert.Equal(t, int64(3), exceeded.Primary().Limit.Capacity)
			assert.Equal(t, int64(1), exceeded.Primary().Remaining)
			p.acquire("key", Amounts{"rpm": 1})
			assert.Equal(t, int64(3000), s.stored("project", "rpm").Consumed, "the parent was not dropped")

			q := s.peer(nil)
			s.db.SetFaults(firstOf("BatchGetItem", -1, ddbmem.Fault{Unprocessed: left + 1}))
			before := s.item("key")
			_, err := q.limiter.Acquire(ctx, "key", model, Amounts{"rpm": 1})
			s.db.SetFaults(nil)
			require.ErrorIs(t, err, ErrUnavailable)
			require.False(t, errors.Is(err, ErrLimitExceeded))
			assert.Equal(t, before, s.item("key"))
			elapse(time.Minute) // the read that others might wait for ends
		})
	}
}

// The operations the hot path needs are those that the documentation grants.
func TestOperationsUsed(t *testing.T) {
	s := memProcess(t, together())
	s.family("key", "project")
	s.db.ResetLog()
	lease := s.acquire("key", Amounts{"tpm": 500})
	require.NoError(t, lease.Adjust(t.Context(), Amounts{"tpm": 5}))
	require.NoError(t, lease.Rollback(t.Context()))
	s.acquire("user-1", Amounts{"rpm": 1})
	_, err := s.limiter.Check(t.Context(), "key", model, nil)
	require.NoError(t, err)
	var used []string
	for _, entry := range s.db.Log() {
		if !slices.Contains(used, entry.Operation) {
			used = append(used, entry.Operation)
		}
	}
	slices.Sort(used)
	assert.Equal(t, []string{"BatchGetItem", "GetItem", "PutItem", "TransactWriteItems", "UpdateItem"}, used)
}
