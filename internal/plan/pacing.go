package plan

import (
	"math"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// A bucket is one item on one partition, and all processes share the partition's throughput. While it does
// not throttle, no lane is paced. Once it does, a lane leaves an interval between the starts of its writes.
// The interval grows with each throttled write, which finds the ceiling. It is never shorter than the lane's
// fair part of the partition, computed from the counters. Callers that come meanwhile share a write.
// Everything here is pure. Instants and times are in µs of a clock that never goes back and has passed 0.

const (
	// second is a second in µs.
	second = 1_000_000
	// A throttled write multiplies the interval by pacingGrows. The result is at least pacingTrips round
	// trips and at most mostPacing. The interval loses the part pacingFades a second of time. It does not
	// fade by landed write, because then the busy lanes would take everything.
	pacingGrows = 1.25
	pacingTrips = 1.5
	mostPacing  = 2 * second
	pacingFades = 0.03
	// leastPacing is the interval below which pacing ends.
	leastPacing = second / 1000
	// fairFor is the time after throttling for which a lane keeps to its fair part. That part is of
	// fairWrites a second, of a partition that takes 1,000, with at most mostFair between two writes. The
	// rule pauses within fairAgain of a denial, because a lane that denies writes little.
	fairFor    = 60 * second
	fairAgain  = 2 * second
	fairWrites = 800
	mostFair   = second / 10
	// paceOver is the time over which consumption is averaged, paceSample the least time between two samples.
	paceOver   = 10 * second
	paceSample = second / 10
	// firstPause bounds the pause after a request that was throttled, doubled by each
	// in a row up to mostPause.
	firstPause = second / 100
	mostPause  = second
)

// Pacing is a lane's estimate of its share of the partition's throughput. The zero value belongs to a lane
// that was never throttled.
type Pacing struct {
	// Throttled is the instant of the last throttled request, 0 for never. Reads means that it was a read.
	Throttled int64
	Reads     bool
	// throttledInterval is the interval set by the last throttled write, at throttledAt.
	throttledInterval, throttledAt int64
	// lastDenial is the instant of the lane's last denial of a take.
	lastDenial int64
	// lastStart is the start of the last write. mayStartAt, unless it is 0, is the earliest start of the next
	// write and overrides the interval.
	lastStart, mayStartAt int64
	// throttledInRow counts the requests throttled in a row.
	throttledInRow int

	// sample is the last sampled image, sampledAt its instant, and ownSince this lane's consumption since
	// then. all and own are the average consumption of all processes and of this lane, in bursts a second.
	sample    *schema.Image
	sampledAt int64
	ownSince  float64
	all, own  float64
}

// Interval returns the least time between the starts of two writes, in µs; 0 without pacing. It fades by three
// percent a second. For a minute after throttling it is at least the lane's fair part, up to 100 ms, but not
// within two seconds of a denial.
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

// IsOver reports whether pacing has ended at now: a minute has passed since the last throttling, and neither an
// interval nor a pause is left.
func (p Pacing) IsOver(now int64) bool {
	return p.Interval(now) == 0 && now-p.Throttled >= fairFor && p.mayStartAt <= now
}

// Left returns the time until the next write may start, in µs; 0 or less means at once.
func (p Pacing) Left(now int64) int64 {
	if p.mayStartAt > 0 {
		return p.mayStartAt - now
	}
	return p.lastStart + p.Interval(now) - now
}

// RecordStart returns the pacing after the start of a write at now. The interval counts from then, and a pause
// after throttling ends.
func (p Pacing) RecordStart(now int64) Pacing {
	p.lastStart, p.mayStartAt = now, 0
	return p
}

// RecordRefusal returns the pacing after a refused write: the next write may start at now, without the
// interval.
func (p Pacing) RecordRefusal(now int64) Pacing {
	p.mayStartAt = now
	return p
}

// RecordDenial returns the pacing after the lane has denied a take. For two seconds the lane then need not keep
// to its fair part of the partition.
func (p Pacing) RecordDenial(now int64) Pacing {
	p.lastDenial = now
	return p
}

// ThrottleWrite returns the pacing after a throttled write that took trip, in µs, and records it in Throttled.
// The interval grows by a quarter, to at least one and a half trips and at most two seconds, and the lane
// pauses. chance, in [0, 1), spreads processes that were throttled together.
func (p Pacing) ThrottleWrite(now, trip int64, chance float64) Pacing {
	grown := max(pacingGrows*float64(p.Interval(now)), pacingTrips*float64(trip))
	p.throttledInterval, p.throttledAt = int64(min(grown, mostPacing)), now
	p.Throttled, p.Reads = now, false
	return p.pauseLane(now, chance)
}

// ThrottleRead returns the pacing after a throttled read, and records it in Throttled and Reads. The lane
// pauses as after a write, but the interval stays as it is. chance, in [0, 1), draws the pause.
func (p Pacing) ThrottleRead(now int64, chance float64) Pacing {
	p.Throttled, p.Reads = now, true
	return p.pauseLane(now, chance)
}

// pauseLane returns the pacing with a pause before the next request, and counts one more throttled request in a
// row. The pause is half to all of a rest, by chance. The rest is half the interval, and at least 10 ms doubled
// by each throttled request in a row, up to a second.
func (p Pacing) pauseLane(now int64, chance float64) Pacing {
	rest := max(p.Interval(now)/2, int64(min(firstPause<<min(p.throttledInRow, 7), mostPause)))
	p.throttledInRow++
	p.mayStartAt = now + int64(float64(rest)*(1+chance)/2)
	return p
}

// RecordWrite returns the pacing after one of the lane's own writes, with the sums s, has landed: they count as
// this lane's consumption. Before the first sampled image it changes nothing.
func (p Pacing) RecordWrite(s Rows) Pacing {
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

// RecordMaintenance returns the pacing after this process wrote pending updates, with the sums s, past the
// lane. It adds them to the sample's counters, so that they do not count as consumption now: their tokens were
// used some time ago.
func (p Pacing) RecordMaintenance(s Rows) Pacing {
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

// RecordImage returns the pacing after an answer showed the bucket, nil if it does not exist, and ends the row
// of throttled requests. At most every 100 ms it updates the averages of consumption by the image's counters.
// Another incarnation or set of limits starts a new sample.
func (p Pacing) RecordImage(image *schema.Image, now int64) Pacing {
	p.throttledInRow = 0
	if image == nil {
		p.sample = nil
		return p
	}
	if !p.continuesSample(image) {
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

// continuesSample reports whether an image has the same limits and the same incarnation as the last sample, so
// that their counters can be compared.
func (p Pacing) continuesSample(image *schema.Image) bool {
	return p.sample != nil && p.sample.Set == image.Set && string(p.sample.IncarnationID()) == string(image.IncarnationID())
}

// bursts returns an amount as a number of bursts of its limit, so that amounts of different limits can be
// added.
func bursts(amount, burst int64) float64 { return float64(amount) / float64(max(1, burst)) }

// seconds converts µs to seconds.
func seconds(time int64) float64 { return float64(time) / second }
