package tests

import (
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
