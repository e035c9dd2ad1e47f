package main

import "time"

// fleet is some processes on one bucket that is full, of so many times the calls
// they offer.
type fleet struct {
	processes int
	each      float64
	times     float64
}

// scenario is a named set of fleets.
type scenario struct {
	real   bool
	fleets []fleet
}

// scenarios by name. F is what most buckets in production are: nearly full.
var scenarios = map[string]*scenario{
	"F": {fleets: []fleet{
		{10, 10, 1.2}, {10, 10, 20}, {200, 20, 1.2}, {200, 20, 20}, {1000, 5, 1.2}, {1000, 5, 20},
	}},
	"F-real": {real: true, fleets: []fleet{{60, 20, 1.2}, {60, 20, 4}, {200, 10, 1.2}, {200, 10, 4}}},
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
		all[i].Real = named.real
	}
	return all
}

// as are the settings with a fleet on a full bucket of a second's burst, each
// request 2 to 8 ms under way and no bound on the partition. Times that a
// throttled partition needs to settle are cut short.
func (s settings) as(f fleet) settings {
	s.Processes, s.Each, s.Call, s.Start = f.processes, f.each, "acquire", "full"
	s.Rate = int64(f.times * float64(f.processes) * f.each)
	s.Burst, s.Partition, s.Latency, s.Spread = s.Rate, 0, 5*time.Millisecond, 0.6
	s.WarmUp, s.For = min(s.WarmUp, time.Second), min(s.For, 4*time.Second)
	return s
}
