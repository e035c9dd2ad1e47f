package usage

import "github.com/dynalimit/dynalimit/internal/schema"

// NewTally is a sum of nothing.
func NewTally() schema.UsageSum {
	return schema.UsageSum{
		Net: map[string]int64{}, Unrecorded: map[string]int64{}, Unseen: map[string]int64{}, Pending: map[string]int64{},
	}
}

// AddSnapshot adds an hour of an entity to a sum: the growth of its counters since the hour
// before. The caller counts the entities.
func AddSnapshot(to *schema.UsageSum, u *schema.UsageSnapshot) {
	for name, s := range u.Spans {
		unrecorded := saturatedSum(s.Missing, u.Gaps[name])
		to.Net[name] = saturatedSum(to.Net[name], saturatedSum(s.Net, unrecorded))
		addTo(to.Unrecorded, name, unrecorded)
		addTo(to.Unseen, name, s.Unseen)
	}
}

// AddSum adds another sum.
func AddSum(to, more *schema.UsageSum) {
	for name, n := range more.Net {
		to.Net[name] = saturatedSum(to.Net[name], n)
	}
	AddCounts(to.Unrecorded, more.Unrecorded)
	AddCounts(to.Unseen, more.Unseen)
	AddCounts(to.Pending, more.Pending)
}

// AddCounts adds numbers by limit; those of 0 add no limit.
func AddCounts(to, more map[string]int64) {
	for name, n := range more {
		addTo(to, name, n)
	}
}

func addTo(to map[string]int64, name string, n int64) {
	if n != 0 {
		to[name] = saturatedSum(to[name], n)
	}
}
