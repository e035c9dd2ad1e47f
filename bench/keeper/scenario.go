package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget"
)

// variant is one run of a scenario: what differs from the defaults.
type variant struct {
	name  string
	set   func(s *settings)
	goals []goal
}

// The waits for company that there are without a setting: of dynalimit keeper serve, and of
// budget.Options.
const (
	serveLinger   = 10 * time.Millisecond
	libraryLinger = 40 * time.Millisecond
)

// scenarios by name; docs/performance.md and docs/cost.md show what comes out.
var scenarios = map[string][]variant{
	"selection": {{
		"model selection, 2,000/s from a warm cache",
		func(s *settings) { s.Select = 2000 },
		inTime(p99(selection, 2*time.Millisecond), fromCache),
	}},
	"submission": {{
		"submission, 500/s on one app",
		func(s *settings) { s.Submit = 500 },
		inTime(p99(submission, 20*time.Millisecond)),
	}, {
		"submission, 500/s on one app, linger 40 ms",
		func(s *settings) { s.Submit, s.Linger = 500, libraryLinger },
		inTime(),
	}, {
		"submission, 500/s on 50 apps",
		func(s *settings) { s.Submit, s.Apps = 500, 50 },
		inTime(p99(submission, 20*time.Millisecond)),
	}},
	"mixed": {{
		"mixed, 1,000 selections and 250 submissions a second on 10 apps",
		func(s *settings) { s.Select, s.Submit, s.Apps = 1000, 250, 10 },
		inTime(),
	}},
	"source": ofProcesses([]float64{.05, .1, .2, .4, .7, 1}, 4),
	"linger": ofLinger(500, 5*time.Millisecond, serveLinger, 15*time.Millisecond, 20*time.Millisecond, libraryLinger),
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
			inTime(),
		})
	}
	return all
}

// ofLinger are waits for company, in virtual time: what they cost in time, and save.
func ofLinger(rate float64, lingers ...time.Duration) (all []variant) {
	for _, linger := range lingers {
		goals := inTime()
		if linger == serveLinger {
			goals = inTime(p99(submission, 20*time.Millisecond), perSubmission(2.5))
		}
		all = append(all, variant{fmt.Sprintf("%g submissions a second, linger %v", rate, linger), func(s *settings) {
			s.Virtual, s.Submit, s.Linger, s.Clients = true, rate, linger, 1000
		}, goals})
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
					s.Processes, s.Submit, s.Shards, s.Linger = traffic.processes, traffic.rate, shards, libraryLinger
				},
				inTime(),
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
		}, inTime(perSubmission(m.most))})
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
			Processes: 1, Clients: 64, Apps: 1, Shards: 8, Latency: 5 * time.Millisecond, Linger: serveLinger,
			For: s.For, WarmUp: s.WarmUp, Seed: s.Seed, json: s.json, scenario: s.scenario, name: v.name, goals: v.goals,
		}
		v.set(&all[i])
	}
	return all
}
