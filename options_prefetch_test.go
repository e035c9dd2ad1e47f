package dynalimit_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
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

// prefetching are processes on one bucket in virtual time, 2.5 ms each way, that
// debit ahead.
func prefetching(t *testing.T, processes int, opts *dynalimit.Options) []*process {
	t.Helper()
	e := memEngine(t)
	first := liveProcess(t, e, opts)
	all := []*process{first}
	for range processes - 1 {
		all = append(all, first.peer(opts))
	}
	e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Before: 2500 * time.Microsecond, After: 2500 * time.Microsecond}
	})
	return all
}

// stream is the traffic of one process on the bucket "shared": single calls, evenly,
// for a time. It notes when they were admitted.
type stream struct {
	mu       sync.Mutex
	admitted []time.Time
	denied   int
}

func (st *stream) run(t *testing.T, s *process, every, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		_, err := s.limiter.Acquire(t.Context(), "shared", model, dynalimit.Amounts{"rpm": 1})
		st.mu.Lock()
		if err == nil {
			st.admitted = append(st.admitted, time.Now())
		} else {
			assert.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
			st.denied++
		}
		st.mu.Unlock()
		elapse(every/2 + rand.N(every))
	}
}

// stop closes the processes, so that what they held lapses.
func stop(t *testing.T, all []*process) {
	t.Helper()
	for _, s := range all {
		require.NoError(t, s.limiter.Close(context.WithoutCancel(t.Context())))
	}
	synctest.Wait()
}

// What processes admit of a bucket exceeds its burst by what it refills in the horizon
// and a round trip, at most, over every stretch of time.
func TestPrefetchExceedsTheBurstByRefillTimesHorizon(t *testing.T) {
	const horizon, processes, burst, perSecond = 500 * time.Millisecond, 6, 100, 100
	synctest.Test(t, func(t *testing.T) {
		all := prefetching(t, processes, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", perSecond)}, Prefetch: horizon})
		st := &stream{}
		for _, phase := range []struct{ every, lasts time.Duration }{
			{100 * time.Millisecond, 5 * time.Second},  // 60 calls a second: some are served from memory
			{20 * time.Millisecond, 3 * time.Second},   // 300: scarce
			{150 * time.Millisecond, 4 * time.Second},  // 40: full again
			{1000 * time.Millisecond, 3 * time.Second}, // what is held lapses
		} {
			var running sync.WaitGroup
			for _, s := range all {
				running.Go(func() { st.run(t, s, phase.every, phase.lasts) })
			}
			running.Wait()
		}
		stop(t, all)
		assert.Positive(t, st.denied)
		assert.EqualValues(t, len(st.admitted), all[0].stored("shared", "rpm").Consumed/milli)

		queue, last := 0.0, st.admitted[0]
		allowed := burst + perSecond*(horizon+10*time.Millisecond).Seconds()
		for _, at := range st.admitted {
			queue = max(0, queue-at.Sub(last).Seconds()*perSecond) + 1
			last = at
			require.LessOrEqual(t, queue, allowed)
		}
	})
}

// What is held lapses when calls stop, and is taken off the counter by a write of its
// own if no other comes; a bucket is not given back what was debited. So it is of a bucket without
// an incarnation, as another implementation makes it.
func TestUnusedTokensLapse(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			all := prefetching(t, 1, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100_000)}, Prefetch: time.Second})
			s, st := all[0], &stream{}
			if foreign {
				require.NoError(t, s.acquire("shared", dynalimit.Amounts{"rpm": 1}).Rollback(t.Context()))
				item := s.item("shared")
				delete(item, "ci")
				put(t, s.repo, item)
			}
			st.run(t, s, 10*time.Millisecond, 3*time.Second)
			require.Equal(t, foreign, s.image("shared").IncarnationID() == nil)
			held := s.stored("shared", "rpm").Consumed/milli - int64(len(st.admitted))
			require.Positive(t, held, "something is held")
			level := s.level("shared", "rpm")
			elapse(2500 * time.Millisecond)
			assert.EqualValues(t, len(st.admitted), s.stored("shared", "rpm").Consumed/milli)
			assert.InDelta(t, level, s.level("shared", "rpm"), 5, "a day's refill of some seconds, no more")
			before := s.db.Meter()
			elapse(10 * time.Second)
			assert.Zero(t, s.db.Meter().Sub(before).Requests(), "and then nothing is written any more")
		})
	}
}

// A changed limit is in force at once where a lane learns of it: what was debited
// under the other lapses.
func TestChangedLimitLetsWhatIsHeldLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := prefetching(t, 1, &dynalimit.Options{Prefetch: time.Second})[0]
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "shared", Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}))
		st := &stream{}
		st.run(t, s, 10*time.Millisecond, 3*time.Second)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "shared", Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 2)}))
		admitted := len(st.admitted)
		st.run(t, s, 10*time.Millisecond, time.Second)
		assert.LessOrEqual(t, len(st.admitted)-admitted, 5)
		stop(t, []*process{s})
		assert.EqualValues(t, len(st.admitted), s.stored("shared", "rpm").Consumed/milli)
	})
}

// Waiters are served first: while somebody stands in line, a call is denied although
// the lane holds tokens that were debited ahead.
func TestNobodyOvertakesALineFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := prefetching(t, 1, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 100)}, Prefetch: time.Second})[0]
		st := &stream{}
		st.run(t, s, 20*time.Millisecond, 3*time.Second)
		s.acquire("shared", dynalimit.Amounts{"rpm": 40})                                        // a full bucket would serve the waiter at once
		for s.used(func() { s.acquire("shared", dynalimit.Amounts{"rpm": 1}) }).Requests() > 0 { // until one is from memory
			elapse(time.Millisecond)
		}
		served := make(chan error, 1)
		go func() {
			_, err := s.limiter.Wait(t.Context(), "shared", model, dynalimit.Amounts{"rpm": 100})
			served <- err
		}()
		elapse(50 * time.Millisecond)
		s.deny("shared", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, <-served)
	})
}

// A resource may have a horizon of its own.
func TestPrefetchOfOneResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := prefetching(t, 1, &dynalimit.Options{
			Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}, Prefetch: time.Second, PrefetchResources: map[string]time.Duration{model: 0},
		})[0]
		st := &stream{}
		st.run(t, s, 10*time.Millisecond, 2*time.Second)
		assert.EqualValues(t, len(st.admitted), s.stored("shared", "rpm").Consumed/milli, "nothing is debited ahead")
	})
}

// perThousand is a limit of which a test of some seconds takes little.
func perThousand() *dynalimit.Options {
	return &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}, Prefetch: time.Second}
}

// counts asserts that the counters of entities stand at what was admitted.
func (st *stream) counts(t *testing.T, s *process, entities ...string) {
	t.Helper()
	for _, entity := range entities {
		assert.EqualValues(t, len(st.admitted), s.stored(entity, "rpm").Consumed/milli, entity)
	}
}

// What a level serves from memory while the table does not answer is not counted there
// too: the policy decides at the other level alone.
func TestServedLevelIsNotCountedBeside(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Allow, dynalimit.Local} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := prefetching(t, 1, &dynalimit.Options{Prefetch: 10 * time.Second, OnUnavailable: policy})[0]
				require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "shared", Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}))
				require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "org", Resource: model}, []dynalimit.Limit{dynalimit.PerDay("rpm", 10_000)}))
				s.family("shared", "org")
				s.acquire("org", dynalimit.Amounts{"rpm": 6000}) // less than half is left: nothing is debited ahead
				st := &stream{}
				st.run(t, s, 10*time.Millisecond, 3*time.Second)
				s.down(ddbmem.Fault{Drop: true})
				s.acquire("shared", dynalimit.Amounts{"rpm": 1}) // opens the table
				lease := s.acquire("shared", dynalimit.Amounts{"rpm": 1})
				require.True(t, s.limiter.Health().Open)
				assert.EqualValues(t, 1, lease.Statuses()[0].Requested)
				s.recovers()
				stop(t, []*process{s})
				st.admitted = append(st.admitted, time.Now(), time.Now())
				assert.InDelta(t, len(st.admitted), s.stored("shared", "rpm").Consumed/milli, 0)
				assert.InDelta(t, 6000+len(st.admitted), s.stored("org", "rpm").Consumed/milli, float64(s.limiter.Health().Doubt["rpm"]))
			})
		})
	}
}

// Calls that a parent denies debit nothing ahead of their own bucket, where it would
// lapse.
func TestDeniedCallsDrainNoBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := prefetching(t, 1, &dynalimit.Options{Prefetch: time.Second})[0]
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "shared", Resource: model}, []dynalimit.Limit{dynalimit.PerDay("rpm", 10_000)}))
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "org", Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 300)}))
		s.family("shared", "org")
		st := &stream{}
		st.run(t, s, 10*time.Millisecond, 60*time.Second)
		require.Greater(t, st.denied, 3000)
		assert.Less(t, 10_000-len(st.admitted)-int(s.level("shared", "rpm")), 400, "what lapsed of the child's")
		stop(t, []*process{s})
		st.counts(t, s, "shared", "org")
	})
}

// While nothing answers, what lapsed waits, and asks seldom; then it is taken off.
func TestLapsedWaitsForTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := prefetching(t, 1, perThousand())[0], &stream{}
		st.run(t, s, 10*time.Millisecond, 3*time.Second)
		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
		before := s.db.Meter()
		elapse(30 * time.Second)
		assert.Less(t, int(s.db.Meter().Sub(before).Requests()), 100)
		s.recovers()
		elapse(20 * time.Second)
		doubted, _ := s.limiter.lanes.Uncertain()
		assert.EqualValues(t, len(st.admitted)+int(plan.Tokens(doubted)["rpm"]), s.stored("shared", "rpm").Consumed/milli)
		stop(t, []*process{s})
	})
}

// Close while a debit is under way lets lapse what it brings; twice is as once.
func TestCloseWhileDebitingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := prefetching(t, 1, perThousand())[0], &stream{}
		st.run(t, s, 10*time.Millisecond, 2*time.Second)
		debiting := func() bool {
			return slices.ContainsFunc(s.limiter.lanes.Of("shared", model).Carried(), func(o *lane.Op) bool {
				debits, _ := o.PrefetchAmounts()
				return len(debits) > 0
			})
		}
		for range 100 {
			if debiting() {
				break
			}
			_, err := s.limiter.Acquire(t.Context(), "shared", model, dynalimit.Amounts{"rpm": 1})
			require.NoError(t, err)
			st.admitted = append(st.admitted, time.Now())
			synctest.Wait()
		}
		require.True(t, debiting())
		var closing sync.WaitGroup
		for range 2 {
			closing.Go(func() { assert.NoError(t, s.limiter.Close(t.Context())) })
		}
		closing.Wait()
		st.counts(t, s, "shared")
		require.NoError(t, s.limiter.Close(t.Context()))
		before := s.db.Meter()
		elapse(time.Minute)
		assert.Zero(t, s.db.Meter().Sub(before).Requests(), "nothing goes on")
	})
}
