package dynalimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// paused asserts that err says for how long a bucket is paused.
func paused(t *testing.T, err error, entity string, left time.Duration) {
	t.Helper()
	var e *dynalimit.PausedError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, dynalimit.ErrPaused)
	assert.NotErrorIs(t, err, dynalimit.ErrLimitExceeded)
	after, ok := dynalimit.RetryAfter(err)
	assert.Equal(t, []any{entity, left, left, true}, []any{e.EntityID, e.RetryAfter, after, ok})
}

// Pauses do not add up: a provider that refuses 20 calls of each of 4 processes, and wants a
// second, is left alone for that and the second for clocks that may differ. Nothing is consumed.
func TestPausesAreTheLatestOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := liveProcess(t, memEngine(t), perMinute())
		processes := []*process{first, first.peer(perMinute()), first.peer(perMinute()), first.peer(perMinute())}
		for _, p := range processes {
			p.acquire("pool", dynalimit.Amounts{"tpm": 100})
		}
		before, taken := first.db.Meter(), first.stored("pool", "tpm").Consumed
		var all sync.WaitGroup
		for _, p := range processes {
			for range 20 {
				all.Go(func() { assert.NoError(t, p.limiter.Pause(t.Context(), "pool", model, time.Second, "429")) })
			}
		}
		all.Wait()
		used := first.db.Meter().Sub(before)
		assert.Equal(t, int64(len(processes)), used.Operations["UpdateItem"].Requests, "one of each process")
		for _, p := range processes {
			before := p.db.Meter()
			paused(t, second(p.limiter.Acquire(t.Context(), "pool", model, dynalimit.Amounts{"tpm": 1})), "pool", 2*time.Second)
			assert.Zero(t, p.db.Meter().Sub(before).Requests(), "denied from memory")
		}
		elapse(2 * time.Second)
		for _, p := range processes {
			require.NoError(t, p.acquire("pool", dynalimit.Amounts{"tpm": 100}).Rollback(t.Context()))
		}
		assert.Equal(t, taken, first.stored("pool", "tpm").Consumed)
	})
}

// A process that does not know of a pause learns of it by its next answer, and what that took is
// given back. An earlier end replaces no later one, and no take minds the pause in its condition.
func TestPauseReachesOtherProcessesByTheirNextAnswer(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "pool")
		other := s.peer(s.limiterOptions())
		for _, p := range []*process{s, other} {
			p.acquire("key", dynalimit.Amounts{"tpm": 100})
		}
		require.NoError(t, s.limiter.Pause(t.Context(), "pool", model, 9*time.Second, "529"))
		require.NoError(t, other.limiter.Pause(t.Context(), "pool", "another", time.Second, "429"), "there is no such bucket")
		var err error
		take := func() {
			_, err = other.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"tpm": 100})
		}
		if s.db == nil {
			take()
		} else {
			assert.Zero(t, s.used(take).Refused(), "takes go on to commute")
		}
		paused(t, err, "pool", 10*time.Second)
		for _, entity := range []string{"key", "pool"} {
			assert.Equal(t, int64(200_000), s.stored(entity, "tpm").Consumed, entity)
		}
		report, err := other.limiter.Check(t.Context(), "key", model, dynalimit.Amounts{"tpm": 1})
		require.NoError(t, err)
		assert.Equal(t, []any{false, 10 * time.Second}, []any{report.Allowed, report.RetryAfter})

		unaware := s.peer(s.limiterOptions())
		require.NoError(t, unaware.limiter.Pause(t.Context(), "pool", model, 5*time.Second, "429"))
		report, err = unaware.limiter.Check(t.Context(), "key", model, nil)
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, report.RetryAfter, "the later end stays")
	})
}

// Who waits, waits for the end, and up to a quarter of the pause longer, so that not all come back
// at once; who has no time for that hears so at once. Leases that are out go on.
func TestWaitWaitsForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), perMinute())
		lease := s.acquire("pool", dynalimit.Amounts{"tpm": 100})
		require.NoError(t, s.limiter.Pause(t.Context(), "pool", model, time.Hour, "429"))
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 10}))
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 50}))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		paused(t, second(s.limiter.Wait(short, "pool", model, dynalimit.Amounts{"tpm": 1})), "pool", 31*time.Second)
		assert.Zero(t, time.Since(began))

		const most = 31 * time.Second
		ends := make([]time.Duration, 40)
		var all sync.WaitGroup
		for i := range ends {
			all.Go(func() {
				_, err := s.limiter.Wait(t.Context(), "pool", model, dynalimit.Amounts{"tpm": 1})
				assert.NoError(t, err)
				ends[i] = time.Since(began)
			})
		}
		all.Wait()
		early := 0
		for _, d := range ends {
			assert.GreaterOrEqual(t, d, most)
			assert.LessOrEqual(t, d, most+most/4+time.Second)
			if d < most+most/8 {
				early++
			}
		}
		assert.Greater(t, early, 5)
		assert.Less(t, early, 35)
	})
}

// What was debited ahead is not served during a pause.
func TestPauseHoldsBackWhatWasDebitedAhead(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60_000)}, Prefetch: 10 * time.Second}, func(t *testing.T, s *process) {
		for range 100 {
			s.acquire("pool", dynalimit.Amounts{"rpm": 1})
			elapse(10 * time.Millisecond)
		}
		require.NoError(t, s.limiter.Pause(t.Context(), "pool", model, 3*time.Second, "429"))
		paused(t, second(s.limiter.Acquire(t.Context(), "pool", model, dynalimit.Amounts{"rpm": 1})), "pool", 4*time.Second)
	})
}

// A pause that the store was not told holds in this process, whatever the policy; one whose answer was lost is there.
func TestPauseWithoutAnAnswer(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{"lost": {Lose: true}, "dropped": {Drop: true}, "throttled": throttled1} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: perMinute().Limits, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
				other := s.peer(perMinute())
				s.acquire("pool", dynalimit.Amounts{"tpm": 100})
				s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return fault })
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				require.ErrorIs(t, s.limiter.Pause(ended, "pool", model, 30*time.Second, "429"), dynalimit.ErrUnavailable)
				s.db.SetFaults(nil)
				require.ErrorIs(t, second(s.limiter.Acquire(t.Context(), "pool", model, dynalimit.Amounts{"tpm": 1})), dynalimit.ErrPaused)
				_, err := other.limiter.Acquire(t.Context(), "pool", model, dynalimit.Amounts{"tpm": 1})
				assert.Equal(t, name == "lost", err != nil, err)
				s.recovers()
			})
		})
	}
}

// A call that a policy has admitted when a pause becomes known is not counted.
func TestPauseInAnOutageCountsNothing(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Allow, dynalimit.Local} {
		t.Run(string(policy), func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: perMinute().Limits, OnUnavailable: policy}, func(t *testing.T, s *process) {
				s.acquire("pool", dynalimit.Amounts{"tpm": 100})
				taken := s.stored("pool", "tpm").Consumed
				s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
				var pausing sync.WaitGroup
				pausing.Go(func() {
					elapse(500 * time.Millisecond)
					assert.ErrorIs(t, s.limiter.Pause(t.Context(), "pool", model, 30*time.Second, "429"), dynalimit.ErrUnavailable)
				})
				require.ErrorIs(t, second(s.limiter.Acquire(t.Context(), "pool", model, dynalimit.Amounts{"tpm": 100})), dynalimit.ErrPaused)
				pausing.Wait()
				s.recovers()
				assert.Equal(t, taken, s.stored("pool", "tpm").Consumed)
			})
		})
	}
}

func TestPauseRefusesBadInput(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		requireInvalid(t, s.limiter.Pause(t.Context(), "pool", model, 0, ""), "d")
		requireInvalid(t, s.limiter.Pause(t.Context(), "#", model, time.Second, ""), "entity")
		requireInvalid(t, s.limiter.Pause(t.Context(), "pool", "", time.Second, ""), "resource")
		requireInvalid(t, new(dynalimit.RateLimiter).Pause(t.Context(), "pool", model, time.Second, ""), "limiter")
	})
}

// A pause that a wrong clock wrote holds others for as long as the longest one may last, once, and a
// right one replaces it.
func TestPauseOfAWrongClockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), perMinute())
		s.acquire("pool", dynalimit.Amounts{"tpm": 1})
		wrong := s.on(s.open(t, s.repo.table, &dynalimit.RepositoryOptions{Now: func() time.Time { return time.Now().Add(24 * time.Hour) }}), perMinute())
		require.NoError(t, wrong.limiter.Pause(t.Context(), "pool", model, time.Second, "429"))
		paused(t, second(s.limiter.Acquire(t.Context(), "pool", model, dynalimit.Amounts{"tpm": 1})), "pool", 31*time.Second)
		elapse(31 * time.Second)
		s.acquire("pool", dynalimit.Amounts{"tpm": 1})
		s.acquire("pool", dynalimit.Amounts{"tpm": 1})
		require.NoError(t, s.limiter.Pause(t.Context(), "pool", model, 5*time.Second, "429"))
		other := s.peer(perMinute())
		paused(t, second(other.limiter.Acquire(t.Context(), "pool", model, dynalimit.Amounts{"tpm": 1})), "pool", 6*time.Second)
	})
}

// Resume ends a pause: in its process at once, in others by their next answer. A bucket that does not
// exist is not made.
func TestResumeEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), perMinute())
		other := s.peer(perMinute())
		s.acquire("pool", dynalimit.Amounts{"tpm": 1})
		lease := other.acquire("pool", dynalimit.Amounts{"tpm": 1})
		require.NoError(t, s.limiter.Pause(t.Context(), "pool", model, 20*time.Second, "429"))
		paused(t, second(other.limiter.Acquire(t.Context(), "pool", model, dynalimit.Amounts{"tpm": 1})), "pool", 21*time.Second)
		require.NoError(t, s.limiter.Resume(t.Context(), "pool", model, "a mistake"))
		s.acquire("pool", dynalimit.Amounts{"tpm": 1})
		paused(t, second(other.limiter.Acquire(t.Context(), "pool", model, dynalimit.Amounts{"tpm": 1})), "pool", 21*time.Second)
		require.NoError(t, lease.Rollback(t.Context()))
		other.acquire("pool", dynalimit.Amounts{"tpm": 1})
		require.NoError(t, s.limiter.Resume(t.Context(), "nobody", model, "not paused"))
		s.acquire("nobody", dynalimit.Amounts{"tpm": 1})
	})
}
