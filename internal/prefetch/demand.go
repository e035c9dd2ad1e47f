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
	// leastCalls is how many calls a second are worth debiting ahead for: those of
	// fewer come alone, whatever is debited.
	leastCalls = 4
)

// average is a sum that decays: what was added some ms ago counts e^(-ms/memory).
type average struct {
	sum float64
	at  int64
}

// add adds n at now.
func (a *average) add(n float64, now, memory int64) {
	a.sum = max(0, a.now(now, memory)+n)
	a.at = max(a.at, now)
}

// now is what the sum has decayed to at now.
func (a *average) now(now, memory int64) float64 {
	if now <= a.at || a.sum == 0 {
		return a.sum
	}
	return a.sum * math.Exp(-float64(now-a.at)/float64(memory))
}

// demand is how much calls need of a bucket.
type demand struct {
	calls  average
	limits []limitDemand
}

// limitDemand is demand of one limit.
type limitDemand struct {
	name string
	// used is what calls were admitted.
	used average
	// own is what this process's writes moved the counter by, all what the counter
	// moved by.
	own, all average
	// passed means that a level above counted what the last call used, too.
	passed bool
}

// of is the demand of a limit, which is looked for at place first.
func (d *demand) of(name string, place int) *limitDemand {
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

// Admitted counts a call that was admitted at now, from memory or not.
func (s *Stock) Admitted(amounts []plan.Signed, now int64) { s.demand.count(amounts, 1, now) }

// Withdrawn takes back the count of a call that was served lately and that another
// bucket denied, because nothing is debited ahead for calls that are not admitted.
func (s *Stock) Withdrawn(amounts []plan.Signed, now int64) { s.demand.count(amounts, -1, now) }

// count adds a call, or takes one away.
func (d *demand) count(amounts []plan.Signed, sign float64, now int64) {
	d.calls.add(sign, now, memoryMS)
	for i := range amounts {
		l := d.of(amounts[i].Name, i)
		l.used.add(sign*float64(amounts[i].Amount), now, memoryMS)
		l.passed = amounts[i].Passed > 0
	}
}

// Moved counts by how much a limit's counter has changed since it was last seen, and how
// much of that came from this process, in millitokens.
func (s *Stock) Moved(name string, own, all, now int64) {
	l := s.demand.of(name, 0)
	l.own.add(float64(max(0, own)), now, trafficMS)
	l.all.add(float64(max(0, own, all)), now, trafficMS)
}

// shareOfTraffic is this process's share of the traffic of a limit, above 0 and up to 1.
func (l *limitDemand) shareOfTraffic(now int64) float64 {
	all := l.all.now(now, trafficMS)
	if all <= 0 {
		return 1
	}
	return min(1, l.own.now(now, trafficMS)/all)
}
