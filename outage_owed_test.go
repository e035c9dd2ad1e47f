package dynalimit

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// What a bucket is owed that is deleted before it answers again is dropped, and
// told: the next bucket has nothing to do with it.
func TestOwedToADeletedBucketIsDropped(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *stage) {
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
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *stage) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable)
		doubt := s.limiter.Health().Doubt["rpm"]
		lease := s.acquire(userOf(0), Amounts{"rpm": 10})
		w := lease.levels[0].lane.owing.Load()
		s.slowly(0, 500*time.Millisecond)
		carried := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.carried
		}
		for range 3000 {
			if carried() {
				break
			}
			elapse(10 * time.Millisecond)
		}
		require.True(t, carried())
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
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *stage) {
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
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *stage) {
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
	for name, falls := range map[string]func(t *testing.T, s *stage, l *lane){
		"bucket": func(t *testing.T, s *stage, l *lane) {
			s.down(ddbmem.Fault{Drop: true})
			l.trip(errTripped)
			require.False(t, s.limiter.Health().Open)
		},
		"table": func(t *testing.T, s *stage, _ *lane) {
			s.down(ddbmem.Fault{Before: time.Hour})
			_, err := s.limiter.Acquire(t.Context(), userOf(1), model, Amounts{"rpm": 1})
			require.ErrorIs(t, err, ErrUnavailable)
			require.True(t, s.limiter.Health().Open)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}}, func(t *testing.T, s *stage) {
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

// owes is what the user's bucket is owed, empty at first.
func (s *stage) owes(amounts ...plan.Signed) (*lane, *owing) {
	s.t.Helper()
	s.acquire(userOf(0), Amounts{"rpm": 1})
	l := s.limiter.lanes.of(userOf(0), model)
	cfg := newBucketConfig([]Limit{PerDay("rpm", 100)}, LevelOptions, false, 0, 0)
	require.NotNil(s.t, s.limiter.lanes.owed.charge(l, amounts, cfg))
	return l, l.owing.Load()
}

// What a bucket is owed is written part by part.
func TestOwedIsWrittenOnePartAtATime(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *stage) {
		_, w := s.owes(plan.Signed{Name: "rpm", Amount: milli})
		w.refund([]plan.Signed{{Name: "rpm", Amount: milli}}, nil, w.cfg)
		first := w.next(s.limiter.lanes)
		require.NotNil(t, first)
		require.NotNil(t, first.charge, "charges go first")
		assert.Nil(t, w.next(s.limiter.lanes))
		assert.False(t, w.empty())
		first.heir(result{unknown: true, err: errTripped})
		assert.False(t, w.empty(), "the give-back is left")
		second := w.next(s.limiter.lanes)
		require.NotNil(t, second)
		assert.Nil(t, w.next(s.limiter.lanes))
		second.heir(result{unknown: true, err: errTripped})
		assert.True(t, w.empty())
	})
}

// What could not be written waits for a while: calls of the bucket go first.
func TestOwedThatCouldNotBeWrittenWaits(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *stage) {
		_, w := s.owes(plan.Signed{Name: "rpm", Amount: 5 * milli})
		w.next(s.limiter.lanes).heir(result{err: errTripped})
		assert.Equal(t, []plan.Signed{{Name: "rpm", Amount: 5 * milli}}, w.due(0))
		assert.False(t, w.pending())
		assert.Nil(t, w.next(s.limiter.lanes))
		s.recovers()
		assert.Equal(t, int64(6), s.consumed(1, "rpm"))
	})
}

// Give-backs to two incarnations of a bucket are two.
func TestOwedGiveBacksOfTwoBucketsStayApart(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *stage) {
		_, w := s.owes()
		for _, incarnation := range []string{"a", "a", "b"} {
			w.refund([]plan.Signed{{Name: "rpm", Amount: milli}}, []byte(incarnation), w.cfg)
		}
		assert.Equal(t, []owedBack{{[]plan.Signed{{Name: "rpm", Amount: 2 * milli}}, []byte("a")}, {[]plan.Signed{{Name: "rpm", Amount: milli}}, []byte("b")}}, w.backs)
		w.mu.Lock()
		w.backs = nil
		w.mu.Unlock()
	})
}

// What a bucket is owed does not grow beyond what can be summed up.
func TestOwedStaysWithinWhatCanBeSummed(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *stage) {
		l, w := s.owes()
		kept := 0
		for range 3000 {
			if s.limiter.lanes.owed.charge(l, []plan.Signed{{Name: "rpm", Amount: maxTokens * milli}}, w.cfg) == nil {
				break
			}
			kept++
		}
		assert.Less(t, kept, 3000)
		sum := w.charge.Total()
		assert.Equal(t, int64(kept)*maxTokens*milli, sum)
		assert.Positive(t, sum)
		w.mu.Lock()
		w.charge = backlog.NewCharge()
		w.mu.Unlock()
	})
}

// A process keeps what so many buckets are owed, and no more.
func TestOwedToTooManyBucketsIsNotKept(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *stage) {
		_, w := s.owes()
		d := &s.limiter.lanes.owed
		d.mu.Lock()
		for i := range maxOwingBuckets - len(d.byKey) {
			d.byKey[laneKey{"x" + strconv.Itoa(i), model}] = &owing{charge: backlog.NewCharge()}
		}
		d.mu.Unlock()
		l := s.limiter.lanes.of("one-more", model)
		one := []plan.Signed{{Name: "rpm", Amount: milli}}
		assert.Nil(t, d.charge(l, one, w.cfg))
		assert.False(t, d.refund(l, one, nil, w.cfg))
		c := backlog.UnderWay()
		c.Carry("rpm", w.cfg.RateOf("rpm"), milli, 0)
		h := backlog.Holding{Name: "rpm"}
		h.Owe(c, milli)
		d.takeOver(l, c, one, w.cfg)
		h.Resolve(func([]byte) {})
		assert.Equal(t, int64(milli), h.Doubt, "used, and never charged")
		assert.Zero(t, h.Owed())
	})
}
