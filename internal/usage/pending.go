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

// countsFrom is the value from which a counter of the bucket counts amounts that no snapshot has, given its last seen
// end; the counter of an earlier bucket is another.
func (b Bucket) countsFrom(end End) int64 {
	if schema.OtherBucket(end.Bucket, b.Of) {
		return 0
	}
	return end.Last
}

// Pending is the growth of a bucket's counters since its snapshots were written, by
// limit: the part without a record so far. seen are the counters in the newest snapshots;
// a missing limit began at 0. A limit that the bucket no longer has adds
// nothing, because no counter has its last value. unseen are the counters of an
// earlier bucket whose ends no record has shown yet.
func Pending(b Bucket, seen Ends) (pending, unseen map[string]int64) {
	pending, unseen = map[string]int64{}, map[string]int64{}
	for name, n := range b.Counters {
		addTo(pending, name, n-b.countsFrom(seen[name]))
	}
	for name, end := range seen {
		if end.Last != 0 && schema.OtherBucket(end.Bucket, b.Of) {
			unseen[name] = 1
		}
	}
	return pending, unseen
}

// Unknown are the limits without a counter in any seen snapshot, in order.
func Unknown(counters map[string]int64, seen Ends) []string {
	var names []string
	for name, n := range counters {
		if _, known := seen[name]; !known && n != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
