package tests

import (
	"context"
	"slices"
	"sync"
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
				debits, _ := o.Ahead()
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

// Calls of many goroutines on a cascade, some of which are denied, cancelled or waiting,
// while the limiter closes: the counters end at what was admitted.
func TestConcurrentCascadesFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := prefetching(t, 1, &dynalimit.Options{Prefetch: 500 * time.Millisecond})[0]
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "org", Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 150)}))
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "a", Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}))
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "b", Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}))
		s.family("a", "org")
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "b", ParentID: "org", Cascade: true}))
		var admitted [2]atomic.Int64
		var running sync.WaitGroup
		for i := range 24 {
			running.Go(func() {
				entity := []string{"a", "b"}[i%2]
				for end := time.Now().Add(8 * time.Second); time.Now().Before(end); elapse(time.Duration(60+i) * time.Millisecond) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i*3)*time.Millisecond)
					call := s.limiter.Acquire
					if i%4 == 0 {
						call = s.limiter.Wait
					}
					if lease, err := call(ctx, entity, model, dynalimit.Amounts{"rpm": 1}); err == nil {
						admitted[i%2].Add(lease.Consumed()["rpm"])
					}
					cancel()
				}
			})
		}
		running.Wait()
		stop(t, []*process{s})
		a, b := admitted[0].Load(), admitted[1].Load()
		require.Positive(t, a*b)
		for entity, n := range map[string]int64{"a": a, "b": b, "org": a + b} {
			assert.EqualValues(t, n, s.stored(entity, "rpm").Consumed/milli, entity)
		}
	})
}

// A bucket without an incarnation, as another implementation makes it, is debited ahead
// and its counter corrected as any other.
func TestForeignBucketIsDebitedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := prefetching(t, 1, perThousand())[0], &stream{}
		s.acquire("shared", dynalimit.Amounts{"rpm": 1})
		st.admitted = append(st.admitted, time.Now())
		item := s.item("shared")
		delete(item, "ci")
		put(t, s.repo, item)
		require.Nil(t, s.image("shared").Of())
		st.run(t, s, 10*time.Millisecond, 4*time.Second)
		stop(t, []*process{s})
		st.counts(t, s, "shared")
	})
}

// A limit that vanishes, and one that appears, while something is held.
func TestLimitsChangeWhileHeld(t *testing.T) {
	rpm, tpm := dynalimit.PerSecond("rpm", 1000), dynalimit.PerSecond("tpm", 100_000)
	for name, c := range map[string]struct{ before, after []dynalimit.Limit }{
		"fewer": {[]dynalimit.Limit{rpm, tpm}, []dynalimit.Limit{rpm}},
		"more":  {[]dynalimit.Limit{rpm}, []dynalimit.Limit{rpm, tpm}},
		"other": {[]dynalimit.Limit{rpm, dynalimit.PerSecond("day", 50)}, []dynalimit.Limit{rpm, tpm}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := prefetching(t, 2, &dynalimit.Options{Prefetch: time.Second})
				s, st := all[0], &stream{}
				require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "shared", Resource: model}, c.before))
				call := func(amounts dynalimit.Amounts) {
					if _, err := s.limiter.Acquire(t.Context(), "shared", model, amounts); err == nil {
						st.admitted = append(st.admitted, time.Now())
					}
					elapse(10 * time.Millisecond)
				}
				all[1].acquire("shared", dynalimit.Amounts{"rpm": 1})
				st.admitted = append(st.admitted, time.Now())
				amounts := dynalimit.Amounts{}
				for _, l := range c.before {
					amounts[l.Name] = 1
				}
				for range 300 {
					call(amounts)
				}
				require.NoError(t, all[1].repo.SetLimits(t.Context(), admin.Scope{Entity: "shared", Resource: model}, c.after))
				for range 3 { // the other process claims for the new ones, and removes what is full
					all[1].acquire("shared", dynalimit.Amounts{"rpm": 1})
					st.admitted = append(st.admitted, time.Now())
					call(amounts)
				}
				elapse(3 * time.Second)
				for range 200 {
					call(dynalimit.Amounts{"rpm": 1})
				}
				stop(t, all)
				st.counts(t, s, "shared")
			})
		})
	}
}

// Fifty processes of a hundred calls a second share a bucket whose partition takes a
// thousand writes a second: none throttles, and nobody is denied.
func TestFleetDebitsAhead(t *testing.T) {
	const processes = 50
	synctest.Test(t, func(t *testing.T) {
		all := prefetching(t, processes, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 10_000)}, Prefetch: time.Second})
		st := &stream{}
		fleet := func(d time.Duration) {
			var running sync.WaitGroup
			for _, s := range all {
				running.Go(func() { st.run(t, s, 10*time.Millisecond, d) })
			}
			running.Wait()
		}
		fleet(2 * time.Second)
		before, calls := all[0].db.Meter(), len(st.admitted)
		fleet(2 * time.Second)
		writes := all[0].db.Meter().Sub(before).Operations["UpdateItem"].Requests
		calls = len(st.admitted) - calls
		assert.Less(t, float64(writes)/float64(calls), 0.05)
		assert.Zero(t, st.denied)
		stop(t, all)
		st.counts(t, all[0], "shared")
	})
}
