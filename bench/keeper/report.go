package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
)

// report is what came of a load.
type report struct {
	settings
	Name   string   `json:"name,omitempty"`
	Routes []answer `json:"routes"`
	// Late is how far behind its schedule the load itself was, and so no fault of the
	// keeper's; it is part of every request's time.
	Late latency.Summary `json:"load_late"`

	// Requests are those of the store in all; the units are those of a submission with
	// all that it brings about, and of a second.
	Requests            int64   `json:"store_requests"`
	UnitsPerSubmission  float64 `json:"write_units_per_submission"`
	PerTransaction      float64 `json:"submissions_per_transaction"`
	ReadUnits           float64 `json:"read_units_per_second"`
	WriteUnits          float64 `json:"write_units_per_second"`
	ReadsPerSelection   float64 `json:"read_units_per_selection"`
	BytesPerSubmission  float64 `json:"bytes_per_submission"`
	RequestsPerThousand float64 `json:"store_requests_per_1000_answers"`
	// ConflictShare is the share of the transactions that met another.
	ConflictShare float64 `json:"conflict_share"`

	// Processors are how many the store, the keepers and the clients had; zero in
	// virtual time.
	Processors processors `json:"processors"`
	// Month is what the load costs in a month, as it was here.
	Month bill `json:"dollars_a_month"`

	Goals  []judged `json:"goals,omitempty"`
	Missed []string `json:"missed"`
}

type processors struct {
	Store   float64 `json:"store"`
	Keepers float64 `json:"keepers"`
	Clients float64 `json:"clients"`
}

// answer is what came of the requests of one route.
type answer struct {
	Route     string          `json:"route"`
	Due       float64         `json:"due_per_second"`
	PerSecond float64         `json:"answered_per_second"`
	Answered  int             `json:"answered"`
	Failed    int             `json:"failed"`
	Unsent    int             `json:"unsent"`
	Error     string          `json:"error,omitempty"`
	Took      latency.Summary `json:"took"`
}

func newReport(s settings, came *outcome, u used) *report {
	r := &report{settings: s, Name: s.name, Late: came.late.Summary(), Requests: u.meter.Requests()}
	seconds := max(s.For, came.elapsed).Seconds()
	answering := max(s.For, came.elapsed-s.tail()).Seconds()
	for k, t := range came.byKind {
		if t.due == 0 {
			continue
		}
		r.Routes = append(r.Routes, answer{
			Route: routes[k], Due: float64(t.due) / s.For.Seconds(), PerSecond: float64(t.done) / answering,
			Answered: t.done, Failed: t.failed, Unsent: t.unsent, Error: t.firstError, Took: t.took.Summary(),
		})
	}
	submitted, selected := float64(came.byKind[submission].done), float64(came.byKind[selection].done)
	r.WriteUnits, r.ReadUnits = u.meter.WriteUnits()/seconds, u.meter.ReadUnits()/seconds
	r.UnitsPerSubmission = ratio(u.meter.WriteUnits(), submitted)
	r.PerTransaction = ratio(submitted, float64(u.meter.Operations["TransactWriteItems"].Requests-u.conflicts))
	r.ReadsPerSelection = ratio(u.meter.ReadUnits(), selected)
	r.BytesPerSubmission = ratio(float64(u.size.bytes), submitted)
	r.RequestsPerThousand = ratio(1000*float64(r.Requests), submitted+selected)
	r.ConflictShare = ratio(float64(u.conflicts), float64(u.transactions))
	r.Month = monthly(r.WriteUnits, r.ReadUnits, float64(u.size.items)/seconds, float64(u.size.bytes)/seconds)
	if !s.Virtual {
		r.Processors = processors{Store: u.store.Seconds() / seconds, Keepers: u.keepers.Seconds() / seconds, Clients: u.clients.Seconds() / seconds}
	}
	for _, g := range s.goals {
		j := g.judge(r)
		r.Goals = append(r.Goals, j)
		if !j.holds() {
			r.Missed = append(r.Missed, fmt.Sprintf("%s: %.4g for %g", j.What, j.Value, j.Bound))
		}
	}
	return r
}

// tail is what the last requests take that keep nobody waiting: to linger, and to wait for a
// transaction, meet another and be sent. In a run of a few seconds it would look like falling
// behind.
func (s settings) tail() time.Duration { return s.Linger + 4*s.Latency }

func ratio(n, of float64) float64 {
	if of == 0 {
		return 0
	}
	return n / of
}

// route is what came of a kind of requests; a zero one if there were none.
func (r *report) route(k kind) answer {
	for _, a := range r.Routes {
		if a.Route == routes[k] {
			return a
		}
	}
	return answer{Route: routes[k]}
}

func (r *report) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s "+format+"\n", append([]any{name}, args...)...)
	}
	if r.Name != "" {
		line("run", "%s", r.Name)
	}
	line("setting", "%s", r.setting())
	for _, a := range r.Routes {
		line(a.Route, "%.0f/s due, %.0f/s answered; p50 %s, p99 %s, max %s; %d failed, %d unsent %s",
			a.Due, a.PerSecond, ms(a.Took.P50), ms(a.Took.P99), ms(a.Took.Max), a.Failed, a.Unsent, a.Error)
	}
	line("load", "behind its schedule by p50 %s, p99 %s", ms(r.Late.P50), ms(r.Late.P99))
	line("store", "%.2f write units a submission, %.1f submissions a transaction; %.1f write and %.2f read units a second; %.1f requests for 1,000 answers",
		r.UnitsPerSubmission, r.PerTransaction, r.WriteUnits, r.ReadUnits, r.RequestsPerThousand)
	if r.Busy > 0 {
		line("conflicts", "%.2f %% of the transactions", 100*r.ConflictShare)
	}
	if !r.Virtual {
		line("processors", "%.2f: %s", r.Processors.Store+r.Processors.Keepers+r.Processors.Clients, r.Processors.of(r.Processes))
	}
	line("month", "$%.2f: writes $%.2f, reads $%.2f, storage $%.2f (%.0f bytes a submission)",
		r.Month.Total, r.Month.Writes, r.Month.Reads, r.Month.Storage, r.BytesPerSubmission)
	if len(r.goals) > 0 {
		line("missed", "%d of %d goals %s", len(r.Missed), len(r.goals), strings.Join(r.Missed, "; "))
	}
	return b.String()
}

func (p processors) of(processes int) string {
	if processes == 0 {
		return "all of them this process"
	}
	return fmt.Sprintf("store %.2f, keepers %.2f, clients %.2f", p.Store, p.Keepers, p.Clients)
}

func (r *report) setting() string {
	how := fmt.Sprintf("%d processes", r.Processes)
	if r.Processes == 0 {
		how = "in this process"
	}
	if r.Virtual {
		how = fmt.Sprintf("%d processes in virtual time", max(1, r.Processes))
	}
	return fmt.Sprintf("%s, %d clients, %d apps of %d shards, %s metering, linger %v; ddbmem behind %v; %v after %v",
		how, r.Clients, r.Apps, r.Shards, r.Metering, r.Linger, r.Latency, r.For, r.WarmUp)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)) }
