package scale

import (
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// report is the result of a simulation. It counts the calls that came in the measured time. Tokens and units
// are those of the measured time.
type report struct {
	counts
	ledger ledger.Account
	errors []string
	// values are named in docs/performance.md.
	values program.Values
}

// usage is the processes' usage in the measured time.
type usage struct {
	meter         ddbmem.Meter
	writes, reads partition
}

// newReport computes the values of a simulation from the bucket's account and the store's usage. It
// takes w.mu.
func (w *world) newReport(a ledger.Account, used usage) *report {
	w.mu.Lock()
	defer w.mu.Unlock()
	second := func(n int64) float64 { return float64(n) / w.lasting.Seconds() }
	refused, granted := used.meter.Refused(), w.granted.Summary()
	from := int(w.warmUp / time.Second)
	mean, peak := w.writes.loadBetween(from, from+int(max(w.lasting, time.Second)/time.Second))
	excess := float64(w.rate) * w.prefetch.Seconds() // may be admitted above the limit
	r := &report{counts: w.counts, ledger: a, errors: slices.Sorted(maps.Keys(w.errors)), values: program.Values{
		"failed/call":  ratio(w.counts.failed, w.counts.offered),
		"denied/call":  ratio(w.counts.denied, w.counts.offered),
		"of-limit":     ratio(a.Admitted, min(a.Allowed, max(milli, milli*w.counts.offered))),
		"above-limit":  max(0, float64(-a.Lost)/milli-excess),
		"p50-ms":       program.Ms(granted.P50),
		"p99-ms":       program.Ms(granted.P99),
		"writes/s":     second(used.writes.asked),
		"landed/s":     second(used.writes.asked - used.writes.throttled - refused),
		"refused/s":    second(refused),
		"throttled/s":  second(used.writes.throttled),
		"reads/s":      used.meter.ReadUnits() / w.lasting.Seconds(),
		"load":         mean,
		"peak-load":    peak,
		"requests/op":  ratio(used.meter.Requests(), w.counts.granted),
		"least-served": w.leastServed(),
	}}
	if w.prefetch > 0 {
		r.values["from-memory"] = ratio(w.counts.served, w.counts.grants)
	}
	if w.prefetch > 0 && w.start == "part" { // its only loss, unless the bucket gets full
		r.values["lapsed"] = max(0, ratio(a.Lost, a.Admitted))
	}
	return r
}

// milli is the number of millitokens in a token.
const milli = 1000

// ratio returns n ÷ of, or n if of is 0.
func ratio(n, of int64) float64 { return float64(n) / float64(max(1, of)) }

// leastServed returns the least ratio of granted to offered calls of all processes; 1 if none offered any.
// w.mu must be held.
func (w *world) leastServed() float64 {
	least := 1.0
	for _, p := range w.processes {
		if p.offered > 0 {
			least = min(least, float64(p.granted)/float64(p.offered))
		}
	}
	return least
}
