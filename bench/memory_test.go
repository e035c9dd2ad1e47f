package bench_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/ddbmem"
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
	}{"served": {served, 120}, "denied": {denied, 560}} {
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
