package schema

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

const (
	// attrLastBucket has the bucket of a snapshot's last record, and attrFirstBucket that of the first one if
	// it differs. A limit's counter never has such a name, because it has two underscores. The names are
	// short, because every snapshot has one.
	attrFirstBucket = usagePrefix + "0"
	attrLastBucket  = usagePrefix + "1"

	// anonymous stands for a bucket by another implementation, without an incarnation. It never gets one, so
	// a bucket with one is another bucket.
	anonymous = "-"
	// unknownBucket stands for an unknown bucket.
	unknownBucket = "?"
)

// UsageBuckets are the incarnations of the bucket in the first and the last of some records. An unknown one
// is "".
type UsageBuckets struct{ First, Last string }

// Same reports whether both are known and equal.
func (u UsageBuckets) Same() bool { return u.First == u.Last && u.First != "" }

// BucketIncarnation returns the bytes of a bucket item's incarnation as a string; "-" for a bucket without one,
// and "" for an absent item.
func BucketIncarnation(item Item) string {
	d := decoder{item: item}
	switch id := d.bytes(attrIncarnation); {
	case len(item) == 0:
		return ""
	case len(id) == 0:
		return anonymous
	default:
		return string(id)
	}
}

// OtherBucket reports whether two incarnations differ and both are known (not "").
func OtherBucket(a, b string) bool { return a != b && a != "" && b != "" }

// usageBucket returns an incarnation as the attribute value in snapshots; "?" stands for an unknown one.
func usageBucket(of string) types.AttributeValue {
	if of == "" {
		of = unknownBucket
	}
	return Bytes([]byte(of))
}

// setBuckets adds to the statement the incarnations of the buckets of a snapshot's first and last record. The
// first is set only if it differs.
func (b *statementBuilder) setBuckets(u UsageBuckets) {
	b.setValue(attrLastBucket, usageBucket(u.Last))
	if u.First != u.Last {
		b.setValue(attrFirstBucket, usageBucket(u.First))
	}
}

// decodeBuckets reads the incarnations of a snapshot. They are "" if the snapshot does not record them, or
// records them as unknown.
func decodeBuckets(d *decoder) UsageBuckets {
	known := func(id []byte) string {
		if of := string(id); of != unknownBucket {
			return of
		}
		return ""
	}
	u := UsageBuckets{Last: known(d.bytes(attrLastBucket))}
	u.First = u.Last
	if first := d.bytes(attrFirstBucket); first != nil {
		u.First = known(first)
	}
	return u
}

// InNewBucket returns the span of a counter in a new bucket, after the counter of the old one was at last.
// First is added to Missing. Unless last is 0, last is added to Dropped and Unseen grows by one.
func (s UsageSpan) InNewBucket(last int64) UsageSpan {
	s.Missing += s.First
	return s.addUnseenEnd(last)
}

// FromZero returns the first span of a limit as if its counter began at 0: First is added to Missing and set to
// 0.
func (s UsageSpan) FromZero() UsageSpan {
	s = s.InNewBucket(0)
	s.First = 0
	return s
}

// EndedUnseen returns the span after its bucket was deleted without a record. Last is added to Dropped and set
// to 0, and Unseen grows by one unless Last was 0.
func (s UsageSpan) EndedUnseen() UsageSpan {
	s = s.addUnseenEnd(s.Last)
	s.Last = 0
	return s
}

// addUnseenEnd returns the span with the end of a counter at last without a record: last is added to Dropped,
// and Unseen grows by one. It changes nothing if last is 0.
func (s UsageSpan) addUnseenEnd(last int64) UsageSpan {
	if last != 0 {
		s.Dropped += last
		s.Unseen++
	}
	return s
}

// mostEnded bounds the counters without a record that a fold ends: the most that a bucket has at once. If
// more are known, because their limits went unseen, the others look as if they continued.
const mostEnded = MaxStored + MostModels
