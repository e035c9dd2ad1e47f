package main

import "time"

// partition is the throughput of a storage partition: a token bucket that holds
// one second of it. A request beyond it is throttled and consumes nothing.
type partition struct {
	perSecond float64
	units     float64
	at        time.Time

	throttled int64
	// load is the units used in each second since the start.
	began time.Time
	load  []float64
}

func newPartition(perSecond float64, now time.Time) *partition {
	return &partition{perSecond: perSecond, units: perSecond, at: now, began: now}
}

// take uses units at now, which never goes back; false when it throttles.
func (p *partition) take(units float64, now time.Time) bool {
	p.units = min(p.perSecond, p.units+now.Sub(p.at).Seconds()*p.perSecond)
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

// since returns the mean and the highest load of the seconds from a second on
// up to another, as shares of the ceiling.
func (p *partition) since(from, to int) (mean, peak float64) {
	for second := from; second < to && second < len(p.load); second++ {
		mean += p.load[second]
		peak = max(peak, p.load[second])
	}
	return mean / float64(to-from) / p.perSecond, peak / p.perSecond
}
