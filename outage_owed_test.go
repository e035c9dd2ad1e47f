package dynalimit

import (
	"context"
	"testing"
	"time"

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

// Close charges what is owed, although nobody uses the bucket any more.
func TestCloseChargesWhatIsOwed(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(throttled1)
		s.acquire(userOf(0), Amounts{"rpm": 10})
		s.db.SetFaults(nil)
		require.NoError(t, s.limiter.Close(t.Context()))
		assert.Equal(t, int64(11), s.consumed(1, "rpm"))
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
