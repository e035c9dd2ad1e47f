package laws

import "github.com/dynalimit/dynalimit/internal/lane"

// Mode says what a history has besides concurrent clients.
type Mode struct {
	// Name is the mode's in the names of tests.
	Name string
	// skew is how far clocks may be off, in ms either way.
	skew int64
	// latency is how long a request may be under way, in ms.
	latency int64
	faults  bool
	// Store, if set, wraps what clients send through: one that leaves a rule out.
	Store func(lane.Store) lane.Store
	// ahead lets limiters debit ahead of calls; Overstay, if above 0, lets them admit
	// what they debited for so many times longer than they may.
	ahead    bool
	Overstay int
	// overrides lets calls bring limits of their own.
	overrides bool
}

// Modes are the histories that hold every law.
var Modes = []Mode{
	{Name: "exact"},
	{Name: "latency", latency: 40},
	{Name: "skew", skew: 5000, overrides: true},
	{Name: "faults", faults: true, latency: 60},
	{Name: "everything", faults: true, latency: 60, skew: 5000, overrides: true},
	{Name: "prefetch", ahead: true},
	{Name: "prefetch and everything", ahead: true, faults: true, latency: 60, skew: 5000, overrides: true},
}

// Skewed is the mode of clocks that are wrong, and of calls that bring limits of their own.
func Skewed() Mode { return Modes[2] }

// Prefetching is the mode of limiters that debit ahead, and of nothing else.
func Prefetching() Mode { return Modes[len(Modes)-2] }
