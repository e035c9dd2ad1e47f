package usage

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Bucket is a bucket as it was read.
type Bucket struct {
	// Counters are those of its limits; none of no bucket.
	Counters map[string]int64
	// Of is its incarnation; "" of no bucket.
	Of string
}

// DecodeBucket returns the counters and the incarnation of a bucket; the zero Bucket for a nil item. It fails
// for a counter that is malformed or too large to sum.
func DecodeBucket(item schema.Item) (Bucket, error) {
	counters, err := schema.Counters(item)
	if err == nil {
		err = checkCounters(counters)
	}
	return Bucket{counters, schema.BucketIncarnation(item)}, err
}

// lastSeenValue returns the value of a bucket's counter up to which snapshots include it, given the counter's
// last seen end. It is 0 if that end belongs to an earlier bucket.
func (b Bucket) lastSeenValue(end End) int64 {
	if schema.OtherBucket(end.Bucket, b.Of) {
		return 0
	}
	return end.Last
}

// Pending returns, by limit, the growth of a bucket's counters since seen, their last recorded values, in
// millitokens. A limit missing in seen began at 0, but a counter by model missing there is left out. The map
// unseen has a 1 for each counter of an earlier bucket that ended without a record.
func Pending(b Bucket, seen Ends) (pending, unseen map[string]int64) {
	pending, unseen = map[string]int64{}, map[string]int64{}
	for name, n := range b.Counters {
		if _, known := seen[name]; known || !schema.IsByModel(name) { // an unknown counter by model waits for its next record
			addTo(pending, name, n-b.lastSeenValue(seen[name]))
		}
	}
	for name, end := range seen {
		if end.Last != 0 && !schema.IsByModel(name) && schema.OtherBucket(end.Bucket, b.Of) {
			unseen[name] = 1
		}
	}
	return pending, unseen
}

// UnknownCounters returns the counters other than 0 without a last value in seen, sorted by name. It leaves out
// counters by model.
func UnknownCounters(counters map[string]int64, seen Ends) []string {
	var names []string
	for name, n := range counters {
		if _, known := seen[name]; !known && n != 0 && !schema.IsByModel(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
