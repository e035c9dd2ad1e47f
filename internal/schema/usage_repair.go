package schema

import "time"

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
	// Made says that no snapshot was there.
	Made bool
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

// BucketSeen is when a bucket was last written, as far as its refill instant shows, which
// may lag behind by an hour; false if it has none.
func BucketSeen(item Item) (time.Time, bool) {
	d := decoder{item: item}
	ms, ok := d.number(attrRefilled)
	return time.UnixMilli(ms).UTC(), ok && d.err == nil
}
