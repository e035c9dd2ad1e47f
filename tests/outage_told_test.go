package tests

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/inside"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// What was counted for a bucket that was deleted, and made again by others, is on the
// counter of the next one; its tokens are not given what its predecessor's were.
func TestCountedOfADeletedBucketIsToldToTheNext(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		held := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 20})
		s.isCutOff(t)
		lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 30})
		require.NoError(t, held.Adjust(t.Context(), dynalimit.Amounts{"rpm": -5}))
		other, ctx := s.peer(perMinute()), context.WithValue(t.Context(), otherProcess{}, true)
		require.NoError(t, other.repo.DeleteEntity(ctx, userOf(0)))
		_, err := other.limiter.Acquire(ctx, userOf(0), model, dynalimit.Amounts{"rpm": 7})
		require.NoError(t, err)
		s.recovers()
		assert.Equal(t, dynalimit.Amounts{"rpm": 5}, s.limiter.Health().Dropped)
		assert.Equal(t, int64(37), s.consumed(1, "rpm"))
		assert.Equal(t, int64(93), s.level(userOf(0), "rpm"))
		require.NoError(t, lease.Rollback(t.Context()))
		s.recovers()
		assert.Equal(t, int64(7), s.consumed(1, "rpm"))
		assert.Equal(t, int64(93), s.level(userOf(0), "rpm"))
	})
}

// What was counted for a bucket that is gone makes it again, full, with the counter. What
// was to be given back to it, or taken off its counter, is dropped, and told.
func TestCountedOfABucketThatIsGoneMakesItFull(t *testing.T) {
	for name, change := range map[string]int64{"more": 30, "less": -20} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100), dynalimit.PerDay("tpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
				s.isCutOff(t)
				counted := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 20})
				s.recovers()
				require.Equal(t, int64(20), s.consumed(1, "rpm"))
				held := s.acquire(userOf(0), dynalimit.Amounts{"tpm": 40})
				s.isCutOff(t)
				require.NoError(t, held.Rollback(t.Context()))
				require.NoError(t, counted.Adjust(t.Context(), dynalimit.Amounts{"rpm": change}))
				other, ctx := s.peer(nil), context.WithValue(t.Context(), otherProcess{}, true)
				require.NoError(t, other.repo.DeleteEntity(ctx, userOf(0)))
				s.recovers()
				if change < 0 {
					assert.Nil(t, s.item(userOf(0)))
					assert.Equal(t, dynalimit.Amounts{"rpm": 20, "tpm": 40}, s.limiter.Health().Dropped)
					return
				}
				assert.Equal(t, int64(30), s.consumed(1, "rpm"))
				assert.Equal(t, int64(100), s.level(userOf(0), "rpm"))
				assert.Equal(t, dynalimit.Amounts{"tpm": 40}, s.limiter.Health().Dropped)
			})
		})
	}
}

// A give-back that waits and cannot be written is tried until it can.
func TestGiveBackThatWaitsIsTriedUntilItIsWritten(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 40})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Block))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": -30}))
		s.down(throttled1) // it answers, and takes nothing
		elapse(time.Minute)
		assert.Equal(t, 1, s.limiter.Health().WaitingBuckets)
		s.recovers()
		elapse(5 * time.Second)
		assert.Equal(t, int64(10), s.consumed(1, "rpm"))
	})
}

// What a lease consumes while its bucket, or the table, does not answer is counted at once,
// under Block too, and told as such. The tokens never hear of it.
func TestCorrectionInAnOutageIsCountedAtOnce(t *testing.T) {
	for name, falls := range map[string]func(t *testing.T, s *process, l *lane.Lane){
		"bucket": func(t *testing.T, s *process, l *lane.Lane) {
			s.down(ddbmem.Fault{Drop: true})
			l.Trip(lane.ErrTripped)
			require.False(t, s.limiter.Health().Open)
		},
		"table": func(t *testing.T, s *process, _ *lane.Lane) {
			s.down(ddbmem.Fault{Before: time.Hour})
			_, err := s.limiter.Acquire(t.Context(), userOf(1), model, dynalimit.Amounts{"rpm": 1})
			require.ErrorIs(t, err, dynalimit.ErrUnavailable)
			require.True(t, s.limiter.Health().Open)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 40})
				falls(t, s, inside.Levels(lease)[0].Lane)
				began := time.Now()
				require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 10}))
				assert.Zero(t, time.Since(began))
				assert.True(t, lease.Degraded(), "a part of it is not charged")
				assert.Equal(t, int64(10), s.limiter.Health().Waiting["rpm"])
				s.recovers()
				assert.Equal(t, int64(51), s.consumed(1, "rpm"))
				assert.Equal(t, int64(59), s.level(userOf(0), "rpm"))
				require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": -15}))
				s.recovers()
				assert.Equal(t, int64(36), s.consumed(1, "rpm"))
				assert.Equal(t, int64(64), s.level(userOf(0), "rpm"), "what is lowered comes off what was counted first")
				require.NoError(t, lease.Rollback(t.Context()))
				assert.Equal(t, int64(1), s.consumed(1, "rpm"))
				assert.Equal(t, int64(99), s.level(userOf(0), "rpm"))
			})
		})
	}
}

// After an outage a bucket gives back only what it was charged: five leases of a whole burst
// were admitted without it, and their rollbacks make no token.
func TestRollbacksAfterAnOutageMintNothing(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerHour("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.isCutOff(t)
		s.clock.advance(1100 * time.Millisecond) // no memory of what is left
		var leases []*dynalimit.Lease
		for range 5 {
			leases = append(leases, s.acquire(userOf(0), dynalimit.Amounts{"rpm": 100}))
		}
		s.recovers()
		other := s.peer(&dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerHour("rpm", 100)}})
		admitted := 0
		for _, lease := range leases {
			require.NoError(t, lease.Rollback(t.Context()))
			s.recovers()
			s.clock.advance(1100 * time.Millisecond) // no memory of a denial
			if _, err := other.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 95}); err == nil {
				admitted += 95
			}
		}
		assert.Equal(t, 95, admitted, "of a burst of 100, of which 1 is used")
		assert.Equal(t, int64(96), s.consumed(1, "rpm"))
	})
}

// What was counted of a limit that is gone when the bucket answers again is dropped, and the
// other limits are told. Nothing of it is given back once the limit is there again.
func TestCountedOfALimitThatIsGoneIsDropped(t *testing.T) {
	both, one := []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 100)}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, both))
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1, "tpm": 1})
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { // this process alone is cut off
			return ddbmem.Fault{Drop: r.Context.Value(otherProcess{}) == nil}
		})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Block))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable) // and now it is known to be silent
		lease, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 5, "tpm": 50})
		require.NoError(t, err)
		require.True(t, lease.Degraded())
		s.clock.advance(3 * time.Second)
		<-time.After(3 * time.Second)
		other, ctx := s.peer(perMinute()), context.WithValue(t.Context(), otherProcess{}, true)
		require.NoError(t, other.repo.SetLimits(ctx, admin.Scope{Everyone: true}, one))
		_, err = other.limiter.Acquire(ctx, userOf(0), model, dynalimit.Amounts{"rpm": 1}) // removes tpm, which is full
		require.NoError(t, err)
		s.recovers()
		assert.Equal(t, dynalimit.Amounts{"tpm": 50}, s.limiter.Health().Dropped)
		require.NoError(t, other.repo.SetLimits(ctx, admin.Scope{Everyone: true}, both))
		s.clock.advance(3 * time.Second)
		<-time.After(3 * time.Second)
		_, err = other.limiter.Acquire(ctx, userOf(0), model, dynalimit.Amounts{"tpm": 80})
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
		s.recovers()
		assert.Equal(t, int64(20), s.level(userOf(0), "tpm"), "it was never charged")
		assert.Equal(t, int64(2), s.stored(userOf(0), "rpm").Consumed/milli, "told, and taken off again")
	})
}

// What is to be given back for a caller who has gone is kept while the bucket does
// not answer.
func TestGrantOfACallerWhoHasGoneIsGivenBackAfterAnOutage(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 5})
		l := s.limiter.lanes.Of(userOf(0), model)
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		require.True(t, l.Contact.Away())
		take := lane.NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 5 * milli}}, inside.Levels(lease)[0].Config)
		known := lane.BesideOf(l)
		l.GiveBack(take, known.Memory(nil))
		assert.Equal(t, 1, s.limiter.Health().WaitingBuckets)
		s.recovers()
		elapse(time.Second)
		charged, doubt := s.consumed(1, "rpm"), s.limiter.Health().Doubt["rpm"]
		assert.LessOrEqual(t, charged, int64(1))
		assert.GreaterOrEqual(t, charged+doubt, int64(1))
	})
}

// What is given back while the store is away is given back once it answers, alone
// and to the bucket that was taken from.
func TestGiveBackDuringAnOutage(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		kept, lost := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 40}), s.acquire(userOf(0), dynalimit.Amounts{"rpm": 30})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Block))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.NoError(t, kept.Rollback(t.Context()))
		require.NoError(t, kept.Rollback(t.Context()), "ended")
		s.recovers()
		assert.Equal(t, int64(30), s.stored(userOf(0), "rpm").Consumed/milli)

		s.down(ddbmem.Fault{Drop: true})
		_, err = s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Block))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.NoError(t, lost.Rollback(t.Context()))
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { // this process alone is cut off
			return ddbmem.Fault{Drop: r.Context.Value(otherProcess{}) == nil}
		})
		other := s.peer(perMinute())
		ctx := context.WithValue(t.Context(), otherProcess{}, true)
		require.NoError(t, other.repo.DeleteEntity(ctx, userOf(0)))
		_, err = other.limiter.Acquire(ctx, userOf(0), model, dynalimit.Amounts{"rpm": 70})
		require.NoError(t, err)
		s.recovers()
		assert.Equal(t, int64(70), s.stored(userOf(0), "rpm").Consumed/milli, "another bucket gets nothing back")
	})
}

// isCutOff cuts this process off, and lets it know.
func (s *process) isCutOff(t *testing.T) {
	t.Helper()
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Drop: r.Context.Value(otherProcess{}) == nil}
	})
	for !s.limiter.Health().Open { // by requests of a bucket that is used for nothing else
		_, err := s.limiter.Acquire(t.Context(), "nobody", "none", dynalimit.Amounts{"none": 1}, dynalimit.WithLimits(dynalimit.PerDay("none", 1)), dynalimit.WithOnUnavailable(dynalimit.Block))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
	}
}
