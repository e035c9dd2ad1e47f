package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// report is the outcome of a contest.
type report struct {
	settings
	Seconds float64 `json:"seconds"`
	Elapsed float64 `json:"elapsed_seconds"`

	Acquired   int64    `json:"acquired"`
	Denied     int64    `json:"denied"`
	FromMemory int64    `json:"denied_from_memory"`
	Failed     int64    `json:"failed"`
	Errors     []string `json:"errors,omitempty"`

	PerSecond float64         `json:"acquired_per_second"`
	Latency   latency.Summary `json:"latency"`
	Writes    writes          `json:"writes"`

	// Counted tells requests and units counted by the clients, at a unit each,
	// from those metered by the store.
	Counted           bool    `json:"counted_by_clients"`
	Requests          int64   `json:"requests"`
	WriteUnits        float64 `json:"write_units"`
	ReadUnits         float64 `json:"read_units"`
	UnitsPerAcquire   float64 `json:"write_units_per_acquire"`
	PerAcquire        float64 `json:"requests_per_acquire"`
	RequestsPerLanded float64 `json:"requests_per_landed_write"`
	CallersPerLanded  float64 `json:"callers_per_landed_write"`

	Ledger ledger.Account `json:"ledger_millitokens"`
	// Exact says that the store's counter shows exactly what the callers were
	// granted.
	Exact bool    `json:"exact"`
	Used  float64 `json:"used"`
}

// meter takes the requests from the store's own meter.
func (r *report) meter(m ddbmem.Meter) {
	r.Requests, r.WriteUnits, r.ReadUnits = m.Requests(), m.WriteUnits(), m.ReadUnits()
}

// count takes the requests from the clients, at one unit each.
func (r *report) count(ends []message) {
	var sum requests
	for _, m := range ends {
		sum = sum.plus(m.Requests)
	}
	r.Counted = true
	r.Requests, r.WriteUnits, r.ReadUnits = sum.Writes+sum.Reads, float64(sum.Writes), float64(sum.Reads)
}

// finish works out the ratios.
func (r *report) finish() *report {
	r.PerSecond = float64(r.Acquired) / r.Seconds
	r.UnitsPerAcquire = ratio(r.WriteUnits, r.Acquired)
	r.PerAcquire = ratio(float64(r.Requests), r.Acquired)
	r.RequestsPerLanded = ratio(float64(r.Requests), r.Writes.Landed)
	r.CallersPerLanded = ratio(float64(r.Writes.Callers), r.Writes.Landed)
	r.Exact = r.Ledger.Admitted == r.Acquired*r.Amount*1000
	r.Used = r.Ledger.Used()
	return r
}

func ratio(n float64, of int64) float64 {
	if of == 0 {
		return 0
	}
	return n / float64(of)
}

func (r *report) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	line("setting", "%s", r.setting())
	line("acquired", "%d in %.1f s: %.0f a second", r.Acquired, r.Seconds, r.PerSecond)
	line("denied", "%d, %d of them from memory", r.Denied, r.FromMemory)
	line("failed", "%d %s", r.Failed, strings.Join(r.Errors, "; "))
	line("latency", "p50 %s, p99 %s, max %s%s", ms(r.Latency.P50), ms(r.Latency.P99), ms(r.Latency.Max), r.times())
	by := "metered by the store"
	if r.Counted {
		by = "counted by the clients, at one unit each"
	}
	line("requests", "%d: %.4f per acquire, %.3f per landed write (%s)", r.Requests, r.PerAcquire, r.RequestsPerLanded, by)
	line("units", "%.0f written: %.4f per acquire; %.0f read", r.WriteUnits, r.UnitsPerAcquire, r.ReadUnits)
	line("writes", "%d landed with %.1f callers each, %d refused, %d neither", r.Writes.Landed, r.CallersPerLanded, r.Writes.Refused, r.Writes.Other)
	a := r.Ledger
	line("allowed", "%.3f tokens: admitted %.3f, left %.3f, lost %.3f", tokens(a.Allowed), tokens(a.Admitted), tokens(a.Left), tokens(a.Lost))
	line("used", "%.4f of what could be had; %s", r.Used, r.verdict())
	return b.String()
}

func (r *report) verdict() string {
	var s []string
	if r.Ledger.Lost < 0 {
		s = append(s, "OVER-ADMITTED")
	} else {
		s = append(s, "never above")
	}
	if r.Exact {
		s = append(s, "the store's counter is exactly what was granted")
	} else {
		s = append(s, fmt.Sprintf("the store's counter differs from the %d tokens granted", r.Acquired*r.Amount))
	}
	return strings.Join(s, "; ")
}

func (r *report) setting() string {
	who := fmt.Sprintf("%d processes", r.Processes)
	if r.Processes == 0 {
		who = fmt.Sprintf("%d limiters in process", r.Limiters)
	}
	where := fmt.Sprintf("ddbmem behind %v", r.settings.Latency)
	if r.Endpoint != "" {
		where = r.Endpoint
	}
	return fmt.Sprintf("%s × %d goroutines, %d bucket(s) of %d/s and %d at once, %s at the start, on %s",
		who, r.Goroutines, r.Buckets, r.Rate, r.Burst, r.Start, where)
}

// times compares the 99th percentile with the injected latency.
func (r *report) times() string {
	if r.Endpoint != "" || r.settings.Latency == 0 {
		return ""
	}
	return fmt.Sprintf(" (p99 %.1f × the store's latency)", float64(r.Latency.P99)/float64(r.settings.Latency))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

func tokens(milli int64) float64 { return float64(milli) / 1000 }
