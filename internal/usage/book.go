package usage

import (
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Book is what is to be booked into a snapshot so that nothing is missing within it, or
// between it and the hours before; with first also what was there before the first record of
// a counter. An end that nobody saw cannot be booked.
func Book(u schema.UsageSnapshot, breaks []Break, first bool) []schema.UsageBooking {
	var all []schema.UsageBooking
	for _, name := range slices.Sorted(maps.Keys(u.Spans)) {
		s := u.Spans[name]
		b := schema.UsageBooking{Limit: name, Old: &s, Net: s.Missing, First: s.First, Last: s.Last}
		for _, broken := range breaks {
			if broken.Limit == name && (broken.Kind == Between || first) && broken.Unseen == 0 {
				b.Net += broken.Missing
				b.First = broken.Last
			}
		}
		if s.Missing != 0 || b.First != s.First {
			all = append(all, b)
		}
	}
	return all
}

// Rest is what is to be booked of a bucket that nothing was written to for longer than its
// stream keeps records: what its counters grew by since the last hour that has them. ends
// are where they ended, latest the last snapshot with any; nil for none. Counters that no
// hour has are booked with first alone. The bookings say what they change of the snapshot
// of an hour that has the limit.
func Rest(counters map[string]int64, ends Ends, latest *schema.UsageSnapshot, first bool) []schema.UsageBooking {
	var all []schema.UsageBooking
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		end, there := ends[name]
		b := schema.UsageBooking{Limit: name, Net: counters[name] - end.Last, First: end.Last, Last: counters[name]}
		if b.Net == 0 || !there && !first {
			continue
		}
		if latest != nil {
			if s, has := latest.Spans[name]; has {
				b.Old, b.First = &s, s.First
			}
		}
		all = append(all, b)
	}
	return all
}
