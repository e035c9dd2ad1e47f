package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
)

// report is what callers saw of one outage.
type report struct {
	settings
	Policy  string `json:"policy"`
	Failure string `json:"failure"`
	// First is the longest of the callers' first calls, Rest all later ones.
	First time.Duration   `json:"first_ns"`
	Rest  latency.Summary `json:"rest"`
	// Failed counts calls that failed, Unhelpful those without RetryAfter.
	Failed    int    `json:"failed"`
	Unhelpful int    `json:"unhelpful"`
	Error     string `json:"error,omitempty"`
	// Deadline says that a caller with 5 s was admitted.
	Deadline bool `json:"deadline_admitted"`
	// Normal is the time until the table answered again, Probe what was left
	// until the next probe.
	Normal time.Duration `json:"normal_ns"`
	Probe  time.Duration `json:"probe_ns"`
	// Used is what was admitted, Charged what the buckets counted, Doubt what may
	// have been charged; Local is what the small limit admitted. Whole tokens.
	Used    int64 `json:"used"`
	Charged int64 `json:"charged"`
	Doubt   int64 `json:"doubt"`
	Local   int64 `json:"local"`
	// Missed are the goals that were missed.
	Missed []string `json:"missed"`
}

func (r *report) doubt(h dynalimit.Health) { r.Doubt = h.Doubt[limitName] }

// sum adds what the callers noted, and judges it.
func (r *report) sum(c *callers) {
	r.First, r.Rest, r.Used = c.first, c.rest.Summary(), c.used
	r.Failed, r.Unhelpful = c.failed, c.unhelpful
	if c.firstError != nil {
		r.Error = c.firstError.Error()
	}
	r.judge()
}

// judge names the goals that were missed.
func (r *report) judge() {
	local, block := r.Policy == string(dynalimit.Local), r.Policy == string(dynalimit.Block)
	for _, goal := range []struct {
		name string
		met  bool
	}{
		{"first calls within 1.05 s", r.First <= 1050*time.Millisecond},
		{"the median of the rest within 10 µs", r.Rest.P50 <= 10*time.Microsecond},
		{"nobody fails", block || r.Failed == 0},
		{"a caller with 5 s is admitted", block || r.Deadline},
		{"p99 of errors within 100 µs", !block || r.Rest.P99 <= 100*time.Microsecond},
		{"errors say when to come back", !block || r.Unhelpful == 0},
		{"normal within one probe", r.Normal <= r.Probe+1200*time.Millisecond},
		{"used is told, give or take the doubt", max(r.Used-r.Charged, r.Charged-r.Used) <= r.Doubt},
		{"doubt is what was in flight", r.Doubt <= int64(2*r.Callers)},
		{"local within its share", !local || r.Local <= int64(smallLimit*share)},
	} {
		if !goal.met {
			r.Missed = append(r.Missed, goal.name)
		}
	}
}

// table is the reports as Markdown.
func table(all []*report) string {
	var b strings.Builder
	b.WriteString("| policy | failure | first, longest | rest p50 | rest p99 | later calls | failed, all | 5 s deadline | normal after (next probe in) | used | told | doubt | small limit admitted | missed |\n")
	b.WriteString("|---|---|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|---|\n")
	for _, r := range all {
		admitted := map[bool]string{true: "admitted", false: "failed"}[r.Deadline]
		fmt.Fprintf(&b, "| %s | %s | %v | %v | %v | %d | %d | %s | %v (%v) | %d | %d | %d | %d | %s |\n",
			r.Policy, r.Failure, r.First.Round(time.Millisecond), r.Rest.P50, r.Rest.P99, r.Rest.Count, r.Failed, admitted,
			r.Normal.Round(time.Millisecond), r.Probe.Round(time.Millisecond), r.Used, r.Charged, r.Doubt, r.Local, strings.Join(r.Missed, "; "))
	}
	return b.String()
}
