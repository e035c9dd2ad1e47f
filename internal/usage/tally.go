package usage

import "github.com/dynalimit/dynalimit/internal/schema"

// NewTally is a sum of nothing.
func NewTally() schema.UsageSum {
	return schema.UsageSum{
		Net: map[string]int64{}, Repaired: map[string]int64{}, Denied: map[string]int64{}, Missing: map[string]int64{}, Unseen: map[string]int64{}, Pending: map[string]int64{},
	}
}

// AddSnapshot adds an hour of an entity to a sum. How many entities it sums is up to the
// caller.
func AddSnapshot(to *schema.UsageSum, u *schema.UsageSnapshot) {
	for name, s := range u.Spans {
		to.Net[name] = added(to.Net[name], s.Net)
		addTo(to.Missing, name, s.Missing)
		addTo(to.Unseen, name, s.Unseen)
	}
	AddCounts(to.Repaired, u.Repaired)
}

// AddSum adds what another sum holds.
func AddSum(to, more *schema.UsageSum) {
	for name, n := range more.Net {
		to.Net[name] = added(to.Net[name], n)
	}
	AddCounts(to.Repaired, more.Repaired)
	AddCounts(to.Denied, more.Denied)
	AddCounts(to.Missing, more.Missing)
	AddCounts(to.Unseen, more.Unseen)
}

// AddCounts adds numbers by limit; those of 0 add no limit.
func AddCounts(to, more map[string]int64) {
	for name, n := range more {
		addTo(to, name, n)
	}
}

func addTo(to map[string]int64, name string, n int64) {
	if n != 0 {
		to[name] = added(to[name], n)
	}
}
