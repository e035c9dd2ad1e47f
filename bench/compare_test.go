package bench_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
)

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
