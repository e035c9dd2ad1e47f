package bench_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
)

// ahead is a limiter that has learnt how much its calls need, so that it admits them from
// memory.
func ahead(tb testing.TB) (call func(), db *ddbmem.DB) {
	tb.Helper()
	db = ddbmem.New()
	tb.Cleanup(db.Close)
	limiter := limiterOn(tb, db.Client(), nil, &dynalimit.Options{
		Limits:   []dynalimit.Limit{dynalimit.PerSecond("rpm", 1_000_000_000), dynalimit.PerSecond("tpm", 500_000_000_000)},
		Prefetch: time.Second,
	})
	call = (&warmed{limiter: limiter}).acquire(tb)
	for began := time.Now(); time.Since(began) < 2*time.Second; { // learns what is needed
		call()
	}
	return call, db
}

// drained is a limiter whose bucket holds less than is asked for, by the time of day: each second
// one call reads the bucket again.
func drained(tb testing.TB) (call func()) {
	tb.Helper()
	db := ddbmem.New()
	tb.Cleanup(db.Close)
	limiter := limiterOn(tb, db.Client(), nil, &dynalimit.Options{
		Limits: []dynalimit.Limit{dynalimit.PerHour("rpm", 10), dynalimit.PerHour("tpm", 700)},
	})
	ctx := tb.Context()
	_, err := limiter.Acquire(ctx, "user-1", model, typical)
	require.NoError(tb, err)
	return func() {
		if _, err := limiter.Acquire(ctx, "user-1", model, typical); err == nil {
			panic("an empty bucket granted something")
		}
	}
}

// BenchmarkMemory sets what sends nothing beside x/time/rate.Allow, in blocks that take
// turns: the medians of their times, and the ratios of those and of the processor's time, the
// garbage collector's included.
func BenchmarkMemory(b *testing.B) {
	allow := rate.NewLimiter(1e9, 1e9)
	served, _ := ahead(b)
	sides := []side{{call: func() { allow.Allow() }}, {call: served}, {call: drained(b)}}
	const block = 1000
	runtime.GC()
	b.ResetTimer()
	for done := 0; done < b.N; done += block {
		for i := range sides {
			sides[i].run(min(block, b.N-done))
		}
	}
	b.StopTimer()
	median := func(i int) float64 { return latency.Median(sides[i].perCall) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(0), "allow-ns")
	b.ReportMetric(median(1), "served-ns")
	b.ReportMetric(median(2), "denied-ns")
	b.ReportMetric(median(1)/median(0), "served-ratio")
	b.ReportMetric(median(2)/median(0), "denied-ratio")
	b.ReportMetric(float64(sides[1].cpu)/float64(sides[0].cpu), "served-cpu-ratio")
	b.ReportMetric(float64(sides[2].cpu)/float64(sides[0].cpu), "denied-cpu-ratio")
}

// TestMemoryAllocatesOnce is what sends nothing: a lease of 96 bytes, and an error with room for
// two statuses.
func TestMemoryAllocatesOnce(t *testing.T) {
	served, db := ahead(t)
	denied := drained(t)
	for range 2 { // once memory knows the way
		denied()
	}
	for what, c := range map[string]struct {
		call func()
		most float64 // bytes
	}{"served": {served, 120}, "denied": {denied, 576}} {
		requests := db.Meter().Requests()
		var before, after runtime.MemStats
		const calls = 20_000
		runtime.ReadMemStats(&before)
		for range calls {
			c.call()
		}
		runtime.ReadMemStats(&after)
		assert.InDelta(t, 1, float64(after.Mallocs-before.Mallocs)/calls, 0.05, what)
		assert.LessOrEqual(t, float64(after.TotalAlloc-before.TotalAlloc)/calls, c.most, what)
		assert.LessOrEqual(t, db.Meter().Requests()-requests, int64(10), what)
	}
}

// block is how many calls are timed together: long enough that the clock costs
// nothing, short enough that other programs disturb both sides alike.
const block = 50

// side gathers what one of two compared calls costs.
type side struct {
	call    func()
	perCall []float64 // ns, one a block
	cpu     time.Duration
	mallocs uint64
	bytes   uint64
	calls   uint64
}

// run times a block.
func (s *side) run(n int) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := processTime(), time.Now()
	for range n {
		s.call()
	}
	took := time.Since(began)
	s.cpu += processTime() - cpu
	runtime.ReadMemStats(&after)
	s.perCall = append(s.perCall, float64(took.Nanoseconds())/float64(n))
	s.mallocs += after.Mallocs - before.Mallocs
	s.bytes += after.TotalAlloc - before.TotalAlloc
	s.calls += uint64(n)
}

// processTime is the CPU time this process has used, its garbage collector's
// included.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// compare runs two calls in alternating blocks, b.N times each, and reports both
// and their ratios: of the median times, and of the CPU times.
func compare(b *testing.B, ours, bare func()) {
	b.Helper()
	sides := [2]side{{call: ours}, {call: bare}}
	for range 2 * block {
		ours()
		bare()
	}
	runtime.GC()
	b.ResetTimer()
	for done, turn := 0, 0; done < b.N; turn++ {
		n := min(block, b.N-done)
		sides[turn%2].run(n) // the first takes turns
		sides[1-turn%2].run(n)
		done += n
	}
	b.StopTimer()
	us, them := &sides[0], &sides[1]
	calls := float64(b.N)
	time, bareTime := latency.Median(us.perCall), latency.Median(them.perCall)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(time, "ours-ns")
	b.ReportMetric(bareTime, "bare-ns")
	b.ReportMetric(time/bareTime, "time-ratio")
	if them.cpu > 0 {
		b.ReportMetric(float64(us.cpu)/float64(them.cpu), "cpu-ratio")
	}
	b.ReportMetric(float64(us.mallocs)/calls, "ours-allocs")
	b.ReportMetric(float64(them.mallocs)/calls, "bare-allocs")
	b.ReportMetric((float64(us.mallocs)-float64(them.mallocs))/calls, "more-allocs")
	b.ReportMetric((float64(us.bytes)-float64(them.bytes))/calls, "more-B")
}

// BenchmarkArithmetic is the pure part of a decision about one limit.
func BenchmarkArithmetic(b *testing.B) {
	const now = 1_767_355_200_000
	s := bucket.State{
		Rate:   bucket.Rate{Burst: 90_000_000, Amount: 90_000_000, Period: 60_000},
		Tokens: 12_345_678, Refilled: now - 1234,
	}
	amounts := bucket.Amounts{Take: 500_000}
	b.Run("level", func(b *testing.B) {
		for b.Loop() {
			s.Level(now)
		}
	})
	b.Run("wait", func(b *testing.B) {
		for b.Loop() {
			s.Wait(now, 80_000_000)
		}
	})
	b.Run("spend", func(b *testing.B) {
		for b.Loop() {
			s.Decide(now, amounts, bucket.Way{})
		}
	})
	b.Run("claim", func(b *testing.B) {
		for b.Loop() {
			s.Decide(now, amounts, bucket.Way{Move: true})
		}
	})
}
