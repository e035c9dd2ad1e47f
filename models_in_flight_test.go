package dynalimit_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
)

// inflight is a call in flight.
var inflight = dynalimit.Amounts{"inflight": 1}

// withSlots runs a test with a process on a new table that has one limit, in virtual time.
func withSlots(t *testing.T, limit dynalimit.Limit, test func(t *testing.T, s *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{limit, dynalimit.PerMinute("rpm", 1000)}))
		test(t, s)
	})
}

// slots are the free slots of the entity u, and those of each epoch, whole.
func (s *process) slots() (free int64, epochs []int64) {
	s.t.Helper()
	image := s.image("u")
	i := image.Set.Index("inflight")
	require.GreaterOrEqual(s.t, i, 0)
	sum := image.Limits[i].Tokens
	for _, e := range image.Epochs(i) {
		sum += e.Slots
		epochs = append(epochs, e.Slots/1000)
	}
	require.Equal(s.t, image.Limits[i].Burst, sum, "no slot is lost or made: %+v", image.Epochs(i))
	return image.Limits[i].Tokens / 1000, epochs
}

func TestCallsInFlightAreLimited(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 2, time.Minute), func(t *testing.T, s *process) {
		first, second := s.acquire("u", inflight), s.peer(nil).acquire("u", inflight)
		assert.Equal(t, dynalimit.Amounts{"inflight": 1}, s.limiter.Health().InFlight)
		denied := s.deny("u", inflight)
		assert.Equal(t, time.Second, denied.RetryAfter)
		status := denied.Primary()
		assert.Equal(t, int64(2), status.InFlight)
		assert.True(t, status.Estimated)
		assert.Equal(t, dynalimit.Concurrent("inflight", 2, time.Minute), status.Limit)
		require.NoError(t, first.Rollback(t.Context()))
		third := s.acquire("u", inflight)
		require.NoError(t, second.Settle(t.Context(), dynalimit.Amounts{"inflight": 1}), "whatever it names")
		require.NoError(t, third.Settle(t.Context(), nil))
		assert.Empty(t, s.limiter.Health().InFlight)
		free, _ := s.slots()
		assert.Equal(t, int64(2), free)
		require.NoError(t, s.limiter.Do(t.Context(), "u", model, inflight, func(context.Context, *dynalimit.Lease) error { return nil }))
		free, _ = s.slots()
		assert.Equal(t, int64(2), free)
	})
}

func TestLongCallKeepsItsSlot(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 1, time.Minute), func(t *testing.T, s *process) {
		lease, other := s.acquire("u", inflight), s.peer(nil)
		for range 600 {
			elapse(time.Second)
			other.deny("u", inflight)
		}
		require.NoError(t, lease.Settle(t.Context(), nil))
		elapse(51 * time.Millisecond) // the memory of a denial
		other.acquire("u", inflight)
	})
}

// callsSeen counts the calls whose hold has not run out, as their processes know it.
type callsSeen struct {
	sync.Mutex
	calls map[*dynalimit.Lease]time.Time // the end of the hold of a dead process's call, zero for an open one
	most  int
}

func (c *callsSeen) change(lease *dynalimit.Lease, until time.Time) {
	c.Lock()
	defer c.Unlock()
	if c.calls[lease] = until; until.IsZero() {
		live := 0
		for _, end := range c.calls {
			if end.IsZero() || end.After(time.Now()) {
				live++
			}
		}
		c.most = max(c.most, live)
	}
}

// 40 processes share 20 slots. Some are killed with calls in flight, and some answers are lost: never more than
// 20 calls are in flight whose hold has not run out, and every slot is free 75 seconds after the last call.
func TestSlotsOfKilledProcesses(t *testing.T) {
	const hold, n = time.Minute, 20
	withSlots(t, dynalimit.Concurrent("inflight", n, hold), func(t *testing.T, s *process) {
		seen := callsSeen{calls: map[*dynalimit.Lease]time.Time{}}
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		chance := func() float64 { mu.Lock(); defer mu.Unlock(); return random.Float64() }
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Lose: r.Operation == "UpdateItem" && chance() < .03, Before: time.Duration(chance() * float64(5*time.Millisecond))}
		})
		var calls sync.WaitGroup
		for range 40 {
			wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
			p := s.faulty(nil, wire)
			calls.Go(func() {
				for began := time.Now(); time.Since(began) < 10*time.Minute; {
					until := time.Now().Add(hold) // an answer that is lost comes long after its take
					lease, err := p.limiter.Acquire(t.Context(), "u", model, inflight)
					if err != nil {
						elapse(time.Duration(100+1000*chance()) * time.Millisecond)
						continue
					}
					seen.change(lease, time.Time{})
					long := time.Duration(chance() * chance() * float64(2*time.Minute))
					if chance() < .03 {
						elapse(min(long, hold/4)) // its slot was not renewed yet
						wire.times(-1)
						seen.change(lease, until)
						return
					}
					elapse(long)
					seen.change(lease, time.Now())
					_ = lease.Settle(t.Context(), nil)
				}
			})
		}
		calls.Wait()
		t.Log("most in flight:", seen.most)
		assert.LessOrEqual(t, seen.most, n)
		assert.Greater(t, seen.most, n/2)
		s.db.SetFaults(nil)
		elapse(75*time.Second + time.Millisecond)
		var leases []*dynalimit.Lease
		for range n {
			leases = append(leases, s.acquire("u", inflight))
		}
		free, epochs := s.slots()
		assert.Zero(t, free)
		assert.Len(t, epochs, 1)
		for _, lease := range leases {
			require.NoError(t, lease.Rollback(t.Context()))
		}
	})
}

// After an outage longer than a hold, the open calls are counted again before anybody is admitted.
func TestOutageBeyondAHold(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 2, time.Minute), func(t *testing.T, s *process) {
		wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
		away, other := s.faulty(nil, wire), s.peer(nil)
		first, second := away.acquire("u", inflight), away.acquire("u", inflight)
		wire.times(-1)
		elapse(3 * time.Minute)
		lease := other.acquire("u", inflight) // their holds have run out
		wire.times(0)
		elapse(15 * time.Second)
		free, _ := s.slots()
		assert.Equal(t, int64(-1), free, "three calls are open")
		other.deny("u", inflight)
		require.NoError(t, first.Settle(t.Context(), nil))
		other.deny("u", inflight)
		require.NoError(t, lease.Settle(t.Context(), nil))
		elapse(51 * time.Millisecond)
		other.acquire("u", inflight)
		require.NoError(t, second.Settle(t.Context(), nil))
	})
}

// silentWire sends requests that nobody answers while it is silent.
type silentWire struct {
	next   aws.HTTPClient
	silent atomic.Bool
}

// Do implements aws.HTTPClient.
func (w *silentWire) Do(request *http.Request) (*http.Response, error) {
	if !w.silent.Load() {
		return w.next.Do(request)
	}
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// An outage of up to half a hold costs no slot, whenever it begins, and also if the traffic of another bucket notices
// it first.
func TestOutageOfHalfAHold(t *testing.T) {
	const hold = 30 * time.Second
	for begin := 11 * time.Second; begin <= 16*time.Second; begin += time.Second / 4 { // the slot is renewed after 15 s
		for _, lasts := range []time.Duration{hold / 3, hold / 2} {
			for _, traffic := range []bool{false, true} {
				withSlots(t, dynalimit.Concurrent("inflight", 1, hold), func(t *testing.T, s *process) {
					wire := &silentWire{next: s.client().Options().HTTPClient}
					p, other := s.wired(nil, wire), s.peer(nil)
					lease := p.acquire("u", inflight)
					for now := time.Duration(0); now < 2*hold; now += time.Second / 4 {
						wire.silent.Store(now >= begin && now < begin+lasts)
						elapse(time.Second / 4)
						if traffic && now%(3*time.Second) == 0 {
							go func() { _, _ = p.limiter.Acquire(t.Context(), "v", model, dynalimit.Amounts{"rpm": 1}) }()
						}
						_, err := other.limiter.Acquire(t.Context(), "u", model, inflight)
						require.ErrorIs(t, err, dynalimit.ErrLimitExceeded, "%v after the begin of an outage at %v for %v", now-begin, begin, lasts)
					}
					require.NoError(t, lease.Settle(t.Context(), nil))
					free, _ := s.slots()
					assert.Equal(t, int64(1), free)
				})
			}
		}
	}
}

// A renewal that fails is tried again each second, and no more often.
func TestFailedRenewalIsTriedEachSecond(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 1, 30*time.Second), func(t *testing.T, s *process) {
		wire := &brokenWire{refuse: "AccessDeniedException", match: func(operation string, _ []byte) bool { return operation == "UpdateItem" }}
		p := s.faulty(nil, wire)
		lease := p.acquire("u", inflight)
		wire.times(10)
		elapse(29 * time.Second)
		assert.Equal(t, 10, wire.count())
		s.deny("u", inflight)
		wire.times(-1)
		elapse(26 * time.Second)
		assert.InDelta(t, 14, wire.count(), 1)
		wire.times(0)
		require.NoError(t, lease.Settle(t.Context(), nil))
	})
}

// A policy admits calls while the bucket does not answer: they are in flight as soon as it does.
func TestAdmittedCallsAreInFlight(t *testing.T) {
	for policy, admitted := range map[dynalimit.UnavailablePolicy]int{dynalimit.Allow: 5, dynalimit.Local: 2, dynalimit.Refuse: 0} {
		withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
			wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
			p := s.faulty(&dynalimit.Options{OnUnavailable: policy, LocalShare: .5}, wire)
			require.NoError(t, p.acquire("u", inflight).Settle(t.Context(), nil))
			wire.times(-1)
			var leases []*dynalimit.Lease
			for range 5 {
				if lease, err := p.limiter.Acquire(t.Context(), "u", model, inflight); err == nil {
					leases = append(leases, lease)
				}
			}
			require.Len(t, leases, admitted, policy)
			wire.times(0)
			elapse(15 * time.Second)
			free, _ := s.slots()
			assert.Equal(t, int64(4-admitted), free)
			for _, lease := range leases {
				require.NoError(t, lease.Settle(t.Context(), nil))
			}
			elapse(15 * time.Second)
			free, _ = s.slots()
			assert.Equal(t, int64(4), free)
		})
	}
}

// A call that a policy admitted ends before a later call: both give their slots back, even if the policy did not
// know the limits.
func TestAdmittedCallEndsBeforeALaterCall(t *testing.T) {
	for _, known := range []bool{true, false} {
		withSlots(t, dynalimit.Concurrent("inflight", 2, time.Minute), func(t *testing.T, s *process) {
			wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
			p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Allow}, wire)
			if known {
				require.NoError(t, p.acquire("u", inflight).Rollback(t.Context()))
			}
			wire.times(-1)
			admitted := p.acquire("u", inflight)
			wire.times(0)
			elapse(15 * time.Second)
			later := p.acquire("u", inflight)
			require.NoError(t, admitted.Settle(t.Context(), nil))
			require.NoError(t, later.Settle(t.Context(), nil))
			elapse(75*time.Second + time.Millisecond) // for the write without an answer
			require.NoError(t, p.acquire("u", inflight).Rollback(t.Context()))
			free, _ := s.slots()
			assert.Equal(t, int64(2), free, known)
		})
	}
}

// A share that has a slot but no room in another limit keeps no slot.
func TestShareWithoutRoomTakesNoSlot(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
		wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
		p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Local, LocalShare: .5}, wire)
		require.NoError(t, p.acquire("u", inflight).Settle(t.Context(), nil))
		wire.times(-1)
		p.acquire("u", dynalimit.Amounts{"rpm": 500})
		for range 3 {
			p.deny("u", dynalimit.Amounts{"inflight": 1, "rpm": 500})
		}
		lease := p.acquire("u", inflight)
		wire.times(0)
		elapse(15 * time.Second)
		free, _ := s.slots()
		assert.Equal(t, int64(3), free)
		require.NoError(t, lease.Settle(t.Context(), nil))
	})
}

// A changed number of slots stops no call, and a changed hold is that of later takes.
func TestNumberOfSlotsChanges(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 3, time.Minute), func(t *testing.T, s *process) {
		leases := []*dynalimit.Lease{s.acquire("u", inflight), s.acquire("u", inflight), s.acquire("u", inflight)}
		set := func(limit dynalimit.Limit) error {
			return s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{limit})
		}
		require.NoError(t, set(dynalimit.Concurrent("inflight", 1, 2*time.Minute)))
		assert.Equal(t, int64(3), s.deny("u", inflight).Primary().InFlight)
		free, _ := s.slots()
		assert.Equal(t, int64(-2), free)
		for _, lease := range leases {
			s.deny("u", inflight)
			require.NoError(t, lease.Rollback(t.Context()))
		}
		elapse(51 * time.Millisecond)
		s.acquire("u", inflight)
		require.NoError(t, set(dynalimit.Concurrent("inflight", 2, time.Minute)))
		elapse(51 * time.Millisecond)
		s.acquire("u", inflight)
		require.ErrorContains(t, set(dynalimit.PerMinute("inflight", 2)), "another kind")
	})
}

// Each level that has the limit holds a slot, all or nothing, in either mode.
func TestSlotsOfParents(t *testing.T) {
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		inFamily(t, func(t *testing.T, s *process) {
			require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.Concurrent("inflight", 2, time.Minute)}))
			p, other := s.peer(&dynalimit.Options{ChargeMode: mode}), s.peer(nil)
			first, second := p.acquire("key", inflight), other.acquire("org", inflight)
			p.deny("key", inflight)
			elapse(5 * time.Minute)
			p.deny("key", inflight)
			require.NoError(t, second.Settle(t.Context(), nil))
			elapse(51 * time.Millisecond)
			third := p.acquire("key", inflight)
			require.NoError(t, first.Settle(t.Context(), nil))
			require.NoError(t, third.Settle(t.Context(), nil))
			for _, entity := range []string{"key", "org"} {
				assert.Equal(t, int64(2000), s.stored(entity, "inflight").Tokens, entity)
			}
		})
	}
}

// A call shorter than half a hold costs the writes of its take and its end. The process renews the slots of all
// longer calls of a bucket together.
func TestRequestsOfCallsInFlight(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 20, time.Minute), func(t *testing.T, s *process) {
		require.NoError(t, s.acquire("u", dynalimit.Amounts{"inflight": 1, "rpm": 1}).Settle(t.Context(), nil))
		writes := 0
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "UpdateItem" { // configurations are read again meanwhile
				writes++
			}
			return ddbmem.Fault{}
		})
		for length, want := range map[time.Duration]int{29 * time.Second: 2 * 5, 10 * time.Minute: 2*5 + 19} {
			writes = 0
			var leases []*dynalimit.Lease
			for range 5 {
				leases = append(leases, s.acquire("u", dynalimit.Amounts{"inflight": 1, "rpm": 1}))
			}
			elapse(length)
			for _, lease := range leases {
				require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 1}))
			}
			assert.GreaterOrEqual(t, writes, want, length) // in ten minutes one renewal more, by the borders of the epochs
			assert.LessOrEqual(t, writes, want+int(length/(10*time.Minute)), length)
		}
		s.db.SetFaults(nil)
	})
}

// A lease that nobody ends keeps its slot for the longest time. Its late end gives nothing back.
func TestLeakedLease(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 1, time.Minute).WithLongest(10*time.Minute), func(t *testing.T, s *process) {
		var expired []observe.SlotsExpired
		s = s.peer(&dynalimit.Options{Observer: observe.Observer{SlotsExpired: func(e observe.SlotsExpired) { expired = append(expired, e) }}})
		leaked, other := s.acquire("u", inflight), s.peer(nil)
		elapse(10 * time.Minute)
		other.deny("u", inflight)
		elapse(77 * time.Second)
		synctest.Wait() // for the observer
		assert.Equal(t, []observe.SlotsExpired{{EntityID: "u", Resource: model, Limit: "inflight", Slots: 1}}, expired)
		lease := other.acquire("u", inflight)
		require.NoError(t, leaked.Settle(t.Context(), nil))
		s.deny("u", inflight)
		require.NoError(t, lease.Settle(t.Context(), nil))
	})
}

// The late end of a leaked lease leaves the slot of a later call.
func TestLeakedLeaseBesideALaterCall(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 1, time.Minute).WithLongest(10*time.Minute), func(t *testing.T, s *process) {
		leaked := s.acquire("u", inflight)
		elapse(10*time.Minute + 100*time.Second)
		later := s.acquire("u", inflight)
		require.NoError(t, leaked.Settle(t.Context(), nil))
		s.peer(nil).deny("u", inflight)
		require.NoError(t, later.Settle(t.Context(), nil))
		free, _ := s.slots()
		assert.Equal(t, int64(1), free)
	})
}

// A bucket that is gone is made again with the open calls.
func TestSlotsOfADeletedBucket(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 2, time.Minute), func(t *testing.T, s *process) {
		lease := s.acquire("u", inflight)
		s.delete("u")
		elapse(time.Minute)
		free, _ := s.slots()
		assert.Equal(t, int64(1), free)
		require.NoError(t, lease.Settle(t.Context(), nil))
		free, _ = s.slots()
		assert.Equal(t, int64(2), free)
	})
}

// A limit of calls in flight is ended by nothing but the end of the lease.
func TestSlotsAreNotAdjusted(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 2, time.Minute), func(t *testing.T, s *process) {
		lease := s.acquire("u", dynalimit.Amounts{"inflight": 1, "rpm": 10})
		require.ErrorContains(t, lease.Adjust(t.Context(), dynalimit.Amounts{"inflight": -1}), "end the lease")
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": -5}))
		require.NoError(t, lease.Consume(t.Context(), inflight))
		assert.Equal(t, dynalimit.Amounts{"inflight": 2, "rpm": 5}, lease.Used())
		s.deny("u", inflight)
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 3}))
		assert.Equal(t, dynalimit.Amounts{"inflight": 0, "rpm": 3}, lease.Used())
		free, _ := s.slots()
		assert.Equal(t, int64(2), free)
	})
}

// A waiter gets the slot of a call of its own process at once, and one of another process a little later.
func TestWaitForASlot(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 1, time.Minute), func(t *testing.T, s *process) {
		for _, p := range []*process{s, s.peer(nil)} {
			lease := p.acquire("u", inflight)
			time.AfterFunc(20*time.Second, func() { assert.NoError(t, lease.Settle(t.Context(), nil)) })
			began := time.Now()
			next, err := s.limiter.Wait(t.Context(), "u", model, inflight)
			require.NoError(t, err)
			assert.InDelta(t, 20, time.Since(began).Seconds(), 2)
			require.NoError(t, next.Settle(t.Context(), nil))
			elapse(51 * time.Millisecond)
		}
	})
}

// A lease was granted before its source got a limit of calls in flight. Its end takes no slot, whatever it names, and
// an adjustment may not name slots.
func TestSlotsOfALimitThatIsAddedLater(t *testing.T) {
	withSlots(t, dynalimit.MonthlyQuota("tpm", 1000, ""), func(t *testing.T, s *process) {
		lease, limits := s.acquire("u", dynalimit.Amounts{"tpm": 10}), []dynalimit.Limit{dynalimit.MonthlyQuota("tpm", 1000, ""), dynalimit.Concurrent("inflight", 1, 30*time.Second)}
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, limits))
		var invalid *dynalimit.ValidationError
		require.ErrorAs(t, lease.Adjust(t.Context(), inflight), &invalid)
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 5, "inflight": 1}))
		assert.Equal(t, dynalimit.Amounts{"tpm": 5, "inflight": 0}, lease.Used())
		assert.Empty(t, s.limiter.Health().InFlight)
		require.NoError(t, s.acquire("u", inflight).Rollback(t.Context()))
	})
}

// A lease that a policy admitted while no configuration could be read ends, though it names a limit that does not exist:
// that amount is dropped, its others are settled, and its slot comes back.
func TestLeaseOfUnreadLimitsEnds(t *testing.T) {
	for name, limit := range map[string]dynalimit.Limit{"tpm": dynalimit.MonthlyQuota("tpm", 1000, ""), "inflight": dynalimit.Concurrent("inflight", 1, 30*time.Second)} {
		withSlots(t, limit, func(t *testing.T, s *process) {
			s = s.peer(&dynalimit.Options{OnUnavailable: dynalimit.Allow})
			s.down(ddbmem.Fault{Before: time.Hour})
			lease := s.acquire("u", dynalimit.Amounts{name: 1, "misspelt": 1})
			another, unknown := s.acquire("u", dynalimit.Amounts{"rpm": 1}), s.acquire("u", dynalimit.Amounts{"old": 1})
			s.db.SetFaults(nil)
			s.recovers()
			elapse(time.Minute)
			require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{name: 1}))
			assert.NotContains(t, lease.Used(), "misspelt")
			assert.Equal(t, dynalimit.Amounts{"misspelt": 1, "old": 1}, s.limiter.Health().Dropped)
			require.NoError(t, unknown.Rollback(t.Context()))
			var invalid *dynalimit.ValidationError
			require.ErrorAs(t, another.Settle(t.Context(), dynalimit.Amounts{"misspelt": 2}), &invalid)
			require.NoError(t, another.Rollback(t.Context()))
			elapse(time.Minute)
			if name == "inflight" {
				require.NoError(t, s.acquire("u", inflight).Rollback(t.Context()))
			} else {
				assert.EqualValues(t, 1*milli, s.stored("u", name).Consumed)
			}
		})
	}
}

// A lease that a policy admitted without a configuration finds its buckets when it ends, before its source gets a limit
// of calls in flight. Its pending update finds them later, and counts no call as open.
func TestLeaseEndsBetweenTwoLookUpsOfItsBuckets(t *testing.T) {
	for _, opts := range [][]dynalimit.AcquireOption{nil, {dynalimit.WithIgnoreUnknown()}} {
		tpm := dynalimit.MonthlyQuota("tpm", 1000, "")
		withSlots(t, tpm, func(t *testing.T, s *process) {
			s = s.peer(&dynalimit.Options{OnUnavailable: dynalimit.Allow})
			s.down(ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}})
			lease, err := s.limiter.Acquire(t.Context(), "u", model, dynalimit.Amounts{"tpm": 10, "inflight": 1}, opts...)
			require.NoError(t, err)
			s.db.SetFaults(nil)
			for s.limiter.Health().Open {
				elapse(time.Millisecond)
			}
			require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 1}))
			require.Positive(t, s.limiter.Health().WaitingBuckets)
			require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{tpm, dynalimit.Concurrent("inflight", 1, 30*time.Second)}))
			s.recovers()
			require.NoError(t, lease.Rollback(t.Context()))
			elapse(10 * time.Minute)
			assert.Empty(t, s.limiter.Health().InFlight)
			require.NoError(t, s.acquire("u", inflight).Rollback(t.Context()))
		})
	}
}

// So does one that names a limit which a more specific source hides.
func TestLeaseOfAHiddenLimitEnds(t *testing.T) {
	slot := dynalimit.Concurrent("inflight", 1, 30*time.Second)
	withSlots(t, slot, func(t *testing.T, s *process) {
		tpm := dynalimit.MonthlyQuota("tpm", 1000, "")
		_, err := s.repo.SetConfig(t.Context(), admin.Scope{Entity: "u"}, admin.LimitConfig{Limits: []dynalimit.Limit{tpm, slot}, Only: true})
		require.NoError(t, err)
		s = s.peer(&dynalimit.Options{OnUnavailable: dynalimit.Allow})
		s.down(ddbmem.Fault{Before: time.Hour})
		lease := s.acquire("u", dynalimit.Amounts{"tpm": 10, "rpm": 1, "inflight": 1})
		s.recovers()
		elapse(10 * time.Second)
		require.NoError(t, lease.Rollback(t.Context()))
		elapse(time.Minute)
		assert.Zero(t, s.stored("u", "tpm").Consumed)
		require.NoError(t, s.acquire("u", inflight).Rollback(t.Context()))
	})
}
