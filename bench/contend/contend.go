package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// sample is how far all were at a time since the start, in tokens.
type sample struct {
	at                time.Duration
	admitted, allowed float64
}

// contend runs one contest.
func contend(ctx context.Context, s settings, st *store, stderr io.Writer) (*report, []sample, error) {
	start := startChildren
	if s.Processes == 0 {
		start = startInsiders
	}
	all, err := start(ctx, s, st)
	if err != nil {
		return nil, nil, err
	}
	defer all.dismiss()
	before, err := st.entries(ctx)
	if err != nil {
		return nil, nil, err
	}
	var meter ddbmem.Meter
	if st.db != nil {
		meter = st.db.Meter()
	}
	began := time.Now()
	p := newProgress(s, began, before, stderr)
	ends, err := all.run(ctx, p.note)
	if err != nil {
		return nil, nil, err
	}
	elapsed := time.Since(began)
	r := newReport(s, elapsed, ends)
	if st.db != nil {
		r.meter(st.db.Meter().Sub(meter))
	} else {
		r.count(ends)
	}
	after, err := st.entries(ctx)
	if err != nil {
		return nil, nil, err
	}
	to := time.Now().UnixMilli()
	for b := range before {
		a, err := ledger.Between(before[b], after[b], began.UnixMilli(), to)
		if err != nil {
			return nil, nil, err
		}
		r.Ledger = r.Ledger.Plus(a)
	}
	return r.finish(), p.samples, ctx.Err()
}

// progress gathers how far the limiters are, and prints it once a second.
type progress struct {
	settings settings
	began    time.Time
	stderr   io.Writer
	level    float64 // tokens at the start

	mu      sync.Mutex
	granted []int64
	printed time.Time
	sampled time.Time
	last    int64
	samples []sample
}

func newProgress(s settings, began time.Time, before []ledger.Entry, stderr io.Writer) *progress {
	p := &progress{settings: s, began: began, stderr: stderr, granted: make([]int64, s.callers()), printed: began}
	for _, e := range before {
		p.level += float64(e.Level(began.UnixMilli())) / 1000
	}
	p.samples = []sample{{allowed: p.level}}
	return p
}

func (p *progress) note(who int, granted int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.granted[who] = granted
	now := time.Now()
	sum := int64(0)
	for _, n := range p.granted {
		sum += n
	}
	at := now.Sub(p.began)
	if now.Sub(p.sampled) >= every {
		p.sampled = now
		p.samples = append(p.samples, sample{
			at: at, admitted: float64(sum * p.settings.Amount),
			allowed: p.level + at.Seconds()*float64(p.settings.Rate)*float64(p.settings.Buckets),
		})
	}
	if since := now.Sub(p.printed); since >= time.Second {
		fmt.Fprintf(p.stderr, "contend: %4.1fs  %d acquired, %.0f a second\n", at.Seconds(), sum, float64(sum-p.last)/since.Seconds())
		p.printed, p.last = now, sum
	}
}

// newReport adds up what the limiters did.
func newReport(s settings, elapsed time.Duration, ends []message) *report {
	r := &report{settings: s, Seconds: s.For.Seconds(), Elapsed: elapsed.Seconds()}
	hist := latency.New()
	for _, m := range ends {
		t := m.Tally
		r.Acquired += t.Granted
		r.Denied += t.Denied
		r.FromMemory += t.FromMemory
		r.Failed += t.Failed
		r.Writes = r.Writes.plus(t.Writes)
		hist.Add(latency.Import(t.Latency))
		if t.FirstError != "" && !slices.Contains(r.Errors, t.FirstError) {
			r.Errors = append(r.Errors, t.FirstError)
		}
	}
	r.Latency = hist.Summary()
	return r
}
