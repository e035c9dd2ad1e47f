package tests

import (
	"errors"
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
)

// limitsOfCalls are requests and tokens a minute, and micro-dollars a day.
func limitsOfCalls() (rpm, tpm, usd dynalimit.Limit) {
	return dynalimit.PerMinute("rpm", 1_000_000), dynalimit.PerMinute("tpm", 1_000_000), dynalimit.PerDay("usd", 50_000_000)
}

// A call of a key, its team and its organisation waits for one round trip, whatever groups it
// charges: a write unit a bucket, 3 where all limits are over all models, 6 where requests and
// tokens are by model; as many again to settle it, and nothing for a remembered denial.
func TestCostOfGroups(t *testing.T) {
	rpm, tpm, usd := limitsOfCalls()
	for name, test := range map[string]struct {
		byModel, overAll []dynalimit.Limit
		units            float64
	}{
		"all over all models":          {nil, []dynalimit.Limit{rpm, tpm, usd}, 3},
		"money alone over all models":  {[]dynalimit.Limit{rpm, tpm}, []dynalimit.Limit{usd}, 6},
		"a model's own limits besides": {[]dynalimit.Limit{rpm, tpm, usd}, []dynalimit.Limit{rpm, tpm, usd}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, nil, func(t *testing.T, s *process) {
				s.family("key", "team", "org")
				s.ofGroup(model)
				if test.byModel != nil {
					s.limits(admin.Scope{Everyone: true}, test.byModel...)
				}
				s.limits(admin.Scope{Everyone: true, Resource: group}, test.overAll...)
				amounts := dynalimit.Amounts{"rpm": 1, "tpm": 3000, "usd": 20_000}
				cold := s.peer(nil)
				var trips int
				used := s.used(func() { trips = roundTrips(t, s, func() { cold.acquire("key", amounts) }) })
				t.Logf("cold: %d round trips, %d requests", trips, used.Requests())
				assert.Equal(t, 5, trips, "a level's configuration each, the last one's groups, and the writes")
				assert.Equal(t, int64(6+test.units), used.Requests())
				var lease *dynalimit.Lease
				used = s.used(func() { trips = roundTrips(t, s, func() { lease = cold.acquire("key", amounts) }) })
				assert.Equal(t, 1, trips)
				assert.Equal(t, test.units, used.WriteUnits())
				assert.Zero(t, used.ReadUnits())
				used = s.used(func() {
					trips = roundTrips(t, s, func() { require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 2000, "usd": 9000})) })
				})
				assert.Equal(t, 1, trips)
				assert.Equal(t, test.units, used.WriteUnits())

				cold.acquire("key", dynalimit.Amounts{"usd": 49_000_000})
				cold.deny("key", dynalimit.Amounts{"usd": 2_000_000})
				used = s.used(func() { cold.deny("key", dynalimit.Amounts{"usd": 2_000_000}) })
				assert.Zero(t, used.Requests())
			})
		})
	}
}

// A bucket that was last seen nearly used up is asked first, so that a denial by it leaves the
// others unwritten; what is admitted waits for a second round trip then.
func TestTightBucketOfAGroupIsAskedFirst(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		s.family("key", "team")
		s.ofGroup(model)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000))
		s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerDay("rpm", 100))
		s.acquire("key", dynalimit.Amounts{"rpm": 95})
		s.clock.advance(1500e6) // what is known is too old to deny by, and others may have taken
		s.peer(nil).acquire("key", dynalimit.Amounts{"rpm": 4})
		var trips int
		used := s.used(func() { trips = roundTrips(t, s, func() { s.deny("key", dynalimit.Amounts{"rpm": 2}) }) })
		t.Logf("denied: %d round trips, %v", trips, used)
		assert.Equal(t, 1.0, used.WriteUnits(), "the refusal of the tight bucket")
		assert.Equal(t, 2, trips, "the others are read side by side, for when to retry")
		used = s.used(func() { trips = roundTrips(t, s, func() { s.acquire("key", dynalimit.Amounts{"rpm": 1}) }) })
		assert.Equal(t, 2, trips)
		assert.Equal(t, 4.0, used.WriteUnits())
	})
}

// grouping is a load of many callers in several processes, and what it cost.
type grouping struct {
	used     ddbmem.Meter
	admitted int
	p99      time.Duration
}

// underLoad plays callers that come at random, each a call of one request, on a table whose
// requests take 2 to 8 ms: on the model with its group, on both as two calls, or on the model
// alone.
func underLoad(t *testing.T, onModel, onGroup int64, call func(p *process, key string) error, joined bool) (result grouping) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		if joined {
			s.ofGroup(model)
		}
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerMinute("rpm", onModel))
		s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerMinute("rpm", onGroup))
		luck := rand.New(rand.NewPCG(1, 1))
		var mu sync.Mutex
		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			mu.Lock()
			defer mu.Unlock()
			return ddbmem.Fault{Before: time.Duration(1+luck.IntN(3)) * time.Millisecond, After: time.Duration(1+luck.IntN(5)) * time.Millisecond}
		})
		processes := []*process{s, s.peer(nil), s.peer(nil), s.peer(nil)}
		for _, p := range processes { // all is warm
			_ = call(p, "key-0")
		}
		before := s.db.Meter()
		var took []time.Duration
		var callers sync.WaitGroup
		arrivals := rand.New(rand.NewPCG(2, 2))
		for i := range 1000 {
			elapse(time.Duration(arrivals.ExpFloat64() * float64(20*time.Millisecond)))
			callers.Go(func() {
				began := time.Now()
				err := call(processes[i%4], "key-0")
				mu.Lock()
				defer mu.Unlock()
				if took = append(took, time.Since(began)); err == nil {
					result.admitted++
				}
			})
		}
		callers.Wait()
		slices.Sort(took)
		result.used, result.p99 = s.db.Meter().Sub(before), took[len(took)*99/100]
	})
	return result
}

// A call that charges a group costs no more writes than the same buckets asked for by two
// calls, whichever of them is short, and waits no longer than a call of one bucket.
func TestGroupCostsNoMoreThanTwoCalls(t *testing.T) {
	one := func(p *process, key string) error {
		_, err := p.limiter.Acquire(p.t.Context(), key, model, dynalimit.Amounts{"rpm": 1})
		return err
	}
	two := func(p *process, key string) error {
		lease, err := p.limiter.Acquire(p.t.Context(), key, model, dynalimit.Amounts{"rpm": 1})
		if err != nil {
			return err
		}
		if _, err = p.limiter.Acquire(p.t.Context(), key, group, dynalimit.Amounts{"rpm": 1}); err != nil {
			return errors.Join(err, lease.Rollback(p.t.Context()))
		}
		return nil
	}
	for name, n := range map[string]struct{ onModel, onGroup int64 }{
		"both have room": {100_000, 100_000}, "the group is short": {100_000, 300}, "the model is short": {300, 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			alone := underLoad(t, n.onModel, n.onGroup, one, false)
			together := underLoad(t, n.onModel, n.onGroup, one, true)
			apart := underLoad(t, n.onModel, n.onGroup, two, false)
			for what, of := range map[string]grouping{"one bucket": alone, "with its group": together, "two calls": apart} {
				t.Logf("%-14s %d admitted, p99 %v, %d requests, %v write units, %v read units", what, of.admitted, of.p99, of.used.Requests(), of.used.WriteUnits(), of.used.ReadUnits())
			}
			assert.InDelta(t, apart.admitted, together.admitted, 10)
			assert.LessOrEqual(t, together.used.WriteUnits(), apart.used.WriteUnits()*1.02, "but for luck")
			if name == "both have room" {
				assert.LessOrEqual(t, together.p99, alone.p99*12/10)
			}
		})
	}
}
