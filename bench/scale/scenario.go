package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// fleet is some processes on one bucket.
type fleet struct {
	name      string
	processes int
	each      float64
	// limit is the tokens a second of the bucket.
	limit float64
	goals []goal
}

// scenario is a named set of fleets.
type scenario struct {
	fleets []fleet
	// setting makes of a fleet's settings those of the scenario.
	setting func(s *settings)
}

// scenarios by name; docs/performance.md shows what comes out.
var scenarios = map[string]*scenario{
	"A": {setting: popular, fleets: []fleet{
		{name: "A: 50 × 100/s below the limit", processes: 50, each: 100, limit: 10_000, goals: append(belowLimit(100*time.Millisecond), throttledWrites(5))},
	}},
	"A-1s": {setting: ahead(time.Second), fleets: []fleet{
		{name: "A, Prefetch 1 s: 50 × 100/s below the limit", processes: 50, each: 100, limit: 10_000, goals: []goal{failed(0), load(0.15), served(0.99), within()}},
	}},
	"A-250ms": {setting: ahead(250 * time.Millisecond), fleets: []fleet{
		{name: "A, Prefetch 250 ms: 50 × 100/s below the limit", processes: 50, each: 100, limit: 10_000, goals: []goal{failed(0), load(0.5), served(0.99), within()}},
	}},
	"A2": {setting: popular, fleets: []fleet{
		{name: "A2: 200 × 25/s below the limit", processes: 200, each: 25, limit: 10_000, goals: belowLimit(500 * time.Millisecond)},
		{name: "A2: 1,000 × 5/s below the limit", processes: 1000, each: 5, limit: 10_000, goals: belowLimit(2500 * time.Millisecond)},
	}},
	"B": {setting: scarce, fleets: []fleet{
		{name: "B: 50 × 100/s, 2.5 times the limit", processes: 50, each: 100, limit: 2000, goals: []goal{failed(0), admitted(0.99), p99(300 * time.Millisecond)}},
	}},
	"B-real": {setting: func(s *settings) {
		scarce(s)
		s.Real, s.WarmUp, s.For = true, min(s.WarmUp, 5*time.Second), min(s.For, 10*time.Second)
	}, fleets: []fleet{
		{name: "B: 8 × 625/s, 2.5 times the limit", processes: 8, each: 625, limit: 2000, goals: []goal{failed(0), admitted(0.99), p99(300 * time.Millisecond)}},
	}},
	"C": {setting: func(s *settings) { scarce(s); s.Call, s.Patience = "wait", time.Second }, fleets: []fleet{
		{name: "C: 1,000 × 0.3/s wait up to 1 s for 200/s", processes: 1000, each: 0.3, limit: 200, goals: []goal{load(0.6), throttledWrites(0), admitted(0.99)}},
	}},
	"D": {setting: scarce, fleets: []fleet{
		{name: "D: 10,000 × 0.3/s, 15 times the limit", processes: 10_000, each: 0.3, limit: 200, goals: []goal{failed(0.01), admitted(0.99), p99(50 * time.Millisecond)}},
	}},
	"F": {setting: full, fleets: []fleet{
		fullFleet(10, 10, 1.2), fullFleet(10, 10, 20), fullFleet(200, 20, 1.2), fullFleet(200, 20, 20), fullFleet(1000, 5, 1.2), fullFleet(1000, 5, 20),
	}},
	"F-real": {setting: func(s *settings) { full(s); s.Real = true }, fleets: []fleet{
		fullFleet(8, 150, 1.2), fullFleet(8, 150, 4), fullFleet(60, 20, 1.2), fullFleet(60, 20, 4), fullFleet(200, 10, 1.2), fullFleet(200, 10, 4),
	}},
}

// names are those of the scenarios.
func names() string { return strings.Join(slices.Sorted(maps.Keys(scenarios)), ", ") }

// belowLimit is what must come out where only the partition is scarce.
func belowLimit(within time.Duration) []goal {
	return []goal{failed(0), p99(within)}
}

// fullFleet offers calls to a bucket that refills so many times as much.
func fullFleet(processes int, each, times float64) fleet {
	return fleet{
		name:      fmt.Sprintf("F: %d × %g/s on a full bucket, limit %g ×", processes, each, times),
		processes: processes, each: each, limit: times * float64(processes) * each,
		goals: []goal{perGrant(1.15), failed(0), p99(20 * time.Millisecond)},
	}
}

// popular is a bucket that has a minute's burst and stays nearly full: what is
// scarce is the partition. A call may wait for longer than usual for its turn.
func popular(s *settings) {
	s.Start, s.Burst, s.Timeout = "full", 60*s.Rate, 5*time.Second
	s.For = min(s.For, 15*time.Second)
}

// ahead is a popular bucket with Prefetch, that never gets full in the measured time:
// what it loses then is what lapses.
func ahead(horizon time.Duration) func(s *settings) {
	return func(s *settings) {
		popular(s)
		s.Start, s.Prefetch = "part", horizon
	}
}

// scarce is a bucket of a second's burst that is always empty.
func scarce(s *settings) {
	s.Start = "empty"
	s.For = min(s.For, 20*time.Second)
}

// full is a bucket of a second's burst that is nearly full, as most in production
// are, without a bound on the partition. Times that a throttled partition needs to
// settle are cut short.
func full(s *settings) {
	s.Start, s.Partition, s.Reads = "full", 0, 0
	s.WarmUp, s.For = min(s.WarmUp, time.Second), min(s.For, 4*time.Second)
}

// runs are the settings to run: of the scenario, or these.
func (s settings) runs() []settings {
	named := scenarios[s.scenario]
	if named == nil {
		return []settings{s}
	}
	all := make([]settings, len(named.fleets))
	for i, f := range named.fleets {
		all[i] = s.as(f)
		named.setting(&all[i])
	}
	return all
}

// as are the settings with a fleet, each request 2 to 8 ms under way.
func (s settings) as(f fleet) settings {
	s.fleet, s.goals = f.name, f.goals
	s.Processes, s.Each, s.Rate, s.Burst, s.Call = f.processes, f.each, int64(f.limit), int64(f.limit), "acquire"
	s.Partition, s.Reads, s.Latency, s.Spread = 1000, 3000, 5*time.Millisecond, 0.6
	return s
}
