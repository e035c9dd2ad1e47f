package main

import (
	"fmt"
	"strings"
)

// suite is a set of benchmarks of one folder that run together.
type suite struct {
	name, folder string
	args         []string
}

var suites = []suite{
	{"acquire", "bench", []string{"-test.bench=^BenchmarkAcquire$", "-test.benchtime=3s"}},
	{"acquire", "bench", []string{"-test.bench=Own|Denial|Prefetched|Arithmetic|InProcess", "-test.benchtime=500ms"}},
	{"memory", "bench", []string{"-test.bench=Heap", "-test.benchtime=1x"}},
	{"contend", "bench/contend", []string{"-test.bench=Contend/^(1x32|1x256|8x64|exhausted)$", "-test.benchtime=1x"}},
	{"spread", "bench/spread", []string{"-test.bench=Spread", "-test.benchtime=1x"}},
	{"beside", "bench/contend", []string{"-test.bench=Contend/^beside$", "-test.benchtime=1x", "-for=3s"}},
	{"scale", "bench/scale", []string{"-test.bench=Scale/^many-", "-test.benchtime=1x", "-for=20s"}},
	{"scale", "bench/scale", []string{"-test.bench=Scale/^(A|A-1s|A-250ms|A2)$", "-test.benchtime=1x", "-for=10s"}},
	{"scale", "bench/scale", []string{"-test.bench=Scale/^(B|C|crowd|F)$", "-test.benchtime=1x", "-for=10s"}},
	{"scale", "bench/scale", []string{"-test.bench=Scale/^D$", "-test.benchtime=1x", "-for=10s"}},
	{"keeper", "bench/keeper", []string{"-test.bench=Keeper/^linger$", "-test.benchtime=1x"}},
	{"keeper", "bench/keeper", []string{"-test.bench=Keeper/^(selection|submission)$", "-test.benchtime=1x"}},
	{"keeper", "bench/keeper", []string{"-test.bench=Keeper/^month$", "-test.benchtime=1x", "-warm-up=10s"}},
	{"crowd", "bench/crowd", []string{"-test.bench=Crowd", "-test.benchtime=1x"}},
	{"outage", "bench/outage", []string{"-test.bench=.", "-test.benchtime=1x"}},
}

// measure is a value of a benchmark with its bar. Units of the same benchmark are shown with it as a remark.
type measure struct {
	what, benchmark, unit string
	bar                   bar
	remark                string
}

// rows returns a row for each measure of the benchmarks that were run. A missing value fails its
// bound.
func rows(all map[string]metrics) []row {
	var out []row
	for _, m := range measures() {
		got, ok := all[m.benchmark]
		if !ok {
			continue
		}
		var notes []string
		for _, unit := range strings.Fields(m.remark) {
			notes = append(notes, number(got[unit])+" "+unit)
		}
		value, ok := got[m.unit]
		if !ok {
			notes, m.bar = append(notes, "no "+m.unit+" in the output"), exactly(1)
		}
		out = append(out, row{m.what, value, m.unit, m.bar, strings.Join(notes, ", ")})
	}
	return append(out, ratios(all)...)
}

// ratios returns rows that compare the limiter with others in the same benchmarks. It omits peers
// that were not run.
func ratios(all map[string]metrics) (out []row) {
	if allow := all["InProcess/x-time-rate/alone"]["ns/op"]; allow > 0 {
		out = append(out, row{"denial from memory ÷ x/time/rate.Allow", all["DenialFromMemory"]["ns/op"] / allow, "", bar{}, ""},
			row{"acquire from memory ÷ x/time/rate.Allow", all["Prefetched"]["ns/op"] / allow, "", bar{}, ""})
	}
	for _, m := range []struct {
		shape, peer string
		bar         bar
	}{
		{"1x32", "rueidis", atLeast(0.85)},
		{"1x256", "rueidis", atLeast(0.75)},
		{"4x32", "rueidis", atLeast(0.8)},
		{"1x256", "redis_rate", atLeast(1)},
		{"4x32", "redis_rate", atLeast(1)},
	} {
		of := "Contend/beside/5ms/" + m.shape + "/"
		if theirs, ok := all[of+m.peer]; ok {
			out = append(out, row{m.shape + " behind 5 ms: calls a second ÷ " + m.peer, all[of+"dynalimit"]["acquires/s"] / theirs["acquires/s"], "", m.bar, ""})
		}
	}
	for _, who := range []string{"alone", "many"} {
		ours, ok := all["InProcess/dynalimit-ddbmem/"+who]["ns/op"]
		if !ok {
			continue
		}
		for _, peer := range []string{"x-time-rate", "go-limiter-memory"} {
			theirs := all["InProcess/"+peer+"/"+who]["ns/op"]
			out = append(out, row{"in process, " + who + ": dynalimit on ddbmem ÷ " + peer, ours / theirs, "", bar{}, fmt.Sprintf("%s against %s ns/op", number(ours), number(theirs))})
		}
	}
	return out
}

// measures returns all rows of the report, with their benchmarks, units and bounds.
func measures() []measure {
	none := bar{}
	all := []measure{
		{"warm acquire ÷ bare UpdateItem on a stub server: CPU", "Acquire/server", "cpu-ratio", atMost(1.15), "ours-ns bare-ns"},
		{"— time, one goroutine", "Acquire/server", "time-ratio", atMost(1.1), ""},
		{"— on a transport that answers at once: CPU", "Acquire/stub", "cpu-ratio", none, "ours-ns bare-ns"},
		{"— — time", "Acquire/stub", "time-ratio", none, ""},
		{"— allocations more", "Acquire/stub", "more-allocs", atMost(60), "bare-allocs"},
		{"— on ddbmem: time", "Acquire/ddbmem", "time-ratio", none, "ours-ns bare-ns"},
		{"acquire without the SDK", "Own", "ns/op", none, "allocs/op"},
		{"denial from memory", "DenialFromMemory", "ns/op", atMost(600), ""},
		{"— allocations", "DenialFromMemory", "allocs/op", atMost(2), ""},
		{"— requests", "DenialFromMemory", "requests", exactly(0), ""},
		{"acquire from memory, Prefetch 1 s", "Prefetched", "ns/op", atMost(300), ""},
		{"— allocations", "Prefetched", "allocs/op", atMost(1), ""},
		{"— write units", "Prefetched", "wcu/op", atMost(0.01), ""},
		{"heap after 1,000,000 keys ÷ after 100,000", "Heap", "many/few", atMost(1.1), "many-MB few-MB"},
		{"1 process × 32 goroutines, 5 ms: p50 ÷ a bare UpdateItem's", "Contend/1x32", "p50/bare", atMost(1.25), "acquires/s callers/landed bare-ms"},
		{"1 process × 256 goroutines, 5 ms", "Contend/1x256", "acquires/s", atLeast(20_000), "callers/landed p50-ms"},
		{"— p50 ÷ a bare UpdateItem's", "Contend/1x256", "p50/bare", atMost(1.6), "bare-ms"},
		{"— p99", "Contend/1x256", "p99-ms", atMost(20), ""},
		{"— write units", "Contend/1x256", "wcu/op", atMost(0.02), ""},
		{"8 processes × 64 goroutines, 5 ms", "Contend/8x64", "acquires/s", atLeast(10_000), "callers/landed p50-ms"},
		{"— p99", "Contend/8x64", "p99-ms", atMost(50), ""},
		{"— requests for a landed write", "Contend/8x64", "requests/landed", atMost(1.05), ""},
	}
	all = append(all, spreadMeasures()...)
	all = append(all,
		measure{"20 slots, 40 processes, kills and lost answers: slots in use at once", "Crowd/slots", "most-at-once", atMost(20), "granted processes"},
		measure{"— all free after the last kill, in seconds", "Crowd/slots", "back-s", atMost(75), ""},
		measure{"2 processes × 50 jobs at 1,800 rpm with deadlines of 10 s: jobs that failed", "Crowd/deadlines", "failed", exactly(0), "granted"},
		measure{"2 processes × 10 workers that hold 6,000 and use 600: most ÷ least served", "Crowd/workers", "most/least", atMost(2), "granted"},
	)
	for _, part := range []string{"level", "wait", "spend", "claim"} {
		all = append(all, measure{"arithmetic of one limit: " + part, "Arithmetic/" + part, "ns/op", none, ""})
	}
	for _, call := range []string{"acquire", "wait"} {
		for _, m := range []measure{{benchmark: "empty", bar: exactly(1)}, {benchmark: "full", bar: atLeast(1 - 1.0/32)}} {
			name := "Contend/exhausted/" + call + "/" + m.benchmark
			all = append(all, measure{"exhausted, " + m.benchmark + " at the start, " + call, name, "used", m.bar, "p99-ms failed requests/landed"},
				measure{"— admitted too much", name, "above-limit", exactly(0), ""})
		}
	}
	return append(append(append(all, fleetMeasures()...), keeperMeasures()...), outageMeasures()...)
}

// spreadMeasures returns the measures of the suite spread.
func spreadMeasures() []measure {
	return []measure{
		{"10,000 keys, 32 callers, 5 ms: CPU of an acquire ÷ one POST of net/http", "Spread/keys", "sdk-cpu-ratio", atMost(4.5), "sdk-us post-us sdk-calls/s sdk-p50-ms sdk-allocs sdk-bytes"},
		{"— over leanddb", "Spread/keys", "lean-cpu-ratio", atMost(2.4), "lean-us lean-calls/s lean-p50-ms"},
		{"— — allocations", "Spread/keys", "lean-allocs", atMost(150), "post-allocs"},
		{"— — bytes", "Spread/keys", "lean-bytes", atMost(14_000), "post-bytes"},
		{"a light key beside 256 callers of 498 keys: p50 ÷ alone", "Spread/light", "sdk-p50-ratio", atMost(2), "sdk-alone-ms sdk-beside-ms"},
		{"— over leanddb", "Spread/light", "lean-p50-ratio", atMost(2), "lean-alone-ms lean-beside-ms"},
		{"a key that is called every 70 s: read units", "Spread/rare", "rcu/op", atMost(4), "wcu/op"},
		{"— round trips", "Spread/rare", "trips", atMost(1.05), ""},
	}
}

// fleetMeasures returns the measures of the suite scale.
func fleetMeasures() []measure {
	var all []measure
	add := func(name string, more ...measure) {
		what, remark := name, "p50-ms denied/call least-served writes/s landed/s refused/s throttled/s reads/s"
		for _, m := range append(more, measure{unit: "above-limit", bar: exactly(0)}) {
			all = append(all, measure{what, "Scale/" + name, m.unit, m.bar, remark})
			what, remark = "—", ""
		}
	}
	must := func(unit string, b bar) measure { return measure{unit: unit, bar: b} }
	none := must("failed/call", exactly(0))
	for _, call := range []string{"acquire", "wait"} {
		add("many-"+call+"/1000x0.3/limit=0.667x", must("of-limit", atLeast(0.99)), must("load", atMost(0.5)))
	}
	add("A/50x100/limit=2x", none, must("p99-ms", atMost(100)), must("throttled/s", atMost(5)))
	add("A-1s/50x100/limit=2x", none, must("load", atMost(0.15)), must("from-memory", atLeast(0.99)))
	add("A-250ms/50x100/limit=2x", none, must("load", atMost(0.5)), must("from-memory", atLeast(0.99)))
	add("A2/200x25/limit=2x", none, must("p99-ms", atMost(500)))
	add("A2/1000x5/limit=2x", none, must("p99-ms", atMost(2500)))
	add("B/50x100/limit=0.4x", none, must("of-limit", atLeast(0.99)), must("p99-ms", atMost(300)))
	add("C/1000x0.3/limit=0.667x", must("load", atMost(0.6)), must("throttled/s", exactly(0)), must("of-limit", atLeast(0.99)))
	add("crowd/1000x1/limit=0.2x", none, must("load", atMost(0.7)), must("throttled/s", exactly(0)), must("of-limit", atLeast(0.97)))
	add("D/10000x0.3/limit=0.0667x", must("failed/call", atMost(0.01)), must("of-limit", atLeast(0.99)), must("p99-ms", atMost(50)))
	for _, f := range []string{"10x10", "200x20", "1000x5"} {
		for _, times := range []string{"1.2", "20"} {
			add("F/"+f+"/limit="+times+"x", must("requests/op", atMost(1.15)), none, must("p99-ms", atMost(20)))
		}
	}
	return all
}

// keeperMeasures returns the measures of the suite keeper.
func keeperMeasures() []measure {
	var all []measure
	add := func(name, remark string, more ...measure) {
		name = "Keeper/" + name
		all = append(all, measure{name, name, "failed", exactly(0), remark}, measure{"— answered ÷ due", name, "kept-up", atLeast(0.99), ""})
		for _, m := range more {
			all = append(all, measure{"—", name, m.unit, m.bar, ""})
		}
	}
	const submitted = "submit-p50-ms submit-p99-ms wcu/submission per-write"
	for _, linger := range []string{"5ms", "15ms", "20ms", "40ms"} {
		add("linger/"+linger, submitted)
	}
	inTime := measure{unit: "submit-p99-ms", bar: atMost(20)}
	add("linger/10ms", submitted, inTime, measure{unit: "wcu/submission", bar: atMost(2.5)})
	for _, m := range []struct {
		name string
		most float64
	}{{"strict", 4.1}, {"strict-of-two", 4.1}, {"batch", 2.5}} {
		add("month/"+m.name, "dollars/month", measure{unit: "wcu/submission", bar: atMost(m.most)})
	}
	add("selection", "select-p50-ms keeper-cpu", measure{unit: "select-p99-ms", bar: atMost(2)}, measure{unit: "requests/1000", bar: atMost(1)})
	add("submission/1-app", submitted+" keeper-cpu", inTime)
	add("submission/1-app/linger=40ms", submitted+" keeper-cpu")
	add("submission/50-apps", submitted+" keeper-cpu", inTime)
	return all
}

// outageMeasures returns the measures of the suite outage, for each policy with each failure.
func outageMeasures() []measure {
	var all []measure
	for _, policy := range []string{"allow", "local", "block"} {
		for _, failure := range []string{"hang", "reset", "5xx", "refused", "writes", "credentials"} {
			name := "Outage/" + policy + "/" + failure
			all = append(all, measure{name + ": first calls", name, "first-ms", atMost(1050), "p99-us later normal-ms used doubt small"},
				measure{"— the median of the rest", name, "p50-us", atMost(10), ""},
				measure{"— answered after the next probe", name, "after-probe-ms", atMost(1200), ""},
				measure{"— used, but not told within the doubt", name, "untold", exactly(0), ""},
				measure{"— doubt: two for each caller at most", name, "doubt", atMost(512), ""})
			if policy == "block" {
				all = append(all, measure{"— errors", name, "p99-us", atMost(100), "failed"}, measure{"— without a time to come back", name, "unhelpful", exactly(0), ""})
				continue
			}
			all = append(all, measure{"— failed", name, "failed", exactly(0), ""}, measure{"— refused with 5 s", name, "refused-5s", exactly(0), ""})
			if policy == "local" {
				all = append(all, measure{"— of a limit of 100, within half", name, "small", atMost(50), ""})
			}
		}
	}
	return all
}
