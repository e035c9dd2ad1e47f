package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
)

// report is what came out of a simulation, of its measured time.
type report struct {
	settings
	counts
	// root and leaf are requests a second: the mean, and the busiest second, of the
	// root, or the buckets that there are, and of the busiest leaf.
	root, leaf load
	// lapsedShare is what lapsed of what was debited.
	lapsedShare float64
	// admittedOf is what was granted of what the limit and the calls allow.
	admittedOf float64
	// excess is the most that was admitted above the burst, in seconds of refill.
	excess float64
	// perMillion are write and read units for a million grants.
	writesPerMillion, readsPerMillion float64
	// least is the share of its calls that the group granted least was granted.
	least                   float64
	grants, misses, denials latency.Summary
	took                    time.Duration
}

// load is what a partition takes.
type load struct{ writes, peakWrites, reads, peakReads float64 }

// fits reports whether a partition takes it, with a fifth to spare.
func (l load) fits() bool { return l.writes <= 800 && l.peakWrites <= 1000 && l.peakReads <= 3000 }

func (l load) times(n float64) load {
	return load{l.writes * n, l.peakWrites * n, l.reads * n, l.peakReads * n}
}

func simulate(s settings) report {
	began := time.Now()
	f := newFleet(s)
	f.run()
	r := report{settings: s, counts: f.counts, grants: f.grants.Summary(), misses: f.misses.Summary(), denials: f.denials.Summary()}
	writes, reads := 0.0, 0.0
	r.root = f.busiest(f.bucketMeters(), &writes, &reads)
	if f.ofLeaf() {
		r.root = r.root.times(float64(s.Scale))
	}
	r.leaf = f.busiest(f.leafMeters(), &writes, &reads)
	r.lapsedShare = float64(f.lapsed-f.lapsedBefore) / float64(max(1, f.debited()-f.debitedBefore))
	had := s.refill() * second * float64(s.For)
	if !s.Empty {
		had += s.refill() * second * s.Burst
	}
	r.admittedOf = float64(f.granted) / min(had, float64(f.offered))
	r.excess = (f.most - s.refill()*second*s.Burst) / (s.refill() * second)
	r.writesPerMillion = writes * float64(s.For) / float64(f.granted) * 1e6
	r.readsPerMillion = reads * float64(s.For) / float64(f.granted) * 1e6
	r.least = 1
	for i, n := range f.group {
		r.least = min(r.least, float64(n)/float64(max(1, f.asked[i])))
	}
	r.took = time.Since(began)
	return r
}

func (f *fleet) bucketMeters() (all []*meter) {
	for _, b := range f.buckets {
		all = append(all, &b.meter)
	}
	return all
}

func (f *fleet) leafMeters() (all []*meter) {
	if f.ofLeaf() {
		for _, l := range f.leaves {
			all = append(all, &l.meter)
		}
	}
	return all
}

// busiest is the load of the busiest item; all of it is added to the sums.
func (f *fleet) busiest(all []*meter, writes, reads *float64) (l load) {
	for _, m := range all {
		w, peakW := rates(m.writes, f.WarmUp, f.WarmUp+f.For)
		r, peakR := rates(m.reads, f.WarmUp, f.WarmUp+f.For)
		*writes, *reads = *writes+w, *reads+r
		l = load{max(l.writes, w), max(l.peakWrites, peakW), max(l.reads, r), max(l.peakReads, peakR)}
	}
	return l
}

// head and row are a table of reports.
func head(w io.Writer) {
	fmt.Fprintln(w, "| what | groups | H leaf, process | root: writes (peak), reads a second | leaf: writes (peak), reads a second | granted: memory, leaf, after a fetch | p50, p99; after a fetch p50, p99 | denied: from memory, p99 | granted ÷ possible, least group | lapsed | excess, s of refill | write, read units a million | took |")
	fmt.Fprintln(w, "|---|---:|---|---|---|---|---|---|---|---:|---:|---:|---:|")
}

func (r report) row(w io.Writer) {
	part := func(n, of int64) float64 { return 100 * float64(n) / float64(max(1, of)) }
	ms := func(d time.Duration) int64 { return d.Round(time.Millisecond).Milliseconds() }
	fmt.Fprintf(w, "| %s | %d | %g, %g s | %.0f (%.0f), %.0f | %.0f (%.0f), %.0f | %.1f, %.1f, %.2f %% | %d, %d; %d, %d ms | %.1f %%: %.1f %%, %d ms | %.3f, %.2f | %.2f %% | %.2f | %.0f, %.0f | %.1f s |\n",
		r.Name, r.Groups*r.Scale, float64(r.Leaf)/1000, float64(r.Process)/1000,
		r.root.writes, r.root.peakWrites, r.root.reads, r.leaf.writes, r.leaf.peakWrites, r.leaf.reads,
		part(r.memory, r.granted), part(r.granted-r.memory-r.missed, r.granted), part(r.missed, r.granted),
		ms(r.grants.P50), ms(r.grants.P99), ms(r.misses.P50), ms(r.misses.P99),
		part(r.denied, r.offered), part(r.early, r.denied), ms(r.denials.P99),
		r.admittedOf, r.least, 100*r.lapsedShare, r.excess, r.writesPerMillion, r.readsPerMillion, r.took.Seconds())
}

// printTable simulates and prints a table.
func printTable(w io.Writer, all []settings) {
	head(w)
	for s := range slices.Values(all) {
		simulate(s).row(w)
	}
}
