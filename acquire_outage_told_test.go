package dynalimit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
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
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Refuse))
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
// under Refuse too, and told as such. The tokens never hear of it.
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
				falls(t, s, lease.Held()[0].Lane)
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
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Refuse))
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
		take := lane.NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 5 * milli}}, lease.Held()[0].Config)
		known := lane.BesideOf(l)
		l.GiveBack(take, known.LastResult(nil))
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
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Refuse))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.NoError(t, kept.Adjust(t.Context(), dynalimit.Amounts{"rpm": -10}))
		s.recovers()
		assert.Equal(t, int64(60), s.stored(userOf(0), "rpm").Consumed/milli)
		require.NoError(t, kept.Rollback(t.Context()))
		require.NoError(t, kept.Rollback(t.Context()), "ended")
		assert.Equal(t, int64(30), s.stored(userOf(0), "rpm").Consumed/milli, "a part is not given back again")

		s.down(ddbmem.Fault{Drop: true})
		_, err = s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Refuse))
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
		_, err := s.limiter.Acquire(t.Context(), "nobody", "none", dynalimit.Amounts{"none": 1}, dynalimit.WithLimits(dynalimit.PerDay("none", 1)), dynalimit.WithOnUnavailable(dynalimit.Refuse))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
	}
}

// cutOff is the fault of the first write of a bucket; no other request of this
// process is answered after it.
func (s *process) cutOff(first ddbmem.Fault) {
	var began atomic.Bool
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		switch {
		case r.Context.Value(otherProcess{}) != nil:
			return ddbmem.Fault{}
		case r.Operation == "UpdateItem" && began.CompareAndSwap(false, true):
			return first
		}
		return ddbmem.Fault{Drop: began.Load()}
	})
}

// What the policy admitted while its write was under way is counted, once. What the write
// took all the same is given back, and it is not sent again. Each of the three tries that nobody
// answered is in doubt, but one that is known to have landed.
func TestTakeUnderWayInAnOutageIsCountedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		first ddbmem.Fault
		doubt int64
	}{
		"it landed":    {ddbmem.Fault{Lose: true}, 20},
		"it came late": {ddbmem.Fault{After: 1500 * time.Millisecond}, 0},
		"nobody knows": {ddbmem.Fault{Drop: true}, 30},
		"never sent":   {ddbmem.Fault{Before: time.Hour}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				s.cutOff(test.first)
				lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 10})
				h := s.limiter.Health()
				assert.Equal(t, int64(20), h.Waiting["rpm"], "what is counted, and what is under way")
				s.recovers()
				elapse(5 * time.Second)
				assert.Equal(t, int64(11), s.consumed(1, "rpm"))
				assert.Equal(t, int64(99), s.level(userOf(0), "rpm"), "it was never sent again")
				assert.Equal(t, test.doubt, s.limiter.Health().Doubt["rpm"])
				assert.True(t, lease.Degraded())
				assert.Equal(t, dynalimit.Amounts{"rpm": 10}, lease.Used())
				require.NoError(t, lease.Rollback(t.Context()))
				s.recovers()
				assert.Equal(t, int64(1), s.consumed(1, "rpm"))
				assert.Equal(t, int64(99), s.level(userOf(0), "rpm"))
			})
		})
	}
	for _, throttled := range []bool{false, true} {
		t.Run("it was not sent", func(t *testing.T) {
			virtual(t, perMinute(), func(t *testing.T, s *process) {
				f := &brokenWire{unsent: true, match: only("UpdateItem", "GetItem", "BatchGetItem")}
				cut := s.faulty(&dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, f)
				cut.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				f.times(-1)
				lease := cut.acquire(userOf(0), dynalimit.Amounts{"rpm": 10})
				if throttled {
					s.down(throttled1) // it answers, and refuses the write
				}
				f.times(0)
				elapse(10 * time.Second)
				cut.recovers()
				elapse(5 * time.Second)
				assert.Equal(t, int64(11), s.consumed(1, "rpm"))
				assert.Equal(t, int64(99), s.level(userOf(0), "rpm"))
				assert.Empty(t, cut.limiter.Health().Doubt)
				require.NoError(t, lease.Rollback(t.Context()))
				cut.recovers()
				assert.Equal(t, int64(1), s.consumed(1, "rpm"))
			})
		})
	}
}

// A take that the policy admitted while its write was under way, and that the bucket denied
// afterwards, is counted: nothing of it is given back to the tokens.
func TestTakeDeniedAfterThePolicyAdmittedItIsCounted(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		other := s.peer(&dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}})
		s.slowly(500*time.Millisecond, 0)
		first := make(chan error)
		go func() {
			_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1})
			first <- err
		}()
		time.AfterFunc(600*time.Millisecond, func() { // the next write was decided, and is not executed yet
			_, err := other.limiter.Acquire(context.WithValue(t.Context(), otherProcess{}, true), userOf(0), model, dynalimit.Amounts{"rpm": 90})
			assert.NoError(t, err)
		})
		elapse(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
		defer cancel()
		lease, err := s.limiter.Acquire(ctx, userOf(0), model, dynalimit.Amounts{"rpm": 10})
		require.NoError(t, err)
		require.True(t, lease.Degraded())
		require.NoError(t, <-first)
		elapse(5 * time.Second)
		s.recovers()
		assert.Equal(t, int64(102), s.consumed(1, "rpm"))
		assert.Equal(t, int64(8), s.level(userOf(0), "rpm"))
		assert.Empty(t, s.limiter.Health().Doubt)
		require.NoError(t, lease.Rollback(t.Context()))
		s.recovers()
		assert.Equal(t, int64(92), s.consumed(1, "rpm"))
		assert.Equal(t, int64(8), s.level(userOf(0), "rpm"))
	})
}

// What a call that failed is granted afterwards is given back.
func TestTakeGrantedAfterItsCallFailedIsGivenBack(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.slowly(0, 500*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		_, err := s.limiter.Acquire(ctx, userOf(0), model, dynalimit.Amounts{"rpm": 10})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.ErrorIs(t, err, dynalimit.ErrUnconfirmed)
		elapse(5 * time.Second)
		s.recovers()
		assert.Equal(t, int64(1), s.consumed(1, "rpm"))
	})
}

// What was granted to a caller who had left is given back once: when nobody knows
// whether that landed, it is not repeated.
func TestReturnOfWhichNobodyKnowsIsNotRepeated(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 40})
		l := lease.Held()[0].Lane
		l.Memory.ForgetOwnWrite() // the last write was not recognised: nor is the next
		var writes atomic.Int32
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Lose: r.Operation == "UpdateItem" && writes.Add(1) == 1}
		})
		take := lane.NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 10 * milli}}, lease.Held()[0].Config)
		known := lane.BesideOf(l)
		l.GiveBack(take, known.LastResult(nil))
		elapse(5 * time.Second)
		s.recovers()
		elapse(5 * time.Second)
		assert.Equal(t, int64(30), s.consumed(1, "rpm"))
		assert.Equal(t, dynalimit.Amounts{"rpm": 10}, s.limiter.Health().Doubt)
	})
}

// A correction whose write was under way when the bucket fell silent is not sent again. It
// is booked once, when it is known what came of it; what nobody knows is in doubt: of a charge
// each of its three tries, and it stays consumed; a give-back is not repeated.
func TestCorrectionUnderWayInAnOutageIsBookedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		first                       ddbmem.Fault
		change, doubt, after, atEnd int64
	}{
		"charge":                          {ddbmem.Fault{Lose: true}, 10, 20, 50, 0},
		"charge of which nobody knows":    {ddbmem.Fault{Drop: true}, 10, 30, 40, 0},
		"give-back":                       {ddbmem.Fault{Lose: true}, -10, 0, 30, 0},
		"give-back of which nobody knows": {ddbmem.Fault{Drop: true}, -10, 10, 40, 10},
		"charge that is too slow":         {ddbmem.Fault{Before: time.Hour}, 10, 10, 40, 0},
		"give-back that is too slow":      {ddbmem.Fault{Before: time.Hour}, -10, 10, 40, 10},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 5})
				lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 40})
				s.cutOff(test.first)
				require.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": test.change}), dynalimit.ErrUnconfirmed)
				assert.Equal(t, dynalimit.Amounts{"rpm": 10}, s.limiter.Health().Waiting, "it is under way")
				synctest.Wait() // or a probe may be answered before its lane notices the outage, and send it again
				s.recovers()
				elapse(5 * time.Second)
				assert.Equal(t, test.doubt, s.limiter.Health().Doubt["rpm"])
				assert.Equal(t, 5+test.after, s.consumed(1, "rpm"))
				require.NoError(t, lease.Rollback(t.Context()))
				elapse(5 * time.Second)
				assert.Equal(t, 5+test.atEnd, s.consumed(1, "rpm"))
			})
		})
	}
}

// A lease that ends before it is known what became of a charge leaves that in doubt.
func TestLeaseThatEndsBeforeItsChargeIsKnownLeavesDoubt(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 40})
		s.cutOff(ddbmem.Fault{Lose: true})
		require.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 10}), dynalimit.ErrUnconfirmed)
		require.NoError(t, lease.Rollback(t.Context()))
		s.recovers()
		elapse(5 * time.Second)
		assert.Equal(t, int64(10), s.consumed(1, "rpm"))
		assert.Equal(t, dynalimit.Amounts{"rpm": 30}, s.limiter.Health().Doubt)
	})
}
