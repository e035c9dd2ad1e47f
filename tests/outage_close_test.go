package tests

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/observe"
)

// Close in or after an outage: what was used is told to its bucket, or told to be lost or in
// doubt. A table that answers again is asked, although its next probe is not due yet.
func TestCloseTellsWhatWaits(t *testing.T) {
	const keys = 20
	for name, fault := range map[string]ddbmem.Fault{"drop": {Drop: true}, "hang": {Before: time.Hour}, "lost answers": {After: time.Hour}} {
		for _, patience := range []time.Duration{0, 100 * time.Millisecond, 5 * time.Second, time.Minute} {
			for _, back := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %v back %v", name, patience, back), func(t *testing.T) {
					virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
						for i := range keys {
							s.acquire(userOf(i), dynalimit.Amounts{"rpm": 1})
						}
						s.down(fault)
						for i := range keys {
							s.acquire(userOf(i), dynalimit.Amounts{"rpm": 10})
						}
						elapse(7 * time.Second)
						if back {
							s.db.SetFaults(nil)
							elapse(3500 * time.Millisecond)
						}
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						err := s.limiter.Close(ctx)
						h := s.limiter.Health()
						s.db.SetFaults(nil)
						elapse(time.Minute)
						told, unsure := s.consumed(keys, "rpm"), h.Waiting["rpm"]+h.Doubt["rpm"]+h.Dropped["rpm"]
						assert.InDelta(t, 220, told, float64(unsure))
						if back && patience > 0 {
							assert.Empty(t, h.Waiting)
						}
						if len(h.Waiting) == 0 {
							if patience > 0 || !errors.Is(err, context.DeadlineExceeded) { // or it was in flight
								require.NoError(t, err)
							}
							return
						}
						var lost *dynalimit.UnconfirmedError
						require.ErrorAs(t, err, &lost)
						assert.GreaterOrEqual(t, lost.Amounts["rpm"], h.Waiting["rpm"])
					})
				})
			}
		}
	}
}

// A give-back on its way to a bucket that cannot be reached is lost when the limiter closes: told
// as dropped, and by Close.
func TestCloseTellsWhatIsUnderWay(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
		f := &brokenWire{unsent: true, match: only("UpdateItem", "PutItem")}
		cut := s.faulty(&dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, f)
		lease := cut.acquire(userOf(0), dynalimit.Amounts{"rpm": 10})
		f.times(-1)
		require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 1}, nil))
		elapse(time.Minute)
		require.Equal(t, dynalimit.Amounts{"rpm": 9}, cut.limiter.Health().Waiting)
		var lost *dynalimit.UnconfirmedError
		require.ErrorAs(t, cut.limiter.Close(t.Context()), &lost)
		assert.Equal(t, dynalimit.Amounts{"rpm": 9}, lost.Amounts)
		h := cut.limiter.Health()
		assert.Equal(t, dynalimit.Amounts{"rpm": 9}, h.Dropped)
		assert.Empty(t, h.Doubt)
		f.times(0)
	})
}

// Close tells what it can although a partition of the table does not answer.
func TestCloseTellsOthersThanASilentBucket(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		for i := range 3 {
			s.acquire(userOf(i), dynalimit.Amounts{"rpm": 1})
		}
		s.down(ddbmem.Fault{Drop: true})
		for _, i := range []int{1, 0, 2} { // the lane of the first trips
			s.acquire(userOf(i), dynalimit.Amounts{"rpm": 10})
		}
		s.silence(userOf(1))
		require.ErrorIs(t, s.limiter.Close(t.Context()), dynalimit.ErrUnconfirmed)
		assert.Equal(t, 1, s.limiter.Health().WaitingBuckets)
		s.db.SetFaults(nil)
		assert.Equal(t, int64(11), s.stored(userOf(0), "rpm").Consumed/milli)
		assert.Equal(t, int64(11), s.stored(userOf(2), "rpm").Consumed/milli)
	})
}

// What is lost is heard of once, however often the limiter is closed; a further Close writes it if
// that can be done by then.
func TestCloseAgainTellsNoLossAgain(t *testing.T) {
	var heard []observe.Drop
	hears := observe.Observer{Dropped: func(e observe.Drop) { heard = append(heard, e) }}
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow, Observer: hears}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.isCutOff(t)
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 10})
		s.down(throttled1)
		for range 3 {
			require.ErrorIs(t, s.limiter.Close(t.Context()), dynalimit.ErrUnconfirmed)
			assert.Equal(t, []observe.Drop{{Amounts: map[string]int64{"rpm": 10}}}, heard)
		}
		s.db.SetFaults(nil)
		require.NoError(t, s.limiter.Close(t.Context()))
		assert.Len(t, heard, 1)
		assert.Equal(t, int64(11), s.consumed(1, "rpm"))
	})
}

// What comes to wait for a bucket while that is being told something is told before Close
// returns, and so is what was throttled meanwhile.
func TestCloseTellsABucketThatIsBeingTold(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{"landed": {}, "throttled": throttled1} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				s.isCutOff(t)
				lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 30})
				telling := make(chan struct{}, 100)
				s.limiter.lanes.OnTell = func(*lane.Lane, uint64, plan.Sums) { telling <- struct{}{} }
				fault.Before = 400 * time.Millisecond
				s.down(fault)
				<-telling
				require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 10}))
				s.db.SetFaults(nil)
				require.NoError(t, s.limiter.Close(t.Context()))
				h := s.limiter.Health()
				assert.Empty(t, h.Waiting)
				assert.InDelta(t, 11, s.consumed(1, "rpm"), float64(h.Doubt["rpm"]))
				assert.Zero(t, s.consumed(1, "rpm")-11)
			})
		})
	}
}

// What a policy admits while the limiter closes, or what was not located by then, no bucket
// will be told: Health says so.
func TestWhatIsAdmittedWhileClosingIsDropped(t *testing.T) {
	heard := int64(0)
	hears := observe.Observer{Dropped: func(e observe.Drop) { heard += e.Amounts["rpm"] }}
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow, Observer: hears}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		s.acquire("unknown", dynalimit.Amounts{"rpm": 2})
		counted := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 4})
		s.limiter.lanes.End()
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 8})
		s.acquire("unknown-too", dynalimit.Amounts{"rpm": 16})
		var unconfirmed *dynalimit.UnconfirmedError
		require.ErrorAs(t, counted.Rollback(t.Context()), &unconfirmed)
		assert.Equal(t, dynalimit.Amounts{"rpm": -4}, unconfirmed.Amounts)
		assert.True(t, unconfirmed.NotWritten)
		assert.Equal(t, dynalimit.Amounts{"rpm": 4}, counted.Consumed())
		assert.Equal(t, dynalimit.Amounts{"rpm": 8 + 16}, s.limiter.Health().Dropped)
		s.db.SetFaults(nil)
		s.limiter.lanes.Flush(t.Context())
		assert.Equal(t, dynalimit.Amounts{"rpm": 2 + 8 + 16}, s.limiter.Health().Dropped)
		assert.EqualValues(t, 2+8+16, heard, "by the observer")
		assert.Equal(t, int64(1+4), s.stored(userOf(0), "rpm").Consumed/milli)
	})
}

// After Close a correction that cannot even be sent ends: nothing probes any more.
func TestCorrectionAfterCloseThatCannotBeSentEnds(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
		f := &brokenWire{unsent: true, match: only("UpdateItem")}
		cut := s.faulty(&dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, f)
		lease := cut.acquire(userOf(0), dynalimit.Amounts{"rpm": 10})
		require.NoError(t, cut.limiter.Close(t.Context()))
		f.times(-1)
		err := lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 20})
		var unconfirmed *dynalimit.UnconfirmedError
		require.ErrorAs(t, err, &unconfirmed)
		assert.True(t, unconfirmed.NotWritten)
		assert.LessOrEqual(t, f.count(), lane.MaxTries)
		f.times(0)
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 20}))
		assert.Equal(t, int64(20), s.consumed(1, "rpm"))
	})
}

// A correction that Close overtakes between its give-back, which waits, and its charge, which
// is kept no more: the same call again gives nothing back again.
func TestCloseBetweenAGiveBackAndItsCharge(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100), dynalimit.PerDay("tpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		lanes := s.limiter.lanes
		lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 10, "tpm": 10})
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 50})
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1}) // so that the bucket is known not to answer
		lanes.OnOwe = func(_ *lane.Lane, amounts []plan.Signed) {
			if len(amounts) > 0 {
				lanes.End()
			}
		}
		actual := dynalimit.Amounts{"rpm": 5, "tpm": 20}
		require.ErrorIs(t, lease.Settle(t.Context(), actual), dynalimit.ErrUnconfirmed)
		s.db.SetFaults(nil)
		require.NoError(t, s.limiter.Close(t.Context()))
		require.NoError(t, lease.Settle(t.Context(), actual))
		assert.Equal(t, int64(56), s.stored(userOf(0), "rpm").Consumed/milli)
		assert.Equal(t, int64(100-55), s.stored(userOf(0), "rpm").Tokens/milli)
		assert.Equal(t, int64(20), s.stored(userOf(0), "tpm").Consumed/milli)
	})
}
