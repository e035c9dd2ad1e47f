package dynalimit_test

import (
	"errors"
	"math/rand/v2"
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
)

const (
	// sharers are the processes on one bucket.
	sharers = 8
	// refillPerSecond is what the bucket regains, in tokens.
	refillPerSecond = 100
)

// sharing is what several processes on one bucket did.
type sharing struct {
	acquired, denied int64
	used             ddbmem.Meter
}

func (r sharing) perAcquire() float64 { return float64(r.used.Requests()) / float64(r.acquired) }

// share runs processes on one bucket in virtual time: calls arrive at random
// at load times the refill, spread evenly over the processes, and every request
// takes 2 to 8 ms, so that requests of different processes overlap.
func share(t *testing.T, processes int, limit dynalimit.Limit, load float64, drained int64, span time.Duration, seed uint64) (result sharing) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		e := memEngine(t)
		limits := []dynalimit.Limit{limit}
		var all []*process
		first := liveProcess(t, e, &dynalimit.Options{Limits: limits})
		first.clock = newHandClock()
		for range processes {
			repo := e.open(t, first.repo.table, &dynalimit.RepositoryOptions{Now: time.Now})
			all = append(all, first.on(repo, &dynalimit.Options{Limits: limits}))
		}
		if drained > 0 {
			first.acquire("shared", dynalimit.Amounts{"rpm": drained})
		}
		for _, p := range all { // warm
			require.NoError(t, p.acquire("shared", dynalimit.Amounts{"rpm": 1}).Rollback(t.Context()))
		}
		var latencies sync.Mutex
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			latencies.Lock()
			defer latencies.Unlock()
			part := func() time.Duration { return time.Duration(1000+random.IntN(3000)) * time.Microsecond }
			return ddbmem.Fault{Before: part(), After: part()}
		})
		before := e.db.Meter()
		var acquired, denied atomic.Int64
		var wg sync.WaitGroup
		arrivals := rand.New(rand.NewPCG(seed, 2))
		for end := time.Now().Add(span); time.Now().Before(end); {
			elapse(time.Duration(arrivals.ExpFloat64() / (load * float64(limit.RefillAmount)) * float64(limit.RefillPeriod)))
			p := all[arrivals.IntN(processes)]
			wg.Go(func() {
				if _, err := p.limiter.Acquire(t.Context(), "shared", model, dynalimit.Amounts{"rpm": 1}); err == nil {
					acquired.Add(1)
				} else {
					assert.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
					denied.Add(1)
				}
			})
		}
		wg.Wait()
		e.db.SetFaults(nil)
		result.acquired, result.denied, result.used = acquired.Load(), denied.Load(), e.db.Meter().Sub(before)
	})
	return result
}

// Below full, takes commute: nobody has to win a race. Near full a stale image
// cannot tell who took, and some takes are refused and decided again, until with
// the slack that they learn from it takes commute again.
func TestRequestsPerAcquireOfSharedBuckets(t *testing.T) {
	minute, second := dynalimit.PerMinute("rpm", refillPerSecond*60), dynalimit.PerSecond("rpm", refillPerSecond)
	t.Logf("%d processes, %d tokens/s", sharers, refillPerSecond)
	t.Log("load  bucket                    acquires  requests  refused  per acquire")
	for _, c := range []struct {
		bucket  string
		limit   dynalimit.Limit
		drained int64
		most    float64
	}{
		{"6000 tokens, below full", minute, minute.Burst - 500, 1.05},
		{"6000 tokens, full", minute, 0, 1.4},
		{"100 tokens, full", second, 0, 1.4},
	} {
		for _, load := range []float64{0.1, 0.5, 0.9} {
			var acquired, requests, refused int64
			for seed := range uint64(2) {
				r := share(t, sharers, c.limit, load, c.drained, 20*time.Second, seed)
				assert.Zero(t, r.denied)
				assert.LessOrEqual(t, r.perAcquire(), c.most, "%.0f %% of the refill, %s, seed %d", load*100, c.bucket, seed)
				acquired, requests, refused = acquired+r.acquired, requests+r.used.Requests(), refused+r.used.Refused()
			}
			t.Logf("%3.0f%%  %-24s  %8d  %8d  %7d  %11.2f", load*100, c.bucket, acquired, requests, refused, float64(requests)/float64(acquired))
		}
	}
}

// Many processes on a full bucket must not undo each other's writes: a grant costs
// hardly more than a request, and none fails.
func TestAFleetOnAFullBucketCommutes(t *testing.T) {
	const processes, each = 60, 20
	for _, times := range []float64{1.2, 4} {
		limit := dynalimit.PerSecond("rpm", int64(times*processes*each))
		r := share(t, processes, limit, 1/times, 0, 2*time.Second, 1)
		t.Logf("%d processes × %d/s, limit %g ×: %d acquired, %.2f requests each", processes, each, times, r.acquired, r.perAcquire())
		assert.Zero(t, r.denied)
		assert.LessOrEqual(t, r.perAcquire(), 1.2, "limit %g ×", times)
	}
}

// atFull are processes on one full bucket of 1,000 tokens, 1,000 a second, with 2 ms each way.
func atFull(t *testing.T, processes int) []*process {
	e := memEngine(t)
	opts := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}}
	first := liveProcess(t, e, opts)
	all := []*process{first}
	for range processes - 1 {
		all = append(all, first.on(e.open(t, first.repo.table, &dynalimit.RepositoryOptions{Now: time.Now}), opts))
	}
	for _, s := range all {
		s.acquire("shared", dynalimit.Amounts{"rpm": 1})
	}
	elapse(2 * time.Second)
	e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Before: 2 * time.Millisecond, After: 2 * time.Millisecond}
	})
	return all
}

// Transactions of many processes on full buckets commute too, and one that is left
// alone needs one request a call again.
func TestTransactionsAtFullCommute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := atFull(t, 20)
		all[0].family("shared", "org")
		one := func(s *process) {
			s.acquire("shared", dynalimit.Amounts{"rpm": 1}, dynalimit.WithChargeMode(dynalimit.ChargeTransaction))
		}
		for _, s := range all {
			s.repo.InvalidateConfig("shared", model)
			one(s)
		}
		elapse(2 * time.Second)
		const rounds = 20
		used := all[0].used(func() {
			for range rounds {
				var group sync.WaitGroup
				for _, s := range all {
					group.Go(func() { one(s) })
				}
				group.Wait()
				elapse(10 * time.Millisecond)
			}
		})
		perGrant := float64(used.Requests()) / rounds / float64(len(all))
		t.Logf("%.2f requests a grant, %.0f write units", perGrant, used.WriteUnits())
		assert.Less(t, perGrant, 1.5)
		elapse(2 * time.Second)
		for i := range 10 {
			used := all[0].used(func() { one(all[0]) })
			if i > 0 {
				require.EqualValues(t, 1, used.Requests())
			}
			elapse(20 * time.Millisecond)
		}
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
