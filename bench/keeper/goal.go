package main

import (
	"fmt"
	"time"
)

// goal is what must come out of a run: a number of its report that is at most, or at least,
// a bound.
type goal struct {
	what    string
	value   func(r *report) float64
	bound   float64
	atLeast bool
}

// judged is a goal and what came out.
type judged struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"at_least"`
}

func (g goal) judge(r *report) judged {
	return judged{What: g.what, Value: g.value(r), Bound: g.bound, AtLeast: g.atLeast}
}

func (j judged) holds() bool {
	if j.AtLeast {
		return j.Value >= j.Bound
	}
	return j.Value <= j.Bound
}

// inTime are the goals of runs that are to keep up, and more.
func inTime(more ...goal) []goal { return append([]goal{noneFailed, keptUp}, more...) }

var noneFailed = goal{what: "requests failed or not sent", value: func(r *report) float64 {
	n := 0
	for _, a := range r.Routes {
		n += a.Failed + a.Unsent
	}
	return float64(n)
}}

var keptUp = goal{what: "answered a second ÷ due", bound: .99, atLeast: true, value: func(r *report) float64 {
	if len(r.Routes) == 0 {
		return 0
	}
	least := 1.0
	for _, a := range r.Routes {
		least = min(least, a.PerSecond/a.Due)
	}
	return least
}}

// p99 bounds how long requests of a kind take.
func p99(k kind, most time.Duration) goal {
	return goal{
		what:  fmt.Sprintf("p99 of %s, ms", routes[k]),
		value: func(r *report) float64 { return float64(r.route(k).Took.P99) / float64(time.Millisecond) },
		bound: float64(most) / float64(time.Millisecond),
	}
}

// fromCache is the goal of selections that ask the store for hardly anything.
var fromCache = goal{what: "requests of the store for 1,000 selections", value: func(r *report) float64 { return r.RequestsPerThousand }, bound: 1}

// perSubmission bounds the write units of a submission.
func perSubmission(most float64) goal {
	return goal{what: "write units a submission", value: func(r *report) float64 { return r.UnitsPerSubmission }, bound: most}
}
