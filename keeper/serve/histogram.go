package keeper

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bounds are the upper ends of the buckets, in seconds. A recommendation from memory takes less
// than a millisecond, and a call times out after seconds.
var bounds = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}

// histogram counts durations.
type histogram struct {
	counts [len(bounds) + 1]int64 // by bucket; the last counts longer durations
	sum    float64
}

// observeDuration counts a duration in its bucket, the first with an upper end of at least d, and adds its
// seconds to the sum. The lock of the metrics must be held.
func (h *histogram) observeDuration(d time.Duration) {
	seconds := d.Seconds()
	i, _ := slices.BinarySearch(bounds[:], seconds)
	h.counts[i]++
	h.sum += seconds
}

// writeText writes the histogram in Prometheus's text format: running counts by upper end in seconds, then sum
// and count. labels are formatted already. It writes no help or type.
func (h *histogram) writeText(w io.Writer, name, labels string) {
	var sum int64
	for i, n := range h.counts {
		sum += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		fmt.Fprintf(w, "%s_bucket{%s,le=%q} %d\n", name, labels, le, sum)
	}
	fmt.Fprintf(w, "%s_sum{%s} %s\n", name, labels, strconv.FormatFloat(h.sum, 'g', -1, 64))
	fmt.Fprintf(w, "%s_count{%s} %d\n", name, labels, sum)
}

// formatLabels returns the labels of a metric for Prometheus's text format, such as a="1",b="2". pairs are name
// and value in turn; values are escaped.
func formatLabels(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, pairs[i]+`="`+escaped.Replace(pairs[i+1])+`"`)
	}
	return strings.Join(out, ",")
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
