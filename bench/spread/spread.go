// Package spread measures calls without a shared write: of many keys, of a rare key, and of a light key
// beside a storm over many keys:
//
//	go test -run '^$' -bench Spread -benchtime 1x ./spread
//
// One process makes the calls. The SDK's client, package leanddb and net/http alone take turns in it. Its
// store is ddbmem in the parent process, over HTTP on loopback.
package spread

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/awsclient"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/leanddb"
)

// settings are the task of the process.
type settings struct {
	Endpoint string        `json:"endpoint"`
	Keys     int           `json:"keys"`
	Callers  int           `json:"callers"`
	Rounds   int           `json:"rounds"`
	Turn     time.Duration `json:"turn"` // of each side in each round
	// Light measures a light caller, alone and beside the others.
	Light bool `json:"light"`
}

// burst is the burst of the buckets. They never run empty.
const burst = 1_000_000_000

// sides are the clients that take turns.
var sides = []string{"post", "sdk", "lean"}

// caller makes one call of a key.
type caller func(ctx context.Context, key int) error

// runProcess starts the process on a ddbmem with a delay before each request. It returns the values of the
// process.
func (s settings) runProcess(ctx context.Context, before time.Duration) (v program.Values, err error) {
	db := ddbmem.New()
	defer db.Close()
	endpoint, end, err := program.Serve(ctx, db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := subject.CreateBuckets(ctx, db.Client(), dynalimit.PerSecond(subject.Limit, 1000).WithBurst(burst), 0, 0); err != nil {
		return nil, err
	}
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: before} })
	s.Endpoint = endpoint
	child, err := program.StartChild(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, child.Stop()) }()
	return v, child.ReadAnswer(&v)
}

// serveOrders is the main function of the process. It reads the settings, measures, closes the limiters, and
// answers with the values, even after a failed measurement.
func serveOrders(ctx context.Context, orders *json.Decoder, answers *json.Encoder) error {
	var s settings
	if err := orders.Decode(&s); err != nil {
		return err
	}
	m, err := newMeasurement(ctx, s)
	if err != nil {
		return err
	}
	measure := m.compareSides
	if s.Light {
		measure = m.compareLight
	}
	v, err := measure(ctx)
	return errors.Join(err, m.closeAll(ctx), answers.Encode(v))
}

// measurement is the process's part of a run.
type measurement struct {
	settings
	callers  map[string]caller
	limiters []*dynalimit.RateLimiter
	idle     []func()
}

// newMeasurement makes a caller of each side: net/http alone, and a limiter over the SDK and over leanddb. It
// warms the limiters by calls of every key.
func newMeasurement(ctx context.Context, s settings) (*measurement, error) {
	m := &measurement{settings: s, callers: map[string]caller{}}
	for _, side := range sides[1:] {
		sdk := program.NewClient(s.Endpoint, nil)
		var client dynalimit.DynamoDB = sdk
		if side == "lean" {
			client = leanddb.New(sdk)
		}
		limiter, err := openLimiter(client)
		if err != nil {
			return nil, err
		}
		m.limiters = append(m.limiters, limiter)
		m.callers[side] = func(ctx context.Context, key int) error {
			_, err := limiter.Acquire(ctx, subject.Entity(key), subject.Resource, subject.One)
			return err
		}
		if err := m.warmKeys(ctx, m.callers[side]); err != nil {
			return nil, err
		}
	}
	transport := &http.Transport{MaxIdleConns: awsclient.IdleConnections, MaxIdleConnsPerHost: awsclient.IdleConnections}
	m.idle = append(m.idle, transport.CloseIdleConnections)
	post, err := newPost(ctx, s, &http.Client{Transport: transport})
	m.callers["post"] = post
	return m, err
}

// openLimiter returns a limiter with a long request timeout, for busy machines.
func openLimiter(client dynalimit.DynamoDB) (*dynalimit.RateLimiter, error) {
	repo, err := dynalimit.NewRepository(client, subject.Table, &dynalimit.RepositoryOptions{RequestTimeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	return dynalimit.New(repo, nil)
}

// warmKeys calls each key twice. The second call finds the answer of the first in memory.
func (m *measurement) warmKeys(ctx context.Context, call caller) error {
	var wg sync.WaitGroup
	failures := make([]error, m.Callers)
	for g := range m.Callers {
		wg.Go(func() {
			for key := g; key < m.Keys+1 && failures[g] == nil; key += m.Callers {
				failures[g] = errors.Join(call(ctx, key), call(ctx, key))
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// closeAll closes the limiters and idle connections.
func (m *measurement) closeAll(ctx context.Context) (err error) {
	for _, l := range m.limiters {
		err = errors.Join(err, l.Close(ctx))
	}
	for _, closeIdle := range m.idle {
		closeIdle()
	}
	return err
}

// turn is the sum of the calls of one turn.
type turn struct {
	calls                  int
	cpu                    time.Duration
	allocations, allocated uint64
	took                   latency.Histogram
}

// takeTurn makes calls of random keys, by all callers, for the time of a turn. It returns their number,
// latencies, processor time and allocations of the process. A caller stops at its first error.
func (m *measurement) takeTurn(ctx context.Context, call caller) (t turn, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu := usedCPU()
	all, failures := make([]latency.Histogram, m.Callers), make([]error, m.Callers)
	until := time.Now().Add(m.Turn)
	var wg sync.WaitGroup
	for g := range m.Callers {
		all[g] = latency.New()
		wg.Go(func() {
			for now := time.Now(); now.Before(until) && failures[g] == nil; {
				failures[g] = call(ctx, rand.IntN(m.Keys))
				end := time.Now()
				all[g].Record(end.Sub(now))
				now = end
			}
		})
	}
	wg.Wait()
	t.cpu = usedCPU() - cpu
	runtime.ReadMemStats(&after)
	t.allocations, t.allocated = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	t.took = latency.New()
	for _, h := range all {
		t.took.Add(h)
	}
	t.calls = int(t.took.Summary().Count)
	return t, errors.Join(failures...)
}

// perCall divides a value of the turn by its calls.
func (t turn) perCall(v float64) float64 { return v / float64(max(1, t.calls)) }

// usedCPU returns the processor time of this process so far.
func usedCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no failure but wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// compareSides lets the sides take turns, and returns the medians of the rounds.
func (m *measurement) compareSides(ctx context.Context) (program.Values, error) {
	series := map[string][]float64{}
	for range m.Rounds {
		var post float64
		for _, side := range sides {
			t, err := m.takeTurn(ctx, m.callers[side])
			if err != nil {
				return nil, err
			}
			add := func(unit string, v float64) { series[side+"-"+unit] = append(series[side+"-"+unit], v) }
			cpu := t.perCall(float64(t.cpu) / float64(time.Microsecond))
			if side == "post" {
				post = cpu
			} else {
				add("cpu-ratio", program.Ratio(cpu, post))
			}
			add("us", cpu)
			add("calls/s", float64(t.calls)/m.Turn.Seconds())
			add("allocs", t.perCall(float64(t.allocations)))
			add("bytes", t.perCall(float64(t.allocated)))
			add("p50-ms", program.Ms(t.took.Summary().P50))
		}
	}
	return mediansOf(series), nil
}

// compareLight measures a caller of one key, every 3 ms, alone and beside the others. It returns the medians of
// the rounds.
func (m *measurement) compareLight(ctx context.Context) (program.Values, error) {
	series := map[string][]float64{}
	for range m.Rounds {
		for _, side := range sides[1:] {
			alone, err := m.callLight(ctx, m.callers[side], false)
			if err != nil {
				return nil, err
			}
			beside, err := m.callLight(ctx, m.callers[side], true)
			if err != nil {
				return nil, err
			}
			for unit, v := range map[string]float64{
				"alone-ms": program.Ms(alone.Summary().P50), "beside-ms": program.Ms(beside.Summary().P50),
				"p50-ratio": program.Ratio(float64(beside.Summary().P50), float64(alone.Summary().P50)),
			} {
				series[side+"-"+unit] = append(series[side+"-"+unit], v)
			}
		}
	}
	return mediansOf(series), nil
}

// every is the interval of the light caller.
const every = 3 * time.Millisecond

// callLight returns the latencies of the light caller in one turn. Its key comes after those of the others,
// which call at the same time if storm is true.
func (m *measurement) callLight(ctx context.Context, call caller, storm bool) (latency.Histogram, error) {
	took, done := latency.New(), make(chan error, 1)
	if storm {
		go func() {
			_, err := m.takeTurn(ctx, call)
			done <- err
		}()
	} else {
		done <- nil
	}
	var err error
	for until := time.Now().Add(m.Turn); time.Now().Before(until) && err == nil; program.Pause(ctx, every) {
		began := time.Now()
		err = call(ctx, m.Keys)
		took.Record(time.Since(began))
	}
	return took, errors.Join(err, <-done)
}

// mediansOf returns the median of each unit's values, which it sorts.
func mediansOf(series map[string][]float64) program.Values {
	v := program.Values{}
	for unit, values := range series {
		v[unit] = latency.Median(values)
	}
	return v
}
