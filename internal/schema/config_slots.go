package schema

import (
	"time"
)

// In configuration k_{name}_n is the number of slots, k_{name}_h their hold in seconds, and k_{name}_l the
// longest time, in seconds, for which a lease keeps its slots.
const (
	fieldHold    = "h"
	fieldLongest = "l"
)

// putSlots sets the attributes of a limit of calls in flight in a configuration item, in place: number, and
// hold and longest time in seconds.
func (l ConfigLimit) putSlots(item Item) {
	prefix := kindPrefix + l.Name + "_"
	item[prefix+fieldAllowed], item[prefix+fieldHold], item[prefix+fieldLongest] = Number(l.Capacity), Number(int64(l.Hold/time.Second)), Number(int64(l.Longest/time.Second))
}

// slotsIn returns the limits of calls in flight of a configuration item, with their defaults, unsorted. It
// fails for a malformed number.
func slotsIn(item Item) (all []ConfigLimit, err error) {
	d := decoder{item: item}
	for attr := range item {
		name, field, ok := splitQuota(attr)
		if !ok || field != fieldHold {
			continue
		}
		prefix := kindPrefix + name + "_"
		l := ConfigLimit{Name: name}
		l.Capacity, _ = d.number(prefix + fieldAllowed)
		hold, _ := d.number(attr)
		longest, _ := d.number(prefix + fieldLongest)
		l.Hold, l.Longest = seconds(hold), seconds(longest)
		all = append(all, l.WithDefaults())
	}
	return all, d.err
}
