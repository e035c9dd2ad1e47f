package budget

import "time"

// Stats are what a keeper did since it was made, with those of its As, and how near quotas
// are.
type Stats struct {
	// ConfigHits is how often the configuration of an app was known, ConfigMisses how
	// often a call waited for a read of it.
	ConfigHits, ConfigMisses int64
	// TotalHits is how often what a scope had spent was known, TotalMisses how often a call
	// waited for a query of it.
	TotalHits, TotalMisses int64
	// QuotaPercent says by label how much of its quota is spent, in percent with one
	// decimal: the highest over the apps for which this process queried the store in the last ten minutes. A
	// label without quotas has none.
	QuotaPercent map[string]float64
}

// nearFor is how long the quotas of an app are told after a query of them.
const nearFor = 10 * time.Minute

// nearness is how near an app was to its quotas when the store was queried.
type nearness struct {
	at, until time.Time // of that query; the end of its day
	percent   map[string]float64
}

// nearness is how much of its quotas each label has used.
func (o *outlook) nearness() *nearness {
	n := &nearness{at: o.at, until: o.resetAt, percent: map[string]float64{}}
	for _, l := range o.labels {
		if l.quota > 0 {
			n.percent[l.label] = l.spend.PercentOf(l.quota)
		}
	}
	return n
}

// holds reports whether the nearness is still worth telling.
func (n *nearness) holds(now time.Time) bool {
	return n != nil && now.Sub(n.at) < nearFor && now.Before(n.until)
}

// nearest is by label the highest of all apps.
func (s *standing) nearest(now time.Time) map[string]float64 {
	s.mu.Lock()
	views := s.views.Values()
	s.mu.Unlock()
	all := map[string]float64{}
	for _, v := range views {
		if n := v.near.Load(); n.holds(now) {
			for label, percent := range n.percent {
				all[label] = max(all[label], percent)
			}
		}
	}
	return all
}
