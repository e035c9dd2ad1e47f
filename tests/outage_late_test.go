package tests

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/inside"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

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
				assert.Equal(t, dynalimit.Amounts{"rpm": 10}, lease.Consumed())
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
		l := inside.Levels(lease)[0].Lane
		l.ForgetOwnWrite() // the last write was not recognised: nor is the next
		var writes atomic.Int32
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Lose: r.Operation == "UpdateItem" && writes.Add(1) == 1}
		})
		take := lane.NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 10 * milli}}, inside.Levels(lease)[0].Config)
		known := lane.BesideOf(l)
		l.GiveBack(take, known.Memory(nil))
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
