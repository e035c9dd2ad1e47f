package dynalimit

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// silences are the ways in which a store can fail to answer.
var silences = map[string]func(*ddbmem.Request) ddbmem.Fault{
	"hang":  func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} },
	"reset": func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} },
	"5xx": func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}}
	},
	"only writes": func(r *ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Drop: r.Operation != "GetItem" && r.Operation != "BatchGetItem"}
	},
}

// outcomesOf is what came of calls made together: how long each took, its lease
// and error.
type outcomesOf struct {
	mu     sync.Mutex
	took   []time.Duration
	leases []*Lease
	errs   []error
}

// together makes n calls at once, each for one of some users.
func (s *process) together(n, users int, a Amounts, opts ...AcquireOption) *outcomesOf {
	out := &outcomesOf{}
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			began := time.Now()
			lease, err := s.limiter.Acquire(s.t.Context(), userOf(i%users), model, a, opts...)
			out.mu.Lock()
			defer out.mu.Unlock()
			out.took = append(out.took, time.Since(began))
			if err != nil {
				out.errs = append(out.errs, err)
			} else {
				out.leases = append(out.leases, lease)
			}
		})
	}
	group.Wait()
	return out
}

func userOf(i int) string { return "user-" + string(rune('a'+i)) }

// consumed is what the users' buckets were charged of a limit, in whole tokens.
func (s *process) consumed(users int, limit string) (sum int64) {
	for i := range users {
		sum += s.stored(userOf(i), limit).Consumed / milli
	}
	return sum
}

// While nothing answers, the first callers wait for one request, and nobody after
// them for any; what was used is charged afterwards, but for what was in flight.
func TestOutageAdmitsAtOnceAndChargesAfterwards(t *testing.T) {
	for name, silent := range silences {
		for _, policy := range []UnavailablePolicy{Allow, Local} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				const users = 4
				virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100_000)}, OnUnavailable: policy}, func(t *testing.T, s *process) {
					for i := range users {
						s.acquire(userOf(i), Amounts{"rpm": 1})
					}
					s.db.SetFaults(silent)
					first := s.together(256, users, Amounts{"rpm": 1})
					require.Empty(t, first.errs)
					assert.LessOrEqual(t, slices.Max(first.took), 1200*time.Millisecond)
					used := int64(users + 256)
					var settled []*Lease
					for range 20 {
						later := s.together(256, users, Amounts{"rpm": 3})
						require.Empty(t, later.errs)
						assert.Zero(t, slices.Max(later.took), "nobody waits for a store that does not answer")
						for _, lease := range later.leases {
							assert.True(t, lease.Degraded())
							require.NoError(t, lease.Settle(t.Context(), Amounts{"rpm": 2}))
							used += 2
						}
						settled = append(settled, later.leases...)
						elapse(time.Second)
					}
					h := s.limiter.Health()
					assert.True(t, h.Open)
					assert.True(t, h.Ready)
					require.Error(t, h.Cause)
					assert.Equal(t, users, h.OwedBuckets)
					s.recovers()
					charged, doubt := s.consumed(users, "rpm"), s.limiter.Health().Doubt["rpm"]
					assert.LessOrEqual(t, charged, used)
					assert.LessOrEqual(t, used-doubt, charged)
					assert.LessOrEqual(t, doubt, int64(256), "what was in flight")
					assert.Empty(t, s.limiter.Health().Dropped)
					for _, lease := range settled {
						assert.False(t, lease.Degraded())
					}
					require.Empty(t, s.together(8, users, Amounts{"rpm": 1}).errs)
				})
			})
		}
	}
}

// Under Block calls fail at once and say when the store is asked again.
func TestOutageBlocksAtOnce(t *testing.T) {
	for name, silent := range silences {
		t.Run(name, func(t *testing.T) {
			virtual(t, perMinute(), func(t *testing.T, s *process) {
				s.acquire(userOf(0), Amounts{"rpm": 1})
				s.db.SetFaults(silent)
				first := s.together(64, 1, Amounts{"rpm": 1})
				require.Len(t, first.errs, 64)
				assert.LessOrEqual(t, slices.Max(first.took), 1200*time.Millisecond)
				for range 5 {
					later := s.together(64, 1, Amounts{"rpm": 1})
					require.Len(t, later.errs, 64)
					assert.Zero(t, slices.Max(later.took))
					for _, err := range later.errs {
						require.ErrorIs(t, err, ErrUnavailable)
						wait, ok := RetryAfter(err)
						require.True(t, ok)
						assert.Greater(t, wait, time.Duration(0))
						assert.LessOrEqual(t, wait, 10*time.Second)
					}
					elapse(time.Second)
				}
				assert.False(t, s.limiter.Health().Ready)
				s.recovers()
				assert.True(t, s.limiter.Health().Ready)
				s.acquire(userOf(0), Amounts{"rpm": 1})
				elapse(time.Second)
				assert.LessOrEqual(t, s.consumed(1, "rpm"), int64(3), "nothing is kept for calls that failed, but for what is in doubt")
			})
		})
	}
}

// The process's share is the limit while the bucket does not answer, and an
// outage that comes and goes does not fill it again.
func TestLocalNeverAdmitsAboveItsShare(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 1000)}, OnUnavailable: Local, LocalShare: .25}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 400})
		admitted := int64(0)
		for range 3 {
			s.down(ddbmem.Fault{Drop: true})
			for range 200 {
				lease, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1})
				if err != nil {
					var denied *LimitExceededError
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
		assert.LessOrEqual(t, doubt, int64(3), "one write was under way when each outage began")
	})
}

// What a call turns out to use moves the share that admitted it.
func TestLocalShareFollowsCorrections(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 1000)}, OnUnavailable: Local, LocalShare: .1}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable) // and now it is known to be silent
		less, more := s.acquire(userOf(0), Amounts{"rpm": 60}), s.acquire(userOf(0), Amounts{"rpm": 30})
		s.deny(userOf(0), Amounts{"rpm": 50})
		require.NoError(t, less.Settle(t.Context(), Amounts{"rpm": 10}))
		s.acquire(userOf(0), Amounts{"rpm": 50})
		require.NoError(t, more.Rollback(t.Context()))
		more = s.acquire(userOf(0), Amounts{"rpm": 1})
		require.NoError(t, more.Adjust(t.Context(), Amounts{"rpm": 35}))
		s.deny(userOf(0), Amounts{"rpm": 10})
		s.recovers()
	})
}

// A small share has room for one call.
func TestLocalShareHasRoomForOneCall(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Local, LocalShare: .001}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), Amounts{"rpm": 5})
		s.deny(userOf(0), Amounts{"rpm": 5})
		s.recovers()
	})
}

// With nothing known, Local has only the limiter's own limits.
func TestLocalWithNothingKnown(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 2)}, OnUnavailable: Local}, func(t *testing.T, s *process) {
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), Amounts{"rpm": 2})
		s.deny(userOf(0), Amounts{"rpm": 1})
		s.recovers()
		assert.Equal(t, int64(2), s.consumed(1, "rpm"))
	})
	virtual(t, &Options{OnUnavailable: Local}, func(t *testing.T, s *process) {
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 2})
		require.ErrorIs(t, err, ErrUnavailable)
		s.recovers()
	})
}

// A caller's own deadline leaves the policy time to decide, but only after a
// silence: a short deadline on a store that answers is no way around a limit.
func TestDeadlineOfACallerDuringAnOutage(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		within := func(d time.Duration) (time.Duration, *Lease, error) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			began := time.Now()
			lease, err := s.limiter.Acquire(ctx, userOf(0), model, Amounts{"rpm": 1})
			return time.Since(began), lease, err
		}
		s.down(ddbmem.Fault{Before: time.Hour})
		took, lease, err := within(500 * time.Millisecond)
		require.NoError(t, err)
		assert.True(t, lease.Degraded())
		assert.Equal(t, 450*time.Millisecond, took, "a tenth is kept for the policy")
		elapse(3 * time.Second)
		took, _, err = within(5 * time.Second)
		require.NoError(t, err)
		assert.Zero(t, took, "by now it is known")
		s.recovers()

		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 20 * time.Millisecond} })
		_, _, err = within(5 * time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, s.limiter.Health().Open)
		assert.Zero(t, s.limiter.Health().SilentBuckets)
		s.recovers()
	})
}

// What answers, lives: nothing opens for want of capacity.
func TestThrottlingIsNoOutage(t *testing.T) {
	for name, match := range map[string]string{"one key": "user-a", "the table": ""} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &Options{Limits: []Limit{PerDay("rpm", 10)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
				s.acquire(userOf(0), Amounts{"rpm": 4})
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					if bytes.Contains(r.Body, []byte(match)) {
						return throttled1
					}
					return ddbmem.Fault{}
				})
				admitted := int64(0)
				for range 12 {
					began := time.Now()
					_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1})
					assert.LessOrEqual(t, time.Since(began), 2200*time.Millisecond, "Options.Timeout")
					if err == nil {
						admitted++
					} else {
						require.ErrorIs(t, err, ErrLimitExceeded)
					}
				}
				assert.Equal(t, int64(6), admitted, "Allow does not admit above the limit where the store answers")
				assert.False(t, s.limiter.Health().Open)
				assert.Zero(t, s.limiter.Health().SilentBuckets)
				s.recovers()
				assert.Equal(t, int64(10), s.consumed(1, "rpm"))
			})
		})
	}
}

// One sick partition opens its bucket, not the table.
func TestSickPartitionOpensItsBucketAlone(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 1000)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		for i := range 2 {
			s.acquire(userOf(i), Amounts{"rpm": 1})
		}
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if bytes.Contains(r.Body, []byte("user-a")) {
				return ddbmem.Fault{Before: time.Hour}
			}
			return ddbmem.Fault{}
		})
		well := make(chan int)
		stop := make(chan struct{})
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					well <- n
					return
				case <-time.After(100 * time.Millisecond):
					lease, err := s.limiter.Acquire(t.Context(), userOf(1), model, Amounts{"rpm": 1})
					assert.NoError(t, err)
					assert.False(t, lease.Degraded())
					n++
				}
			}
		}()
		elapse(150 * time.Millisecond)
		sick := s.together(16, 1, Amounts{"rpm": 1})
		require.Empty(t, sick.errs)
		assert.LessOrEqual(t, slices.Max(sick.took), 1200*time.Millisecond)
		elapse(time.Second)
		assert.False(t, s.limiter.Health().Open)
		assert.Equal(t, 1, s.limiter.Health().SilentBuckets)
		close(stop)
		assert.Greater(t, <-well, 10)
		s.recovers()
		charged, doubt := s.consumed(1, "rpm"), s.limiter.Health().Doubt["rpm"]
		assert.LessOrEqual(t, charged, int64(17))
		assert.GreaterOrEqual(t, charged+doubt, int64(17))
	})
}

// Configuration serves past its TTL while the table does not answer, and not for
// ever.
func TestConfigurationOutlastsAnOutage(t *testing.T) {
	virtual(t, &Options{OnUnavailable: Allow}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetSystemLimits(t.Context(), []Limit{PerDay("rpm", 10)}, &SystemOptions{OnUnavailable: Local}))
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		s.clock.advance(30 * time.Minute)
		s.acquire(userOf(0), Amounts{"rpm": 9})
		s.deny(userOf(0), Amounts{"rpm": 1})
		s.clock.advance(40 * time.Minute)
		lease := s.acquire(userOf(0), Amounts{"rpm": 1})
		assert.Empty(t, lease.Statuses(), "nothing is known any more, and Allow is what the limiter says")
		s.recovers()
	})
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

type otherProcess struct{}

// After Close nothing is kept: what cannot be written is an error.
func TestNothingIsKeptAfterClose(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 10})
		s.down(ddbmem.Fault{Drop: true})
		owed := s.acquire(userOf(0), Amounts{"rpm": 10})
		require.NoError(t, owed.Settle(t.Context(), nil))
		require.NoError(t, s.limiter.Close(t.Context()))
		err := lease.Settle(t.Context(), Amounts{"rpm": 20})
		require.ErrorIs(t, err, ErrUnconfirmed)
		s.db.SetFaults(nil)
	})
}

// After Close a correction that cannot even be sent ends: nothing probes any more.
func TestCorrectionAfterCloseThatCannotBeSentEnds(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
		f := &fault{unsent: true, match: only("UpdateItem")}
		cut := s.faulty(&Options{Limits: []Limit{PerDay("rpm", 100)}}, f)
		lease := cut.acquire(userOf(0), Amounts{"rpm": 10})
		require.NoError(t, cut.limiter.Close(t.Context()))
		f.times(-1)
		err := lease.Settle(t.Context(), Amounts{"rpm": 20})
		var unconfirmed *UnconfirmedError
		require.ErrorAs(t, err, &unconfirmed)
		assert.True(t, unconfirmed.NotWritten)
		assert.LessOrEqual(t, f.count(), lane.MaxTries)
		f.times(0)
		require.NoError(t, lease.Settle(t.Context(), Amounts{"rpm": 20}))
		assert.Equal(t, int64(20), s.consumed(1, "rpm"))
	})
}
