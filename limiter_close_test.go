package dynalimit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/backlog"
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
		doubted := s.limiter.Health().Doubt["rpm"]
		err := s.limiter.Close(t.Context())
		if h := s.limiter.Health(); h.WaitingBuckets == 1 { // what the silent bucket was to be told waits
			require.ErrorIs(t, err, dynalimit.ErrUnconfirmed)
		} else { // or it was on its way, and may have arrived
			assert.GreaterOrEqual(t, h.Doubt["rpm"], doubted+10)
		}
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
				s.limiter.lanes.OnTell = func(*lane.Lane, uint64, plan.Rows) { telling <- struct{}{} }
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
		assert.Equal(t, dynalimit.Amounts{"rpm": 4}, counted.Used())
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

// What the process's share admitted at one level is given back, once, when it
// denies at another.
func TestShareOfALevelIsGivenBackWhenAnotherDenies(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 20)}, OnUnavailable: dynalimit.Local, LocalShare: 1}, func(t *testing.T, s *process) {
		s.family("key", "project")
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "project", Resource: model}, []dynalimit.Limit{dynalimit.PerDay("rpm", 10)}))
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		s.acquire("key", dynalimit.Amounts{"rpm": 9})
		for range 20 {
			denied := s.deny("key", dynalimit.Amounts{"rpm": 1})
			assert.Equal(t, []string{"key rpm", "project rpm"}, holders(denied.Statuses))
			assert.Equal(t, int64(9), denied.Statuses[0].Remaining, "of 20, with what was asked for")
		}
		s.recovers()
	})
}

// The process's share admits a call if each of its limits has room, and takes
// nothing of any else.
func TestShareAdmitsByEveryLimit(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("a", 10), dynalimit.PerDay("b", 3), dynalimit.PerDay("c", 10)}, OnUnavailable: dynalimit.Local, LocalShare: 1}, func(t *testing.T, s *process) {
		one := dynalimit.Amounts{"a": 1, "b": 1, "c": 1}
		s.acquire("u", one)
		s.down(ddbmem.Fault{Drop: true})
		for range 2 {
			s.acquire("u", one)
		}
		for range 20 {
			denied := s.deny("u", one)
			assert.Equal(t, "b", denied.Primary().Limit.Name)
		}
		s.acquire("u", dynalimit.Amounts{"a": 7, "c": 7})
		s.recovers()
	})
}

// The process's share is the limit while the bucket does not answer, and an
// outage that comes and goes does not fill it again.
func TestLocalNeverAdmitsAboveItsShare(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, OnUnavailable: dynalimit.Local, LocalShare: .25}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 400})
		admitted := int64(0)
		for range 3 {
			s.down(ddbmem.Fault{Drop: true})
			for range 200 {
				lease, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1})
				if err != nil {
					var denied *dynalimit.LimitExceededError
					require.ErrorAs(t, err, &denied)
					assert.Greater(t, denied.RetryAfter, time.Duration(0))
					status := denied.Primary()
					assert.True(t, status.Degraded)
					assert.Equal(t, int64(1000), status.Limit.Capacity)
					continue
				}
				admitted++
				assert.True(t, lease.Statuses()[0].Degraded)
			}
			s.recovers()
			elapse(time.Second)
		}
		assert.LessOrEqual(t, admitted, int64(150), "a quarter of the 600 that were left")
		assert.GreaterOrEqual(t, admitted, int64(149))
		charged, doubt := s.consumed(1, "rpm"), s.limiter.Health().Doubt["rpm"]
		assert.LessOrEqual(t, charged, int64(400)+admitted)
		assert.GreaterOrEqual(t, charged+doubt, int64(400)+admitted)
		assert.LessOrEqual(t, doubt, int64(3*3), "the tries of one write were under way when each outage began")
	})
}

// What a call turns out to use moves the share that admitted it.
func TestLocalShareFollowsCorrections(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, OnUnavailable: dynalimit.Local, LocalShare: .1}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Refuse))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable) // and now it is known to be silent
		less, more := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 60}), s.acquire(userOf(0), dynalimit.Amounts{"rpm": 30})
		s.deny(userOf(0), dynalimit.Amounts{"rpm": 50})
		require.NoError(t, less.Settle(t.Context(), dynalimit.Amounts{"rpm": 10}))
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 50})
		require.NoError(t, more.Rollback(t.Context()))
		more = s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		require.NoError(t, more.Adjust(t.Context(), dynalimit.Amounts{"rpm": 35}))
		s.deny(userOf(0), dynalimit.Amounts{"rpm": 10})
		s.recovers()
	})
}

// A lease of a limiter that was closed corrects nothing, nor the share that the next limiter
// on the repository goes on with.
func TestShareOutlivesALimiterThatIsClosed(t *testing.T) {
	options := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Local, LocalShare: 1}
	virtual(t, options, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 60})
		next, err := openLimiter(s.repo, options)
		require.NoError(t, err)
		_ = s.limiter.Close(t.Context())
		for range 3 {
			require.ErrorIs(t, lease.Rollback(t.Context()), dynalimit.ErrClosed)
		}
		s.limiter = next
		s.deny(userOf(0), dynalimit.Amounts{"rpm": 60})
		s.recovers()
	})
}

// A small share has room for one call, up to the whole burst, and never for more.
func TestLocalShareHasRoomForOneCall(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Local, LocalShare: .001}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		require.ErrorIs(t, s.deny(userOf(0), dynalimit.Amounts{"rpm": 101}), dynalimit.ErrExceedsBurst)
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 5})
		assert.NotErrorIs(t, s.deny(userOf(0), dynalimit.Amounts{"rpm": 5}), dynalimit.ErrExceedsBurst)
		s.recovers()
	})
}

// While there is no room for the queues of another bucket, its calls fail as under Refuse.
func TestLocalWithoutRoomBlocks(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Local}, func(t *testing.T, s *process) {
		p := s.on(s.repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Local})
		p.limiter.lanes.Queues = backlog.NewQueues(1)
		p.isCutOff(t)
		p.acquire(userOf(0), dynalimit.Amounts{"rpm": 10})
		_, err := p.limiter.Acquire(t.Context(), userOf(1), model, dynalimit.Amounts{"rpm": 10})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		p.recovers()
	})
}

// A Wait that the process's share denies sleeps until its queue has room, or until the bucket
// answers again.
func TestWaitUnderLocalSleepsForItsQueue(t *testing.T) {
	for name, back := range map[string]bool{"the queue": false, "the bucket": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var looks atomic.Int64
				clock := func() time.Time {
					if looks.Add(1) > 5000 {
						panic("a Wait spins")
					}
					return time.Now()
				}
				s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}, OnUnavailable: dynalimit.Local, Now: clock})
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				s.isCutOff(t)
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 99})
				began := time.Now()
				if back {
					time.AfterFunc(2*time.Second, func() { s.db.SetFaults(nil) })
				}
				lease, err := s.limiter.Wait(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 50})
				require.NoError(t, err)
				assert.Equal(t, !back, lease.Degraded())
				if back {
					assert.Less(t, time.Since(began), 15*time.Second, "the probe's schedule")
				} else {
					assert.InDelta(t, 30, time.Since(began).Seconds(), 1)
				}
				assert.Less(t, looks.Load(), int64(200))
				s.recovers()
			})
		})
	}
}

// A closed limiter is freed with all that it knows, also if its observer knows an open lease.
func TestClosedLimiterIsFreed(t *testing.T) {
	type service struct{ leases []*dynalimit.Lease }
	closed := func() weak.Pointer[service] {
		of, db := new(service), ddbmem.New()
		defer db.Close()
		repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
		require.NoError(t, err)
		require.NoError(t, repo.CreateTable(t.Context()))
		l, err := dynalimit.New(repo, &dynalimit.Options{Observer: observe.Observer{Dropped: func(observe.Drop) { of.leases = nil }}})
		require.NoError(t, err)
		lease, err := l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"rpd": 1}, dynalimit.WithLimits(dynalimit.DailyQuota("rpd", 10, "UTC")))
		require.NoError(t, err)
		of.leases = append(of.leases, lease)
		require.NoError(t, l.Close(t.Context()))
		return weak.Make(of)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return closed.Value() == nil
	}, time.Minute, time.Millisecond)
}
