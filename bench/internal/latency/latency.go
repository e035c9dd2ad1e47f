// Package latency gathers the durations of calls. It is pure.
package latency

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A histogram spans 1 µs to 10 min, to within 1 %.
const (
	least  = 1
	most   = int64(10 * time.Minute / time.Microsecond)
	digits = 2
)

// Histogram counts durations. It is not safe for concurrent use.
type Histogram struct{ h *hdrhistogram.Histogram }

// New returns an empty histogram.
func New() Histogram { return Histogram{hdrhistogram.New(least, most, digits)} }

// Record counts d in microseconds. Below 1 µs it counts as that, above 10 minutes as these.
func (h Histogram) Record(d time.Duration) {
	// A value in the span is always recorded.
	_ = h.h.RecordValue(max(least, min(most, d.Microseconds())))
}

// Add adds the counts of another histogram.
func (h Histogram) Add(o Histogram) { h.h.Merge(o.h) }

// Summary has the main figures of a histogram.
type Summary struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Summary returns the count, the median, the 99th percentile and the maximum. It is zero for an empty
// histogram.
func (h Histogram) Summary() Summary {
	at := func(q float64) time.Duration { return time.Duration(h.h.ValueAtPercentile(q)) * time.Microsecond }
	return Summary{Count: h.h.TotalCount(), P50: at(50), P99: at(99), Max: time.Duration(h.h.Max()) * time.Microsecond}
}

// Counts is a histogram in the form that processes exchange.
type Counts struct {
	Counts []int64 `json:"counts"`
}

// Export returns the counts for another process, without trailing zeros.
func (h Histogram) Export() Counts {
	counts := h.h.Export().Counts
	for len(counts) > 0 && counts[len(counts)-1] == 0 {
		counts = counts[:len(counts)-1]
	}
	return Counts{counts}
}

// Import returns a histogram with the counts that Export returned, possibly in another process.
func Import(c Counts) Histogram {
	whole := New().h.Export()
	copy(whole.Counts, c.Counts)
	return Histogram{hdrhistogram.Import(whole)}
}

// Median returns the middle value, or the mean of the two middle ones; 0 for an empty list. It sorts the
// values.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
