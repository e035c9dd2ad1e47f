package keeper

import (
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/program"
)

// report is the result of a load.
type report struct {
	byKind [kinds]tally
	took   [kinds]latency.Summary
	// values are named in docs/performance.md.
	values program.Values
}

// units begin with the kind of the request.
var units = [kinds]string{selection: "select", submission: "submit"}

// newReport computes the values of a measurement, per second and per call, from the answers (came) and the
// resources used (u). With s.Virtual it omits processor times.
func newReport(s settings, came *outcome, u used) *report {
	seconds := max(s.For, came.elapsed).Seconds()
	submitted, selected := float64(came.byKind[submission].done), float64(came.byKind[selection].done)
	writes, reads := u.Meter.WriteUnits()/seconds, u.Meter.ReadUnits()/seconds
	month := monthlyBill(writes, reads, float64(u.Items)/seconds, float64(u.Bytes)/seconds)
	r := &report{byKind: came.byKind, values: program.Values{
		"failed":         0,
		"kept-up":        1, // the least of answered ÷ due a second
		"writes/s":       writes,
		"reads/s":        reads,
		"requests/1000":  program.Ratio(1000*float64(u.Meter.Requests()), submitted+selected),
		"dollars/month":  month.total,
		"dollars-writes": month.writes,
		"dollars-reads":  month.reads,
		"late-p99-ms":    program.Ms(came.late.Summary().P99), // delay of the load behind its schedule
		"conflicts":      program.Ratio(float64(u.Conflicts), float64(u.Transactions)),
		"throttled/s":    float64(u.Meter.Throttled()) / seconds,
		"wcu/submission": program.Ratio(u.Meter.WriteUnits(), submitted),
		"per-write":      program.Ratio(submitted, float64(u.Meter.Operations["TransactWriteItems"].Requests-u.Conflicts)),
	}}
	for k, t := range came.byKind {
		if t.due == 0 {
			continue
		}
		r.took[k] = t.took.Summary()
		// The last answers take as long as the others did. That is not a delay behind the schedule, but would
		// look like one in a run of a few seconds.
		inTime := float64(t.done) / float64(t.due) * s.For.Seconds() / max(s.For, came.elapsed-t.early).Seconds()
		r.values["failed"] += float64(t.failed + t.unsent)
		r.values["kept-up"] = min(r.values["kept-up"], inTime)
		r.values[units[k]+"s/s"], r.values[units[k]+"-p50-ms"], r.values[units[k]+"-p99-ms"] = float64(t.done)/seconds, program.Ms(r.took[k].P50), program.Ms(r.took[k].P99)
	}
	if !s.Virtual { // real processes have processor time
		r.values["store-cpu"], r.values["keeper-cpu"], r.values["client-cpu"] = u.Store.Seconds()/seconds, u.Keepers.Seconds()/seconds, u.Clients.Seconds()/seconds
	}
	return r
}

// firstError returns the error of a failed request, or "" if every request succeeded.
func (r *report) firstError() string {
	for _, t := range r.byKind {
		if t.firstError != "" {
			return t.firstError
		}
	}
	return ""
}
