package schema

import (
	"fmt"
	"slices"
	"strings"
)

// ConfigRaise is a stored raise: Capacity in whole tokens, PeriodSeconds of the raised limit, and Until in
// Unix seconds.
type ConfigRaise struct {
	Name                           string
	Capacity, PeriodSeconds, Until int64
}

// putAttributes stores a raise in a configuration item, in place, in three attributes with the limit's name.
// They have its capacity in whole tokens, its end in Unix seconds, and the period of the limit in seconds.
func (r ConfigRaise) putAttributes(item Item) {
	prefix := kindPrefix + r.Name + "_"
	item[prefix+fieldRaised], item[prefix+fieldRaiseEnds], item[prefix+fieldRaisePeriod] = Number(r.Capacity), Number(r.Until), Number(r.PeriodSeconds)
}

// DecodeRaises reads the raises of a configuration item, also ended ones, sorted by name. It fails on a
// malformed or incomplete one.
func DecodeRaises(item Item) (raises []ConfigRaise, err error) {
	d := decoder{item: item}
	for attr := range item {
		name, field, ok := splitRaise(attr)
		prefix := kindPrefix + name + "_"
		switch {
		case !ok:
			continue
		case item[prefix+fieldRaised] == nil || item[prefix+fieldRaiseEnds] == nil || item[prefix+fieldRaisePeriod] == nil:
			return nil, fmt.Errorf("the raise of limit %s is not complete (attribute %s)", name, attr)
		case field != fieldRaised:
			continue
		}
		r := ConfigRaise{Name: name}
		r.Capacity, _ = d.number(attr)
		r.Until, _ = d.number(prefix + fieldRaiseEnds)
		r.PeriodSeconds, _ = d.number(prefix + fieldRaisePeriod)
		raises = append(raises, r)
	}
	slices.SortFunc(raises, func(a, b ConfigRaise) int { return strings.Compare(a.Name, b.Name) })
	return raises, d.err
}
