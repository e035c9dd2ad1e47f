package plan

import (
	"math"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// A bucket is one item on one partition, whose throughput all processes share.
// While it does not throttle, nobody paces anything. Once it does, a lane leaves an
// interval between the starts of its writes: as long as throttling asks for, which
// finds the ceiling, and no shorter than its fair part of the partition, which it
// reads off the counters. Callers that come meanwhile ride together. Everything here
// is pure; instants and times are in µs, of a clock that never goes back and has
// passed 0.

const (
	// second is a second.
	second = 1_000_000
	// pacingGrows is what each throttled write makes of the interval, at least
	// pacingTrips round trips and at most mostPacing; it loses pacingFades of itself
	// a second of time: by landed write, the busy lanes would take everything.
	pacingGrows = 1.25
	pacingTrips = 1.5
	mostPacing  = 2 * second
	pacingFades = 0.03
	// leastPacing is the interval below which a lane is not paced any more.
	leastPacing = second / 1000
	// fairFor is how long after throttling a lane keeps to its fair part, of
	// fairWrites a second of a partition that takes 1,000, at most mostFair between
	// two writes; not within fairAgain of a denial, for who is denied writes little.
	fairFor    = 60 * second
	fairAgain  = 2 * second
	fairWrites = 800
	mostFair   = second / 10
	// paceOver is over how long the shares of what is taken are averaged, paceSample
	// the least time between two samples.
	paceOver   = 10 * second
	paceSample = second / 10
	// firstPause bounds the pause after a request that was throttled, doubled by each
	// in a row up to mostPause.
	firstPause = second / 100
	mostPause  = second
)

// Pacing is what a lane knows of the throughput that its bucket's partition leaves it.
// The zero value is that of a lane that was never throttled.
type Pacing struct {
	// Throttled is when a request was last throttled, 0 for never. Reads means that it
	// was a read.
	Throttled int64
	Reads     bool
	// throttledInterval is the interval that throttling asked for at throttledAt, when a
	// write was last throttled.
	throttledInterval, throttledAt int64
	// lastDenial is when the lane last denied a take.
	lastDenial int64
	// lastStart is when the last write started. mayStartAt, unless it is 0, is when the
	// next write may start, whatever the interval says.
	lastStart, mayStartAt int64
	// throttledInRow counts the requests throttled in a row.
	throttledInRow int

	// sample is the last sampled image, sampledAt when it was sampled, and ownSince what
	// this lane took since. all and own are the averages of what everybody and this lane
	// take, in bursts a second.
	sample    *schema.Image
	sampledAt int64
	ownSince  float64
	all, own  float64
}

// Interval is the least time between the starts of two writes, 0 for none.
func (p Pacing) Interval(now int64) int64 {
	if p.throttledAt == 0 {
		return 0
	}
	gap := int64(float64(p.throttledInterval) * math.Exp(-pacingFades*seconds(now-p.throttledAt)))
	if gap < leastPacing {
		gap = 0
	}
	if now-p.throttledAt >= fairFor || p.lastDenial > 0 && now-p.lastDenial <= fairAgain || p.own <= 0 || p.all <= 0 {
		return gap
	}
	return max(gap, int64(min(p.all/p.own/fairWrites*second, mostFair)))
}

// Over reports whether the lane need not be paced any more.
func (p Pacing) Over(now int64) bool {
	return p.Interval(now) == 0 && now-p.Throttled >= fairFor && p.mayStartAt <= now
}

// Left is how long it takes until the next write may start; 0 or less means at once.
func (p Pacing) Left(now int64) int64 {
	if p.mayStartAt > 0 {
		return p.mayStartAt - now
	}
	return p.lastStart + p.Interval(now) - now
}

// Start is the pacing once a write starts.
func (p Pacing) Start(now int64) Pacing {
	p.lastStart, p.mayStartAt = now, 0
	return p
}

// Again is the pacing after a refused write, which is decided again at once.
func (p Pacing) Again(now int64) Pacing {
	p.mayStartAt = now
	return p
}

// Deny is the pacing once the lane has denied a take.
func (p Pacing) Deny(now int64) Pacing {
	p.lastDenial = now
	return p
}

// ThrottleWrite is the pacing after a throttled write that took trip. chance, in [0, 1),
// spreads processes that were throttled together.
func (p Pacing) ThrottleWrite(now, trip int64, chance float64) Pacing {
	grown := max(pacingGrows*float64(p.Interval(now)), pacingTrips*float64(trip))
	p.throttledInterval, p.throttledAt = int64(min(grown, mostPacing)), now
	p.Throttled, p.Reads = now, false
	return p.pause(now, chance)
}

// ThrottleRead is the pacing after a throttled read. Reads back off as writes do, but
// the interval stays as it is.
func (p Pacing) ThrottleRead(now int64, chance float64) Pacing {
	p.Throttled, p.Reads = now, true
	return p.pause(now, chance)
}

// pause sets when a throttled request is decided again.
func (p Pacing) pause(now int64, chance float64) Pacing {
	rest := max(p.Interval(now)/2, int64(min(firstPause<<min(p.throttledInRow, 7), mostPause)))
	p.throttledInRow++
	p.mayStartAt = now + int64(float64(rest)*(1+chance)/2)
	return p
}

// Take is the pacing after one of the lane's own writes has landed.
func (p Pacing) Take(s Rows) Pacing {
	if p.sample == nil {
		return p
	}
	for _, n := range s {
		if i := p.sample.Set.Index(n.Name); i >= 0 {
			p.ownSince += bursts(n.Consumed(), p.sample.Limits[i].Burst)
		}
	}
	return p
}

// Beside is the pacing after this process has written sums beside the lane that are no
// traffic: they were used some time ago.
func (p Pacing) Beside(s Rows) Pacing {
	if p.sample == nil {
		return p
	}
	sample := *p.sample
	sample.Limits = slices.Clone(sample.Limits)
	for _, n := range s {
		if i := sample.Set.Index(n.Name); i >= 0 {
			sample.Limits[i].Consumed += n.Consumed()
		}
	}
	p.sample = &sample
	return p
}

// See is the pacing after an answer has shown the bucket.
func (p Pacing) See(image *schema.Image, now int64) Pacing {
	p.throttledInRow = 0
	if image == nil {
		p.sample = nil
		return p
	}
	if !p.continues(image) {
		p.sample, p.sampledAt, p.ownSince = image, now, 0
		return p
	}
	passed := now - p.sampledAt
	if passed < paceSample {
		return p
	}
	all := 0.0
	for i := range image.Limits {
		all += bursts(image.Limits[i].Consumed-p.sample.Limits[i].Consumed, image.Limits[i].Burst)
	}
	part := 1 - math.Exp(-float64(passed)/paceOver)
	p.all += part * (all/seconds(passed) - p.all)
	p.own += part * (p.ownSince/seconds(passed) - p.own)
	p.sample, p.sampledAt, p.ownSince = image, now, 0
	return p
}

// continues reports whether the counters of an image go on from those of the last
// sample.
func (p Pacing) continues(image *schema.Image) bool {
	return p.sample != nil && p.sample.Set == image.Set && string(p.sample.Of()) == string(image.Of())
}

// bursts converts an amount into bursts of its limit, so that amounts of different
// limits can be added.
func bursts(amount, burst int64) float64 { return float64(amount) / float64(max(1, burst)) }

func seconds(time int64) float64 { return float64(time) / second }
