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

	WriteUnits float64 `json:"write_units_per_second"`
	ReadUnits  float64 `json:"read_units_per_second"`
	Refused    float64 `json:"refused_writes_per_second"`
	Throttled  float64 `json:"throttled_writes_per_second"`
	MeanLoad   float64 `json:"partition_load_mean"`
	PeakLoad   float64 `json:"partition_load_peak"`

	GrantedAfter latency.Summary  `json:"granted_after"`
	DeniedAfter  latency.Summary  `json:"denied_after"`
	Errors       map[string]int64 `json:"errors,omitempty"`
}

func (w *world) report(a ledger.Account, used ddbmem.Meter, throttled int64) *report {
	w.mu.Lock()
	defer w.mu.Unlock()
	seconds := w.For.Seconds()
	r := &report{
		settings: w.settings, counts: w.counts, Ledger: a,
		WriteUnits: used.WriteUnits() / seconds, ReadUnits: used.ReadUnits() / seconds,
		Refused: float64(used.Refused()) / seconds, Throttled: float64(throttled) / seconds,
		GrantedAfter: w.granted.Summary(), DeniedAfter: w.denied.Summary(), Errors: w.errors,
	}
	r.OfLimit = float64(a.Admitted) / float64(a.Allowed)
	r.PerGrant = float64(used.Requests()) / float64(max(1, r.Granted))
	if from := int(w.WarmUp / time.Second); w.Partition > 0 {
		r.MeanLoad, r.PeakLoad = w.partition.since(from, from+int(max(w.For, time.Second)/time.Second))
	}
	return r
}

func (r *report) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	line("setting", "%d processes × %g calls/s on one bucket of %d/s and %d at once, %s at the start; %s; %v round trip ± %.0f %%; %s",
		r.Processes, r.Each, r.Rate, r.Burst, r.Start, r.how(), r.Latency, 100*r.Spread, r.ceiling())
	line("time", "%v %s after %v, in %.1f s", r.For, map[bool]string{false: "virtual", true: "real"}[r.Real], r.WarmUp, r.Took)
	line("calls", "%d offered: %d granted, %d denied (%d answers from memory), %d failed", r.Offered, r.Granted, r.Denied, r.FromMemory, r.Failed)
	over := "never above"
	if r.Ledger.Lost < 0 {
		over = "OVER-ADMITTED"
	}
	line("admitted", "%.2f %% of the limit, %s: %.1f of %.1f tokens, %.1f left, %.1f lost",
		100*r.OfLimit, over, tokens(r.Ledger.Admitted), tokens(r.Ledger.Allowed), tokens(r.Ledger.Left), tokens(r.Ledger.Lost))
	line("writes", "%.0f units/s, %.0f refused/s, %.0f throttled/s; reads %.0f units/s; %.2f requests a grant", r.WriteUnits, r.Refused, r.Throttled, r.ReadUnits, r.PerGrant)
	if r.Partition > 0 {
		line("partition", "%.1f %% of its ceiling on average, %.1f %% in the busiest second", 100*r.MeanLoad, 100*r.PeakLoad)
	}
	line("granted", "after p50 %v, p99 %v, max %v", r.GrantedAfter.P50, r.GrantedAfter.P99, r.GrantedAfter.Max)
	line("denied", "after p50 %v, p99 %v, max %v", r.DeniedAfter.P50, r.DeniedAfter.P99, r.DeniedAfter.Max)
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		line("failure", "%d × %s", r.Errors[text], text)
	}
	return b.String()
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
	return fmt.Sprintf("partition of %g write units/s", r.Partition)
}

func tokens(milli int64) float64 { return float64(milli) / 1000 }
