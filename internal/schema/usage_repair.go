package schema

import (
	"maps"
	"slices"
	"time"
)

// UsageBooking is what is booked of one limit into a snapshot, because no record of it came.
type UsageBooking struct {
	Limit string
	// Old is the limit as it was read; nil if the snapshot does not have it.
	Old *UsageSpan
	// Net is what is booked, in millitokens.
	Net int64
	// First and Last are what the counter is taken to have been before the first and after
	// the last record.
	First, Last int64
}

// UsageRepair is what is booked into one snapshot, which need not exist.
type UsageRepair struct {
	Keys             Keys
	Entity, Resource string
	Hour             time.Time
	// Bookings are at most 20: an expression has 4 KB.
	Bookings []UsageBooking
	// Expires is the time to live of a snapshot that is made, in seconds since 1970; 0 for
	// none.
	Expires int64
	// Made says that no snapshot was there. Bucket is the incarnation that it is of then.
	Made   bool
	Bucket string
}

// MostBookings is how many limits are booked at once.
const MostBookings = 20

// Statement books, once: it is refused if a counter is not what it was when it was read,
// because it was booked before, or records came.
func (r *UsageRepair) Statement() Statement {
	b := newStatementBuilder()
	if r.Made {
		b.snapshot(r.Keys, r.Entity, r.Resource, r.Hour, r.Expires)
		b.addNumber(attrTotalEvents, 0)
		b.buckets(UsageBuckets{r.Bucket, r.Bucket})
	}
	for _, of := range r.Bookings {
		b.book(of)
	}
	return b.build()
}

// Key is the snapshot's.
func (r *UsageRepair) Key() Key { return r.Keys.Usage(r.Entity, r.Resource, r.Hour) }

func (b *statementBuilder) book(of UsageBooking) {
	prefix := usagePrefix + of.Limit + "_"
	if of.Old == nil {
		b.absent(prefix + fieldLast)
	} else {
		b.compare(prefix+fieldFirst, "=", Number(of.Old.First))
		b.compare(prefix+fieldLast, "=", Number(of.Old.Last))
		if missing := prefix + fieldMissing; of.Old.Missing != 0 {
			b.compare(missing, "=", Number(of.Old.Missing))
			b.drop(missing)
		}
	}
	b.setValue(prefix+fieldFirst, Number(of.First))
	b.setValue(prefix+fieldLast, Number(of.Last))
	b.addNumber(prefix+fieldNet, of.Net)
	b.addNumber(prefix+fieldRepaired, of.Net)
}

// UsageEnd ends counters of a snapshot whose bucket is no more, without a record of that.
type UsageEnd struct {
	Key Key
	// Counters are those that end, as they were read; at most MostBookings.
	Counters []UsageSpan
	// Old is the incarnation of the bucket, First of the one that the snapshot began with, New of
	// the one that is there since; Last says that no counter is left of the old one.
	Old, First, New string
	Last            bool
}

// Statement ends them, once: it is refused if one is not what it was when it was read.
func (e *UsageEnd) Statement() Statement {
	b := newStatementBuilder()
	b.compare(attrLastBucket, "=", usageBucket(e.Old))
	for _, s := range e.Counters {
		prefix := usagePrefix + s.Limit + "_"
		b.compare(prefix+fieldLast, "=", Number(s.Last))
		b.setValue(prefix+fieldLast, Number(0))
		b.addNumber(prefix+fieldDropped, s.Last)
		b.addNumber(prefix+fieldUnseen, 1)
	}
	if e.Last {
		b.buckets(UsageBuckets{e.First, e.New})
	}
	return b.build()
}

// Ends are the statements that end what a snapshot has of a bucket that is no more because
// another is there, and the snapshot after them; none if it has nothing of an earlier one.
func (u UsageSnapshot) Ends(key Key, bucket string) ([]UsageEnd, UsageSnapshot) {
	if !OtherBucket(u.Buckets.Last, bucket) {
		return nil, u
	}
	var counters []UsageSpan
	after := u
	after.Buckets.Last, after.Spans = bucket, maps.Clone(u.Spans)
	for _, name := range slices.Sorted(maps.Keys(u.Spans)) {
		if s := u.Spans[name]; s.Last != 0 {
			counters = append(counters, s)
			after.Spans[name] = s.EndedUnseen()
		}
	}
	var ends []UsageEnd
	for chunk := range slices.Chunk(counters, MostBookings) {
		ends = append(ends, UsageEnd{Key: key, Counters: chunk, Old: u.Buckets.Last, First: u.Buckets.First, New: bucket})
	}
	if len(ends) == 0 {
		ends = []UsageEnd{{Key: key, Old: u.Buckets.Last, First: u.Buckets.First, New: bucket}}
	}
	ends[len(ends)-1].Last = true
	return ends, after
}

// BucketSeen is when a bucket was last written, as far as its refill instant shows, which
// may lag behind by an hour; false if it has none.
func BucketSeen(item Item) (time.Time, bool) {
	d := decoder{item: item}
	ms, ok := d.number(attrRefilled)
	return time.UnixMilli(ms).UTC(), ok && d.err == nil
}
