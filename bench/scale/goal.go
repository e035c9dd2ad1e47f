package main

import "time"

// goal is what must come out of a scenario: a number of its report that is at
// most, or at least, a bound.
type goal struct {
	what    string
	value   func(r *report) float64
	bound   float64
	atLeast bool
}

// outcome is a goal and what came out.
type outcome struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"at_least"`
	Holds   bool    `json:"holds"`
}

func (g goal) judge(r *report) outcome {
	o := outcome{What: g.what, Value: g.value(r), Bound: g.bound, AtLeast: g.atLeast}
	o.Holds = o.Value <= o.Bound
	if g.atLeast {
		o.Holds = o.Value >= o.Bound
	}
	return o
}

// failed bounds the share of calls that end neither granted nor denied.
func failed(most float64) goal {
	return goal{what: "share failed", value: func(r *report) float64 { return r.FailedShare }, bound: most}
}

// admitted bounds from below what was admitted of the limit.
func admitted(least float64) goal {
	return goal{what: "admitted ÷ limit", value: func(r *report) float64 { return r.OfLimit }, bound: least, atLeast: true}
}

// p99 bounds how long grants take.
func p99(most time.Duration) goal {
	return goal{
		what:  "p99 of grants, ms",
		value: func(r *report) float64 { return float64(r.GrantedAfter.P99) / float64(time.Millisecond) },
		bound: float64(most) / float64(time.Millisecond),
	}
}

// throttledWrites bounds what the partition turns away a second.
func throttledWrites(most float64) goal {
	return goal{what: "throttled writes a second", value: func(r *report) float64 { return r.Throttled }, bound: most}
}

// load bounds the share of the partition's writes that are used.
func load(most float64) goal {
	return goal{what: "the partition's load", value: func(r *report) float64 { return r.MeanLoad }, bound: most}
}

// served bounds from below the share of the grants that need no request of their own.
func served(least float64) goal {
	return goal{what: "share of grants from memory", value: func(r *report) float64 { return r.ServedShare }, bound: least, atLeast: true}
}

// within bounds what is admitted above the limit to what Prefetch allows.
func within() goal {
	return goal{what: "tokens above limit + refill × Prefetch", value: func(r *report) float64 { return max(0, r.tooMuch()-r.Excess) }}
}

// perGrant bounds how many requests a grant costs.
func perGrant(most float64) goal {
	return goal{what: "requests a grant", value: func(r *report) float64 { return r.PerGrant }, bound: most}
}
