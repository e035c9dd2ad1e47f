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

// DecodeBucket reads the counters of a bucket; a nil item gives the zero Bucket.
func DecodeBucket(item schema.Item) (Bucket, error) {
	counters, err := schema.Counters(item)
	if err == nil {
		err = inBounds(counters)
	}
	return Bucket{counters, schema.BucketIncarnation(item)}, err
}

// countsFrom returns the value after which the bucket's counter is not in a snapshot, given its
// last seen end. It is 0 if that end belongs to an earlier bucket.
func (b Bucket) countsFrom(end End) int64 {
	if schema.OtherBucket(end.Bucket, b.Of) {
		return 0
	}
	return end.Last
}

// Pending returns, by limit, the growth of a bucket's counters since seen, their last recorded values. A
// limit missing in seen began at 0. A limit that the bucket no longer has adds nothing. unseen has a 1 for
// each counter of an earlier bucket whose end no record has shown.
func Pending(b Bucket, seen Ends) (pending, unseen map[string]int64) {
	pending, unseen = map[string]int64{}, map[string]int64{}
	for name, n := range b.Counters {
		if _, known := seen[name]; known || !schema.IsByModel(name) { // an unknown counter by model waits for its next record
			addTo(pending, name, n-b.countsFrom(seen[name]))
		}
	}
	for name, end := range seen {
		if end.Last != 0 && !schema.IsByModel(name) && schema.OtherBucket(end.Bucket, b.Of) {
			unseen[name] = 1
		}
	}
	return pending, unseen
}

// Unknown returns the limits with a counter other than 0 and no last value in seen, sorted. It leaves out
// counters by model, which are not worth a search.
func Unknown(counters map[string]int64, seen Ends) []string {
	var names []string
	for name, n := range counters {
		if _, known := seen[name]; !known && n != 0 && !schema.IsByModel(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
