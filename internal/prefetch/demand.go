package prefetch

import (
	"math"

	"github.com/dynalimit/dynalimit/internal/plan"
)

const (
	// memoryMS is the time over which calls are averaged, in ms.
	memoryMS = 1_000
	// trafficMS is the time over which a process compares itself with the bucket's
	// whole traffic, in ms.
	trafficMS = 10_000
	// leastCalls is the number of calls a second from which a prefetch pays. Rarer calls come one by one, so
	// that each needs a write of its own anyway.
	leastCalls = 4
)

// average is a sum that decays: an amount added some ms ago counts e^(-ms/memory).
type average struct {
	sum float64
	at  int64
}

// add adds n to the decayed sum at now, but not below 0. memory is the time of its decay in ms.
func (a *average) add(n float64, now, memory int64) {
	a.sum = max(0, a.sumAt(now, memory)+n)
	a.at = max(a.at, now)
}

// sumAt returns the sum, decayed up to an instant; it changes nothing.
func (a *average) sumAt(now, memory int64) float64 {
	if now <= a.at || a.sum == 0 {
		return a.sum
	}
	return a.sum * math.Exp(-float64(now-a.at)/float64(memory))
}

// demand is the recent need of calls of a bucket.
type demand struct {
	calls  average
	limits []limitDemand
}

// limitDemand is the demand of one limit.
type limitDemand struct {
	name string
	// used is the sum of the admitted amounts.
	used average
	// own is the change of the counter by this process's writes, all the whole change.
	own, all average
	// passed means that a level above counted the usage of the last call too.
	passed bool
}

// demandOf returns a pointer to the demand of a limit, and adds an empty one for a new limit. It looks at index
// place first. The pointer is valid until the next new limit.
func (d *demand) demandOf(name string, place int) *limitDemand {
	if place < len(d.limits) && d.limits[place].name == name {
		return &d.limits[place]
	}
	for i := range d.limits {
		if d.limits[i].name == name {
			return &d.limits[i]
		}
	}
	d.limits = append(d.limits, limitDemand{name: name})
	return &d.limits[len(d.limits)-1]
}

// CountAdmitted counts a call admitted at now, in ms, from memory or not, and its amounts in the demand. It
// takes nothing from the stock.
func (s *Stock) CountAdmitted(amounts []plan.Signed, now int64) { s.demand.countCall(amounts, 1, now) }

// UncountServed takes a recently served call that another bucket denied, and its amounts, off the demand,
// because only admitted calls justify a prefetch. It puts nothing back.
func (s *Stock) UncountServed(amounts []plan.Signed, now int64) { s.demand.countCall(amounts, -1, now) }

// countCall adds a call and its amounts to the averages, or with sign -1 subtracts one. It notes for each limit
// whether a level above counts the call too.
func (d *demand) countCall(amounts []plan.Signed, sign float64, now int64) {
	d.calls.add(sign, now, memoryMS)
	for i := range amounts {
		l := d.demandOf(amounts[i].Name, i)
		l.used.add(sign*float64(amounts[i].Amount), now, memoryMS)
		l.passed = amounts[i].Passed > 0
	}
}

// RecordTraffic adds a change of a limit's counter, all, and this process's part of it, own, to the averages,
// both in millitokens. A negative one counts as 0.
func (s *Stock) RecordTraffic(name string, own, all, now int64) {
	l := s.demand.demandOf(name, 0)
	l.own.add(float64(max(0, own)), now, trafficMS)
	l.all.add(float64(max(0, own, all)), now, trafficMS)
}

// shareOfTraffic returns this process's share of the traffic of a limit, from 0 to 1; 1 without known traffic.
func (l *limitDemand) shareOfTraffic(now int64) float64 {
	all := l.all.sumAt(now, trafficMS)
	if all <= 0 {
		return 1
	}
	return min(1, l.own.sumAt(now, trafficMS)/all)
}
