package usage

import (
	"maps"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// NewTally returns a sum with empty maps and no units, without a series and a window.
func NewTally() schema.UsageSum {
	return schema.UsageSum{
		Net: map[string]int64{}, Unrecorded: map[string]int64{}, Unseen: map[string]int64{}, Pending: map[string]int64{},
	}
}

// AddSnapshot adds a snapshot's consumption and units to a sum, in place, with the growth of its counters
// without a record. That growth counts in Unrecorded too. It does not count the entity.
func AddSnapshot(to *schema.UsageSum, u *schema.UsageSnapshot) {
	addUnits(&to.Units, u.Units)
	for name, s := range u.Spans {
		unrecorded := saturatedSum(s.Missing, u.Gaps[name])
		to.Net[name] = saturatedSum(to.Net[name], saturatedSum(s.Net, unrecorded))
		addTo(to.Unrecorded, name, unrecorded)
		addTo(to.Unseen, name, s.Unseen)
	}
}

// AddSum adds the amounts and units of the sum more to the sum to, in place. It does not add the numbers of
// entities.
func AddSum(to, more *schema.UsageSum) {
	addUnits(&to.Units, more.Units)
	for name, n := range more.Net {
		to.Net[name] = saturatedSum(to.Net[name], n)
	}
	AddCounts(to.Unrecorded, more.Unrecorded)
	AddCounts(to.Unseen, more.Unseen)
	AddCounts(to.Pending, more.Pending)
}

// AddCounts adds the numbers of more to those of to, by name. A 0 adds no name.
func AddCounts(to, more map[string]int64) {
	for name, n := range more {
		addTo(to, name, n)
	}
}

// addUnits copies the units of more into the map *to, over equal names. It makes the map if it is nil and more
// is not empty.
func addUnits(to *map[string]string, more map[string]string) {
	if len(more) > 0 && *to == nil {
		*to = map[string]string{}
	}
	maps.Copy(*to, more)
}

// addTo adds n to the number of a name, at most to the largest int64. It does nothing for 0.
func addTo(to map[string]int64, name string, n int64) {
	if n != 0 {
		to[name] = saturatedSum(to[name], n)
	}
}
