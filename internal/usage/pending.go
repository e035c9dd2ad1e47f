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

// DecodeBucket reads the counters of a bucket; nil is none.
func DecodeBucket(item schema.Item) (Bucket, error) {
	counters, err := schema.Counters(item)
	if err == nil {
		err = inBounds(counters)
	}
	return Bucket{counters, schema.BucketIncarnation(item)}, err
}

// from is where a counter of the bucket began to count what no snapshot has, by where it was
// seen to end; the counter of an earlier bucket is another.
func (b Bucket) from(end End) int64 {
	if schema.OtherBucket(end.Bucket, b.Of) {
		return 0
	}
	return end.Last
}

// Pending is what the counters of a bucket grew by since its snapshots were written, by
// limit: what no record brought yet. seen are the counters as the newest snapshots hold
// them; a limit that they do not have began at 0. A limit that the bucket has no more adds
// nothing, for what it held at its end is in no counter. unseen are the counters of an
// earlier bucket whose ends no record brought yet.
func Pending(b Bucket, seen Ends) (pending, unseen map[string]int64) {
	pending, unseen = map[string]int64{}, map[string]int64{}
	for name, n := range b.Counters {
		addTo(pending, name, n-b.from(seen[name]))
	}
	for name, end := range seen {
		if end.Last != 0 && schema.OtherBucket(end.Bucket, b.Of) {
			unseen[name] = 1
		}
	}
	return pending, unseen
}

// Unknown are the limits whose counters no snapshot showed that was seen, in their order.
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
