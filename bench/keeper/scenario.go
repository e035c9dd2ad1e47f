package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget"
)

// goal is what must come out of a run.
type goal struct {
	what string
	met  func(r *report) bool
}

// allAnswered is the goal of runs that are to keep up.
var allAnswered = goal{"every request answered in time", func(r *report) bool {
	for _, a := range r.Routes {
		if a.Failed+a.Unsent > 0 || a.PerSecond < .99*a.Due {
			return false
		}
	}
	return len(r.Routes) > 0
}}

// p99 bounds how long requests of a kind take.
func p99(k kind, most time.Duration) goal {
	return goal{fmt.Sprintf("p99 of %s at most %v", routes[k], most), func(r *report) bool {
		a := r.route(k)
		return a.Answered > 0 && a.Took.P99 <= most
	}}
}

// fromCache is the goal of selections that ask the store for hardly anything.
var fromCache = goal{"at most 1 request of the store for 1,000 selections", func(r *report) bool { return r.RequestsPerThousand <= 1 }}

// perSubmission bounds the write units of a submission.
func perSubmission(most float64) goal {
	return goal{fmt.Sprintf("at most %g write units a submission", most), func(r *report) bool { return r.UnitsPerSubmission <= most }}
}

// variant is one run of a scenario: what differs from the defaults.
type variant struct {
	name  string
	set   func(s *settings)
	goals []goal
}

// scenarios by name; docs/performance.md and docs/cost.md show what comes out.
var scenarios = map[string][]variant{
	"selection": {{
		"model selection, 2,000/s from a warm cache",
		func(s *settings) { s.Select = 2000 },
		[]goal{allAnswered, p99(selection, 2*time.Millisecond), fromCache},
	}},
	"submission": {{
		"submission, 500/s on one app",
		func(s *settings) { s.Submit = 500 },
		[]goal{allAnswered, p99(submission, 20*time.Millisecond)},
	}, {
		"submission, 500/s on one app, linger 10 ms",
		func(s *settings) { s.Submit, s.Linger = 500, 10*time.Millisecond },
		[]goal{allAnswered, p99(submission, 20*time.Millisecond)},
	}, {
		"submission, 500/s on 50 apps",
		func(s *settings) { s.Submit, s.Apps = 500, 50 },
		[]goal{allAnswered, p99(submission, 20*time.Millisecond)},
	}},
	"mixed": {{
		"mixed, 1,000 selections and 250 submissions a second on 10 apps",
		func(s *settings) { s.Select, s.Submit, s.Apps = 1000, 250, 10 },
		[]goal{allAnswered},
	}},
	"source": ofProcesses([]float64{.05, .1, .2, .4, .7, 1}, 4),
	"linger": ofLinger(500, 5*time.Millisecond, 10*time.Millisecond, 15*time.Millisecond, 20*time.Millisecond, 40*time.Millisecond),
	"shards": ofShards(),
	"month":  ofMonth(),
}

// names are those of the scenarios.
func names() string { return strings.Join(slices.Sorted(maps.Keys(scenarios)), ", ") }

// ofProcesses are shares of the load that the source promises: 5,000 submissions and
// 10,000 selections a second.
func ofProcesses(shares []float64, processes int) (all []variant) {
	for _, share := range shares {
		all = append(all, variant{
			fmt.Sprintf("the source's load, %.0f %% of it", 100*share),
			func(s *settings) {
				s.Processes, s.Apps, s.Clients = processes, 20, 256
				s.Select, s.Submit = 10_000*share, 5_000*share
			},
			[]goal{allAnswered},
		})
	}
	return all
}

// ofLinger are waits for company, in virtual time: what they cost in time, and save.
func ofLinger(rate float64, lingers ...time.Duration) (all []variant) {
	for _, linger := range lingers {
		all = append(all, variant{fmt.Sprintf("%g submissions a second, linger %v", rate, linger), func(s *settings) {
			s.Virtual, s.Submit, s.Linger, s.Clients = true, rate, linger, 1000
		}, []goal{allAnswered}})
	}
	return all
}

// ofShards are traffics on one counter by how many shards it has, in virtual time: each
// transaction is on its shard for 4 ms.
func ofShards() (all []variant) {
	for _, traffic := range []struct {
		processes int
		rate      float64
	}{{1, 50}, {2, 200}, {4, 500}, {8, 1000}, {16, 2000}} {
		for _, shards := range []int{1, 8, 16, 64} {
			all = append(all, variant{
				fmt.Sprintf("%g submissions a second by %d processes, %d shards", traffic.rate, traffic.processes, shards),
				func(s *settings) {
					s.Virtual, s.Busy, s.Clients = true, 4*time.Millisecond, 1000
					s.Processes, s.Submit, s.Shards = traffic.processes, traffic.rate, shards
				},
				[]goal{allAnswered},
			})
		}
	}
	return all
}

// ofMonth is the source's load of which it gives the dollars a month: 10 submissions a
// second, and 4.3 million reads for selections, of which it takes two each.
func ofMonth() (all []variant) {
	const selections = 4.3e6 / 2
	for _, m := range []struct {
		name   string
		most   float64 // write units a submission
		adjust func(s *settings)
	}{
		{"strict", 4.1, func(*settings) {}},
		{"strict, in two processes", 4.1, func(s *settings) { s.Processes = 2 }},
		{"batch, linger 1 s", 2.5, func(s *settings) { s.Metering, s.Linger = budget.MeteringBatch, time.Second }},
		{"window", 2.1, func(s *settings) { s.Metering = budget.MeteringWindow }},
		{"none", 1.1, func(s *settings) { s.Metering = budget.MeteringNone }},
	} {
		all = append(all, variant{"the source's month: " + m.name, func(s *settings) {
			s.Virtual, s.Submit, s.Select = true, 10, selections/secondsOfMonth
			s.Sweep, s.For = time.Minute, max(s.For, 5*time.Minute)
			m.adjust(s)
		}, []goal{allAnswered, perSubmission(m.most)}})
	}
	return all
}

// runs are the settings to run: of the scenario, or these.
func (s settings) runs() []settings {
	variants := scenarios[s.scenario]
	if variants == nil {
		return []settings{s}
	}
	all := make([]settings, len(variants))
	for i, v := range variants {
		all[i] = settings{
			Processes: 1, Clients: 64, Apps: 1, Shards: 8, Latency: 5 * time.Millisecond,
			For: s.For, WarmUp: s.WarmUp, Seed: s.Seed, json: s.json, scenario: s.scenario, name: v.name, goals: v.goals,
		}
		v.set(&all[i])
	}
	return all
}
