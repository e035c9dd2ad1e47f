package usage

import (
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Book is what is to be booked into a snapshot so that nothing is missing within it, or
// between it and the hours before; with first also what was there before the first record of
// a counter. What was consumed before an end that nobody saw cannot be booked, but what the
// new counter had by its first record.
func Book(u schema.UsageSnapshot, breaks []Break, first bool) []schema.UsageBooking {
	var all []schema.UsageBooking
	for _, name := range slices.Sorted(maps.Keys(u.Spans)) {
		s := u.Spans[name]
		b := schema.UsageBooking{Limit: name, Old: &s, Net: s.Missing, First: s.First, Last: s.Last}
		for _, broken := range breaks {
			if broken.Limit == name && (broken.Kind == Between || first) {
				b.Net = added(b.Net, broken.Missing)
				b.First = s.First - broken.Missing
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
// of an hour that has the limit, which is one of this bucket.
func Rest(bucket Bucket, ends Ends, latest *schema.UsageSnapshot, first bool) []schema.UsageBooking {
	var all []schema.UsageBooking
	for _, name := range slices.Sorted(maps.Keys(bucket.Counters)) {
		end, there := ends[name]
		from := bucket.from(end)
		b := schema.UsageBooking{Limit: name, Net: bucket.Counters[name] - from, First: from, Last: bucket.Counters[name]}
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

// Unseen are the counters of what is booked of a bucket that ended before an hour in an
// earlier bucket, and nobody saw how.
func Unseen(bucket Bucket, ends Ends, bookings []schema.UsageBooking, hour time.Time) []Break {
	var all []Break
	for _, b := range bookings {
		if end := ends[b.Limit]; end.Last != 0 && end.Hour.Before(hour) && schema.OtherBucket(end.Bucket, bucket.Of) {
			all = append(all, Break{Limit: b.Limit, Kind: Between, Unseen: 1, Last: end.Last, Since: end.Hour})
		}
	}
	return all
}
