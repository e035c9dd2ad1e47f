package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// benchmarks are those of go test -bench.
func (r *reporter) benchmarks(ctx context.Context) error {
	all := map[string]metrics{}
	for _, run := range []struct{ pattern, duration string }{
		{"^BenchmarkAcquire$", "3s"}, {"Own|Denial|Prefetched|Arithmetic|InProcess", "500ms"},
	} {
		out, err := r.output(ctx, "bench.test", "-test.run=^$", "-test.bench="+run.pattern, "-test.benchtime="+run.duration)
		if err != nil {
			return err
		}
		some, err := parseBenchmarks(string(out))
		if err != nil {
			return err
		}
		for name, m := range some {
			all[name] = m
		}
	}
	server, stub, mem := all["Acquire/server"], all["Acquire/stub"], all["Acquire/ddbmem"]
	r.add(
		row{"warm acquire ÷ bare UpdateItem on a stub server: CPU", server["cpu-ratio"], "", atMost(1.15), fmt.Sprintf("median %s against %s", nanos(server["ours-ns"]), nanos(server["bare-ns"]))},
		row{"— time, one goroutine", server["time-ratio"], "", atMost(1.10), "medians of alternating blocks"},
		row{"— on a transport that answers at once: CPU", stub["cpu-ratio"], "", bar{}, fmt.Sprintf("median %s against %s", nanos(stub["ours-ns"]), nanos(stub["bare-ns"]))},
		row{"— — time", stub["time-ratio"], "", bar{}, "no network, no HTTP client: the SDK alone"},
		row{"— allocations more", stub["more-allocs"], "", atMost(60), fmt.Sprintf("the bare update has %.0f", stub["bare-allocs"])},
		row{"— on ddbmem: time", mem["time-ratio"], "", bar{}, fmt.Sprintf("median %s against %s", nanos(mem["ours-ns"]), nanos(mem["bare-ns"]))},
		row{"acquire without the SDK", all["Own"]["ns/op"], "ns", bar{}, fmt.Sprintf("%.0f allocations", all["Own"]["allocs/op"])},
		row{"denial from memory", all["DenialFromMemory"]["ns/op"], "ns", atMost(600), ""},
		row{"— allocations", all["DenialFromMemory"]["allocs/op"], "", atMost(2), "the error with its statuses"},
		row{"— requests", all["DenialFromMemory"]["requests"], "", exactly(0), ""},
	)
	prefetched := all["Prefetched"]
	r.add(
		row{"acquire from memory, Prefetch 1 s", prefetched["ns/op"], "ns", atMost(300), "its part of the refetches counted"},
		row{"— allocations", prefetched["allocs/op"], "", atMost(1), "the lease"},
		row{"— write units", prefetched["wcu/op"], "", atMost(0.01), ""},
	)
	for _, part := range []string{"level", "wait", "spend", "claim"} {
		r.add(row{"arithmetic of one limit: " + part, all["Arithmetic/"+part]["ns/op"], "ns", bar{}, ""})
	}
	for _, who := range []string{"alone", "many"} {
		ours := all["InProcess/dynalimit-ddbmem/"+who]["ns/op"]
		for _, peer := range []string{"x-time-rate", "go-limiter-memory"} {
			theirs := all["InProcess/"+peer+"/"+who]["ns/op"]
			r.add(row{"in process, " + who + ": dynalimit on ddbmem ÷ " + peer, ours / theirs, "", bar{}, nanos(ours) + " against " + nanos(theirs)})
		}
	}
	return nil
}

func nanos(n float64) string { return time.Duration(n).Round(10 * time.Nanosecond).String() }

// memory is the heap after a million keys.
func (r *reporter) memory(ctx context.Context) error {
	out, err := r.output(ctx, "bench.test", "-test.run=^TestMemoryIsBounded$", "-test.v", "-keys=1000000")
	if err != nil {
		return err
	}
	few, many, keys, err := parseHeap(string(out))
	if err != nil {
		return err
	}
	r.add(row{fmt.Sprintf("heap after %d keys ÷ after 100000", keys), many / few, "", atMost(1.1), fmt.Sprintf("%.1f MB against %.1f MB, 10000 remembered", many, few)})
	return nil
}

// contest is what this table shows of contend's report.
type contest struct {
	PerSecond         float64 `json:"acquired_per_second"`
	UnitsPerAcquire   float64 `json:"write_units_per_acquire"`
	RequestsPerLanded float64 `json:"requests_per_landed_write"`
	CallersPerLanded  float64 `json:"callers_per_landed_write"`
	Failed            int64   `json:"failed"`
	Exact             bool    `json:"exact"`
	Used              float64 `json:"used"`
	Settings          string  `json:"-"`
	Latency           struct {
		P50 float64 `json:"p50_ns"`
		P99 float64 `json:"p99_ns"`
	} `json:"latency"`
	Ledger struct{ Allowed, Admitted, Left, Lost int64 } `json:"ledger_millitokens"`
}

// trip is the store's injected latency.
const trip = 5 * time.Millisecond

func (c contest) times() float64 { return c.Latency.P99 / float64(trip) }

func (r *reporter) contend(ctx context.Context, processes, goroutines int, more ...string) (contest, error) {
	args := append([]string{"-json", "-latency=" + trip.String(), "-processes=" + strconv.Itoa(processes), "-goroutines=" + strconv.Itoa(goroutines)}, more...)
	out, err := r.output(ctx, "contend", args...)
	if err != nil {
		return contest{}, err
	}
	var c contest
	return c, json.Unmarshal(out, &c)
}

func (r *reporter) oneProcess(ctx context.Context) error {
	c, err := r.contend(ctx, 1, 256)
	if err != nil {
		return err
	}
	r.add(
		row{"1 process × 256 goroutines, 5 ms: acquires a second", c.PerSecond, "", atLeast(20_000), fmt.Sprintf("%.0f callers a write", c.CallersPerLanded)},
		row{"— write units per acquire", c.UnitsPerAcquire, "", atMost(0.02), ""},
		row{"— p99 ÷ latency", c.times(), "", atMost(4), ""},
	)
	return nil
}

func (r *reporter) eightProcesses(ctx context.Context) error {
	c, err := r.contend(ctx, 8, 64)
	if err != nil {
		return err
	}
	r.add(
		row{"8 processes × 64 goroutines, 5 ms: acquires a second", c.PerSecond, "", atLeast(10_000), fmt.Sprintf("%.0f callers a write", c.CallersPerLanded)},
		row{"— p99 ÷ latency", c.times(), "", atMost(10), ""},
		row{"— requests per landed write", c.RequestsPerLanded, "", atMost(1.05), ""},
	)
	return nil
}

// exhausted is the same on a bucket of 500 a second and 1,000 at once.
func (r *reporter) exhausted(ctx context.Context) error {
	for _, call := range []string{"acquire", "wait"} {
		for _, start := range []string{"empty", "full"} {
			c, err := r.contend(ctx, 8, 64, "-rate=500", "-burst=1000", "-for=4s", "-start="+start, "-call="+call)
			if err != nil {
				return err
			}
			used := atLeast(1 - 1.0/32)
			if start == "empty" {
				used = exactly(1)
			}
			r.add(
				row{"exhausted, " + start + " at the start, " + call + ": used of what could be had", c.Used, "", used, fmt.Sprintf("p99 %.0f ms, %d failed, %.2f requests per landed write", c.Latency.P99/1e6, c.Failed, c.RequestsPerLanded)},
				row{"— tokens admitted too much", max(0, -float64(c.Ledger.Lost)) / 1000, "", exactly(0), ""},
			)
		}
	}
	return nil
}

// simulation is what this table shows of scale's report.
type simulation struct {
	OfLimit    float64 `json:"admitted_of_limit"`
	MeanLoad   float64 `json:"partition_load_mean"`
	PeakLoad   float64 `json:"partition_load_peak"`
	WriteUnits float64 `json:"write_units_per_second"`
	Refused    float64 `json:"refused_writes_per_second"`
	Failed     int64   `json:"failed"`
	Offered    int64   `json:"offered"`
	Denied     int64   `json:"denied"`
	Granted    struct {
		P50 time.Duration `json:"p50_ns"`
		P99 time.Duration `json:"p99_ns"`
	} `json:"granted_after"`
	Ledger struct{ Lost int64 } `json:"ledger_millitokens"`

	Fleet       string      `json:"fleet"`
	Goals       []fleetGoal `json:"goals"`
	Attempts    float64     `json:"attempted_writes_per_second"`
	Landed      float64     `json:"landed_writes_per_second"`
	Throttled   float64     `json:"throttled_writes_per_second"`
	ReadUnits   float64     `json:"read_units_per_second"`
	LeastServed float64     `json:"least_served"`

	Prefetch time.Duration `json:"prefetch_ns"`
	Excess   float64       `json:"excess_allowed"`
	Served   float64       `json:"granted_from_memory_share"`
	Lapsed   float64       `json:"lapsed_share"`
}

// fleetGoal is what must come out of a named fleet, and what did.
type fleetGoal struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"at_least"`
}

func (r *reporter) scale(ctx context.Context) error {
	for _, call := range []string{"acquire", "wait"} {
		out, err := r.output(ctx, "scale", "-json", "-for=20s", "-call="+call)
		if err != nil {
			return err
		}
		var s simulation
		if err := json.Unmarshal(out, &s); err != nil {
			return err
		}
		r.add(
			row{"1000 processes, " + call + ": admitted ÷ limit", s.OfLimit, "", atLeast(0.99), fmt.Sprintf("of %d offered %d denied, %d failed; granted after p50 %v, p99 %v", s.Offered, s.Denied, s.Failed, s.Granted.P50.Round(time.Millisecond), s.Granted.P99.Round(time.Millisecond))},
			row{"— tokens admitted too much", max(0, -float64(s.Ledger.Lost)) / 1000, "", exactly(0), ""},
			row{"— partition's load", s.MeanLoad, "", atMost(0.5), fmt.Sprintf("%.0f units/s, %.0f refused/s, %.3f in the busiest second", s.WriteUnits, s.Refused, s.PeakLoad)},
		)
	}
	return nil
}
