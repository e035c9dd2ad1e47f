package main

import "fmt"

// settings are one simulation: processes that call a bucket, and how it is shared.
type settings struct {
	Name      string
	Processes int
	// Scale is how many times as many processes, and groups, there are as are simulated: groups
	// are alike, so that a tenth of them loads a leaf as all do, and the root a tenth.
	Scale int
	// Each is how many calls a second a process makes, of one token each.
	Each float64
	// Groups is the number of leaves, 0 for one bucket that all processes write.
	Groups int
	// Split gives each group a bucket of its own with its part of the limit, and none a root.
	Split bool
	// Leaf and Process are the horizons, in ms: of a leaf, and of a process that
	// debits ahead; 0 for none.
	Leaf, Process int64
	// Carried counts the age of what a process holds from its debit at the root, and
	// lets it become as old as Leaf.
	Carried bool
	// Limit is the refill as a multiple of the calls, Burst the burst in seconds of
	// the refill.
	Limit, Burst float64
	// Hot is how often as much the processes of the first group call; the others
	// call less, so that the sum stays. 0 for all alike.
	Hot float64
	// Pulse, in s, lets everybody call twice as often for as long and then not at
	// all. 0 for steady calls.
	Pulse int
	// Empty begins with an empty bucket.
	Empty bool
	// WarmUp and For are the seconds before what is measured, and measured.
	WarmUp, For int
	Seed        uint64
}

// steady are the settings that the others differ from.
func steady(processes int, each float64, groups int, leaf, process int64) settings {
	return settings{
		Name: fmt.Sprintf("%d × %g/s", processes, each), Processes: processes, Each: each, Groups: groups, Leaf: leaf, Process: process,
		Limit: 1.25, Burst: 60, WarmUp: 10, For: 10, Seed: 1, Scale: 1,
	}
}

// scaled simulates a tenth of a fleet.
func (s settings) scaled() settings {
	s.Processes /= 10
	s.Groups /= 10
	s.Scale *= 10
	return s
}

// calls are a second, all together.
func (s settings) calls() float64 { return float64(s.Processes) * s.Each }

// refill is tokens a µs.
func (s settings) refill() float64 { return s.calls() * s.Limit / second }

// each is how many calls a second a process of a group makes at an instant.
func (s settings) each(group int, now int64) float64 {
	rate := s.Each
	if s.Hot > 0 {
		part := s.Hot / float64(s.Groups)
		rate *= (1 - part) * float64(s.Groups) / float64(s.Groups-1)
		if group == 0 {
			rate = s.Each * s.Hot
		}
	}
	if s.Pulse > 0 {
		rate *= 2
		if int(now/second)/s.Pulse%2 == 1 {
			rate = 0
		}
	}
	return rate
}
