package scale

import "time"

// partition is the throughput of a storage partition in one direction. It is a token bucket with a burst of
// some seconds. A request beyond it is throttled and consumes nothing.
type partition struct {
	perSecond float64
	most      float64
	units     float64
	at        time.Time

	// asked and throttled count the requests since the last reset.
	asked, throttled int64
	// load is the units used in each second since the start.
	began time.Time
	load  []float64
}

// newPartition returns a full partition; holds is its burst in seconds of throughput, at least one. A perSecond
// of 0 means no bound. DynamoDB grants a burst as far as it can, up to 300 seconds.
func newPartition(perSecond, holds float64, now time.Time) *partition {
	most := perSecond * max(1, holds)
	return &partition{perSecond: perSecond, most: most, units: most, at: now, began: now}
}

// bounded reports whether the partition throttles at all.
func (p *partition) bounded() bool { return p.perSecond > 0 }

// take consumes units of throughput at the time now, which never goes back, and counts the request. It returns
// false, and consumes nothing, if the partition throttles.
func (p *partition) take(units float64, now time.Time) bool {
	p.asked++
	if !p.bounded() {
		return true
	}
	p.units = min(p.most, p.units+now.Sub(p.at).Seconds()*p.perSecond)
	p.at = now
	if p.units < units {
		p.throttled++
		return false
	}
	p.units -= units
	second := int(now.Sub(p.began) / time.Second)
	for len(p.load) <= second {
		p.load = append(p.load, 0)
	}
	p.load[second] += units
	return true
}

// reset sets the counts of requests to 0. The load of past seconds stays.
func (p *partition) reset() { p.asked, p.throttled = 0, 0 }

// loadBetween returns the partition's mean load a second, and the highest, over the seconds from up to, but not
// including, to. Both are shares of the ceiling, and 0 without a ceiling.
func (p *partition) loadBetween(from, to int) (mean, peak float64) {
	if !p.bounded() {
		return 0, 0
	}
	for second := from; second < to && second < len(p.load); second++ {
		mean += p.load[second]
		peak = max(peak, p.load[second])
	}
	return mean / float64(to-from) / p.perSecond, peak / p.perSecond
}
