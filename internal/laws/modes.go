package laws

import "github.com/dynalimit/dynalimit/internal/lane"

// Mode is the set of troubles in a history, apart from concurrent clients.
type Mode struct {
	// Name is the name of the mode in tests.
	Name string
	// skew is the greatest error of a clock, in ms either way.
	skew int64
	// latency is the longest flight of a request, in ms.
	latency int64
	faults  bool
	// Store, if set, wraps the store of clients, for example to leave a rule out.
	Store func(lane.Store) lane.Store
	// ahead lets limiters prefetch. Overstay, if above 0, multiplies the time for which they admit prefetched
	// tokens.
	ahead    bool
	Overstay int
	// overrides lets calls bring limits of their own.
	overrides bool
}

// Modes are the modes under which every law must hold.
var Modes = []Mode{
	{Name: "exact"},
	{Name: "latency", latency: 40},
	{Name: "skew", skew: 5000, overrides: true},
	{Name: "faults", faults: true, latency: 60},
	{Name: "everything", faults: true, latency: 60, skew: 5000, overrides: true},
	{Name: "prefetch", ahead: true},
	{Name: "prefetch and everything", ahead: true, faults: true, latency: 60, skew: 5000, overrides: true},
}

// Skewed returns the mode "skew": clocks up to 5 s wrong, and calls that bring their own limits.
func Skewed() Mode { return Modes[2] }

// Prefetching returns the mode with prefetching limiters, and no other trouble.
func Prefetching() Mode { return Modes[len(Modes)-2] }
