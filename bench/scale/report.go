package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// report is the outcome of a simulation. Calls that came in the measured time
// are counted; tokens and units are those of the measured time.
type report struct {
	settings
	counts
	// Took is how many real seconds the simulation took.
	Took float64 `json:"took_seconds"`

	Ledger ledger.Account `json:"ledger_millitokens"`
	// OfLimit is what was admitted, as a share of the limit's refill and of
	// what the bucket held at the start.
	OfLimit float64 `json:"admitted_of_limit"`
	// PerGrant is how many requests a grant cost, reads and refused writes
	// counted.
	PerGrant float64 `json:"requests_per_grant"`

	// FailedShare is the share of the calls that ended neither granted nor
	// denied; LeastServed that of its calls which the process was granted that
	// was granted least, in the measured time.
	FailedShare float64 `json:"failed_share"`
	LeastServed float64 `json:"least_served"`

	WriteUnits float64 `json:"write_units_per_second"`
	ReadUnits  float64 `json:"read_units_per_second"`
	// Attempts are the writes sent, those that landed, were refused and were
	// throttled among them.
	Attempts       float64 `json:"attempted_writes_per_second"`
	Landed         float64 `json:"landed_writes_per_second"`
	Refused        float64 `json:"refused_writes_per_second"`
	Throttled      float64 `json:"throttled_writes_per_second"`
	ThrottledReads float64 `json:"throttled_reads_per_second"`
	// ServedShare is the share of the grants that came from tokens debited ahead,
	// without a request of their own. LapsedShare is what lapsed of what was admitted,
	// of a bucket that starts in part full: it loses nothing else, unless it gets full.
	ServedShare float64 `json:"granted_from_memory_share"`
	LapsedShare float64 `json:"lapsed_share"`
	// Excess is how many tokens may be admitted above the limit, because of Prefetch.
	Excess float64 `json:"excess_allowed"`

	MeanLoad float64 `json:"partition_load_mean"`
	PeakLoad float64 `json:"partition_load_peak"`

	GrantedAfter latency.Summary  `json:"granted_after"`
	DeniedAfter  latency.Summary  `json:"denied_after"`
	Errors       map[string]int64 `json:"errors,omitempty"`

	Fleet string    `json:"fleet,omitempty"`
	Goals []outcome `json:"goals,omitempty"`
}

// usage is what the processes used in the measured time.
type usage struct {
	meter         ddbmem.Meter
	writes, reads partition
}

func (w *world) report(a ledger.Account, used usage) *report {
	w.mu.Lock()
	defer w.mu.Unlock()
	seconds := w.For.Seconds()
	a1 := func(n int64) float64 { return float64(n) / seconds }
	r := &report{
		settings: w.settings, counts: w.counts, Ledger: a, Fleet: w.fleet,
		WriteUnits: used.meter.WriteUnits() / seconds, ReadUnits: used.meter.ReadUnits() / seconds,
		Attempts: a1(used.writes.asked), Landed: a1(used.writes.asked - used.writes.throttled - used.meter.Refused()),
		Refused: a1(used.meter.Refused()), Throttled: a1(used.writes.throttled), ThrottledReads: a1(used.reads.throttled),
		GrantedAfter: w.granted.Summary(), DeniedAfter: w.denied.Summary(), Errors: w.errors,
	}
	r.OfLimit = float64(a.Admitted) / float64(min(a.Allowed, max(milli, milli*w.counts.Offered)))
	r.PerGrant = float64(used.meter.Requests()) / float64(max(1, r.Granted))
	r.FailedShare = float64(r.Failed) / float64(max(1, r.Offered))
	r.LeastServed = w.leastServed()
	r.ServedShare = float64(r.Served) / float64(max(1, r.Grants))
	if w.Start == "part" {
		r.LapsedShare = max(0, float64(a.Lost)) / float64(max(1, a.Admitted))
	}
	r.Excess = float64(w.Rate) * w.Prefetch.Seconds()
	from := int(w.WarmUp / time.Second)
	r.MeanLoad, r.PeakLoad = w.writes.since(from, from+int(max(w.For, time.Second)/time.Second))
	for _, g := range w.goals {
		r.Goals = append(r.Goals, g.judge(r))
	}
	return r
}

// leastServed is the least share of its calls that a process was granted; w.mu
// must be held.
func (w *world) leastServed() float64 {
	least := 1.0
	for _, p := range w.processes {
		if p.offered > 0 {
			least = min(least, float64(p.granted)/float64(p.offered))
		}
	}
	return least
}

func (r *report) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	if r.Fleet != "" {
		line("scenario", "%s", r.Fleet)
	}
	line("setting", "%d processes × %g calls/s on one bucket of %d/s and %d at once, %s at the start; %s; %v round trip ± %.0f %%; %s",
		r.Processes, r.Each, r.Rate, r.Burst, r.Start, r.how(), r.Latency, 100*r.Spread, r.ceiling())
	line("time", "%v %s after %v, in %.1f s", r.For, map[bool]string{false: "virtual", true: "real"}[r.Real], r.WarmUp, r.Took)
	line("calls", "%d offered: %d granted, %d denied (%d answers from memory), %d failed (%.1f %%); the least served process was granted %.0f %%",
		r.Offered, r.Granted, r.Denied, r.DeniedFromMemory, r.Failed, 100*r.FailedShare, 100*r.LeastServed)
	over := "never above"
	if r.tooMuch() > r.Excess {
		over = "OVER-ADMITTED"
	}
	line("admitted", "%.2f %% of what was asked for or the limit, %s: %.1f of %.1f tokens, %.1f left, %.1f lost",
		100*r.OfLimit, over, tokens(r.Ledger.Admitted), tokens(r.Ledger.Allowed), tokens(r.Ledger.Left), tokens(r.Ledger.Lost))
	line("writes", "%.0f/s: %.0f landed, %.0f refused, %.0f throttled; reads %.0f units/s, %.0f throttled/s; %.2f requests a grant",
		r.Attempts, r.Landed, r.Refused, r.Throttled, r.ReadUnits, r.ThrottledReads, r.PerGrant)
	if r.Prefetch > 0 {
		line("prefetch", "%v: %.2f %% of the grants from memory; %.1f tokens above the limit, %.0f may be%s",
			r.Prefetch, 100*r.ServedShare, r.tooMuch(), r.Excess, r.lapsed())
	}
	if r.Partition > 0 {
		line("partition", "%.1f %% of its ceiling on average, %.1f %% in the busiest second", 100*r.MeanLoad, 100*r.PeakLoad)
	}
	line("granted", "after p50 %v, p99 %v, max %v", r.GrantedAfter.P50, r.GrantedAfter.P99, r.GrantedAfter.Max)
	line("denied", "after p50 %v, p99 %v, max %v", r.DeniedAfter.P50, r.DeniedAfter.P99, r.DeniedAfter.Max)
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		line("failure", "%d × %s", r.Errors[text], text)
	}
	for _, g := range r.Goals {
		line("goal", "%s", g.text())
	}
	return b.String()
}

// tooMuch is how many tokens were admitted above the limit.
func (r *report) tooMuch() float64 { return max(0, -tokens(r.Ledger.Lost)) }

// lapsed tells what lapsed, where that can be told from what else is lost.
func (r *report) lapsed() string {
	if r.Start != "part" {
		return ""
	}
	return fmt.Sprintf("; %.2f %% of what was admitted lapsed", 100*r.LapsedShare)
}

func (r *report) how() string {
	if r.Call == "acquire" {
		return r.Call
	}
	return fmt.Sprintf("%s for up to %v", r.Call, r.Patience)
}

func (r *report) ceiling() string {
	if r.Partition == 0 {
		return "no bound on the partition"
	}
	return fmt.Sprintf("partition of %g write and %g read units/s, %g s of them held", r.Partition, r.Reads, r.Holds)
}

func (o outcome) text() string {
	is, sign := "holds", "≤"
	if o.AtLeast {
		sign = "≥"
	}
	if !o.Holds {
		is = "DOES NOT HOLD"
	}
	return fmt.Sprintf("%s %.3g %s %.3g: %s", o.What, o.Value, sign, o.Bound, is)
}

const milli = 1000

func tokens(millitokens int64) float64 { return float64(millitokens) / milli }
