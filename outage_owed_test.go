package dynalimit

import (
	"context"
	"testing"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// What a bucket is owed that is deleted before it answers again is dropped, and
// told: the next bucket has nothing to do with it.
func TestOwedToADeletedBucketIsDropped(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { // this process alone is cut off
			return ddbmem.Fault{Drop: r.Context.Value(otherProcess{}) == nil}
		})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable) // and now it is known to be silent
		lease := s.acquire(userOf(0), Amounts{"rpm": 30})
		other, ctx := s.peer(perMinute()), context.WithValue(t.Context(), otherProcess{}, true)
		require.NoError(t, other.repo.DeleteEntity(ctx, userOf(0)))
		_, err = other.limiter.Acquire(ctx, userOf(0), model, Amounts{"rpm": 7})
		require.NoError(t, err)
		s.recovers()
		elapse(5 * time.Second)
		assert.Equal(t, Amounts{"rpm": 30}, s.limiter.Health().Dropped)
		assert.Equal(t, int64(7), s.consumed(1, "rpm"))
		require.NoError(t, lease.Rollback(t.Context()))
		elapse(5 * time.Second)
		assert.Equal(t, int64(7), s.consumed(1, "rpm"), "nothing was charged, and nothing is given back")
	})
}

// What is given back while its charge is under way is given back once that landed.
func TestOwedThatIsGivenBackWhileItIsChargedIsGivenBack(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable)
		doubt := s.limiter.Health().Doubt["rpm"]
		lease := s.acquire(userOf(0), Amounts{"rpm": 10})
		l := lease.levels[0].lane
		s.slowly(0, 500*time.Millisecond)
		for range 3000 {
			if l.WritesOwed() {
				break
			}
			elapse(10 * time.Millisecond)
		}
		require.True(t, l.WritesOwed())
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"rpm": -4}))
		s.recovers()
		elapse(5 * time.Second)
		assert.Equal(t, 1+6-doubt, s.consumed(1, "rpm")-doubt)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(1), s.consumed(1, "rpm"))
	})
}

// A give-back that is owed and cannot be written is tried until it can.
func TestOwedGiveBackIsTriedUntilItIsWritten(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 40})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable)
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"rpm": -30}))
		s.down(throttled1) // it answers, and takes nothing
		elapse(time.Minute)
		assert.Equal(t, 1, s.limiter.Health().OwedBuckets)
		s.recovers()
		elapse(5 * time.Second)
		assert.Equal(t, int64(10), s.consumed(1, "rpm"))
	})
}

// What a lease consumes while its bucket, or the table, does not answer is owed at
// once, and told as such until it is charged.
func TestCorrectionInAnOutageIsOwedAtOnce(t *testing.T) {
	for name, falls := range map[string]func(t *testing.T, s *process, l *lane.Lane){
		"bucket": func(t *testing.T, s *process, l *lane.Lane) {
			s.down(ddbmem.Fault{Drop: true})
			l.Trip(lane.ErrTripped)
			require.False(t, s.limiter.Health().Open)
		},
		"table": func(t *testing.T, s *process, _ *lane.Lane) {
			s.down(ddbmem.Fault{Before: time.Hour})
			_, err := s.limiter.Acquire(t.Context(), userOf(1), model, Amounts{"rpm": 1})
			require.ErrorIs(t, err, ErrUnavailable)
			require.True(t, s.limiter.Health().Open)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
				s.acquire(userOf(0), Amounts{"rpm": 1})
				lease := s.acquire(userOf(0), Amounts{"rpm": 40})
				falls(t, s, lease.levels[0].lane)
				began := time.Now()
				require.NoError(t, lease.Adjust(t.Context(), Amounts{"rpm": 10}))
				assert.Zero(t, time.Since(began))
				assert.True(t, lease.Degraded(), "a part of it is not charged")
				assert.Equal(t, Amounts{"rpm": 10}, s.limiter.Health().Owed)
				s.recovers()
				assert.False(t, lease.Degraded())
				assert.Equal(t, int64(51), s.consumed(1, "rpm"))
				require.NoError(t, lease.Rollback(t.Context()))
				assert.Equal(t, int64(1), s.consumed(1, "rpm"))
			})
		})
	}
}

// Two hours at the limit leave no debt, and every token is counted.
func TestBacklogIsCountedWholeAndChargedWhatIsLeft(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerMinute("rpm", 60)}, OnUnavailable: Local}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.clock.advance(time.Minute)
		s.down(ddbmem.Fault{Drop: true})
		used := int64(1)
		for range 120 {
			lease := s.acquire(userOf(0), Amounts{"rpm": 60})
			require.NoError(t, lease.Settle(t.Context(), nil))
			used += 60
			s.clock.advance(time.Minute)
		}
		s.recovers()
		doubt := s.limiter.Health().Doubt["rpm"]
		assert.LessOrEqual(t, doubt, int64(60))
		assert.Equal(t, used-doubt, s.stored(userOf(0), "rpm").Consumed/milli, "the counter has all of it")
		assert.Equal(t, int64(60), s.level(userOf(0), "rpm"), "the tokens were refilled long ago")
	})
}

// A flush never charges more than a burst, and the lane's own takes come after it.
func TestBacklogComesBeforeTheLanesOwnTakes(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable)
		for range 5 {
			s.acquire(userOf(0), Amounts{"rpm": 50})
		}
		s.db.SetFaults(nil)
		<-s.repo.breaker.Closed()
		for s.limiter.Health().SilentBuckets > 0 {
			elapse(time.Millisecond)
		}
		denied := s.deny(userOf(0), Amounts{"rpm": 1})
		assert.Less(t, denied.Primary().Remaining, int64(1))
		s.recovers()
		assert.GreaterOrEqual(t, s.level(userOf(0), "rpm"), int64(-2), "a burst at most")
		assert.GreaterOrEqual(t, s.stored(userOf(0), "rpm").Consumed/milli, int64(251))
	})
}

// What a bucket is owed of a limit that is gone when it answers again is dropped:
// the lease does not hold it, and gives nothing back once the limit is there again.
func TestOwedOfALimitThatIsGoneIsNotGivenBack(t *testing.T) {
	both, one := []Limit{PerMinute("rpm", 100), PerMinute("tpm", 100)}, []Limit{PerMinute("rpm", 100)}
	virtual(t, &Options{OnUnavailable: Allow}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetSystemLimits(t.Context(), both, nil))
		s.acquire(userOf(0), Amounts{"rpm": 1, "tpm": 1})
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { // this process alone is cut off
			return ddbmem.Fault{Drop: r.Context.Value(otherProcess{}) == nil}
		})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable) // and now it is known to be silent
		lease, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 5, "tpm": 50})
		require.NoError(t, err)
		require.True(t, lease.Degraded())
		s.clock.advance(3 * time.Second)
		<-time.After(3 * time.Second)
		other, ctx := s.peer(perMinute()), context.WithValue(t.Context(), otherProcess{}, true)
		require.NoError(t, other.repo.SetSystemLimits(ctx, one, nil))
		_, err = other.limiter.Acquire(ctx, userOf(0), model, Amounts{"rpm": 1}) // removes tpm, which is full
		require.NoError(t, err)
		s.recovers()
		require.NoError(t, other.repo.SetSystemLimits(ctx, both, nil))
		s.clock.advance(3 * time.Second)
		<-time.After(3 * time.Second)
		_, err = other.limiter.Acquire(ctx, userOf(0), model, Amounts{"tpm": 80})
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(80), s.stored(userOf(0), "tpm").Consumed/milli, "tpm was never charged")
		assert.Equal(t, int64(2), s.stored(userOf(0), "rpm").Consumed/milli, "rpm was, and is given back")
	})
}

// What is to be given back for a caller who has gone is kept while the bucket does
// not answer.
func TestGrantOfACallerWhoHasGoneIsGivenBackAfterAnOutage(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 5})
		l := s.limiter.lanes.Of(userOf(0), model)
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), Amounts{"rpm": 1})
		require.True(t, l.Away())
		take := lane.NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 5 * milli}}, lease.levels[0].cfg)
		l.Submit(l.Returning(take, lane.Result{Image: l.Image()}))
		assert.Equal(t, 1, s.limiter.Health().OwedBuckets)
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
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		kept, lost := s.acquire(userOf(0), Amounts{"rpm": 40}), s.acquire(userOf(0), Amounts{"rpm": 30})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable)
		require.NoError(t, kept.Rollback(t.Context()))
		require.NoError(t, kept.Rollback(t.Context()), "ended")
		s.recovers()
		assert.Equal(t, int64(30), s.stored(userOf(0), "rpm").Consumed/milli)

		s.down(ddbmem.Fault{Drop: true})
		_, err = s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable)
		require.NoError(t, lost.Rollback(t.Context()))
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { // this process alone is cut off
			return ddbmem.Fault{Drop: r.Context.Value(otherProcess{}) == nil}
		})
		other := s.peer(perMinute())
		ctx := context.WithValue(t.Context(), otherProcess{}, true)
		require.NoError(t, other.repo.DeleteEntity(ctx, userOf(0)))
		_, err = other.limiter.Acquire(ctx, userOf(0), model, Amounts{"rpm": 70})
		require.NoError(t, err)
		s.recovers()
		assert.Equal(t, int64(70), s.stored(userOf(0), "rpm").Consumed/milli, "another bucket gets nothing back")
	})
}

// What is given back in part while the store is away leaves the rest with the
// bucket that it was taken from.
func TestPartGivenBackDuringAnOutageLeavesTheRest(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 40})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable)
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"rpm": -10}))
		s.recovers()
		assert.Equal(t, int64(30), s.consumed(1, "rpm"))
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Zero(t, s.consumed(1, "rpm"))
	})
}
