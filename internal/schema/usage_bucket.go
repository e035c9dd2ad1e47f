package schema

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

const (
	// attrLastBucket says which bucket the last record of a snapshot was of, and
	// attrFirstBucket the first one, where that is another. No counter of a limit is called so:
	// it has two underscores. They are short, because every snapshot has one.
	attrFirstBucket = usagePrefix + "0"
	attrLastBucket  = usagePrefix + "1"

	// anonymous stands for a bucket that another implementation made, and that has no
	// incarnation. It never gets one, so that a bucket with one is another.
	anonymous = "-"
	// unknownBucket stands for one of which it is not known what it was.
	unknownBucket = "?"
)

// UsageBuckets are the incarnations of a bucket that records were of: of the first of them,
// and of the last one. What is not known is "".
type UsageBuckets struct{ First, Last string }

// Same reports whether both are known, and one.
func (u UsageBuckets) Same() bool { return u.First == u.Last && u.First != "" }

// BucketIncarnation says which of all buckets of its key an item is; "" of no bucket.
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

// OtherBucket reports whether two incarnations are known to be different buckets.
func OtherBucket(a, b string) bool { return a != b && a != "" && b != "" }

// usageBucket is an incarnation as snapshots hold it.
func usageBucket(of string) types.AttributeValue {
	if of == "" {
		of = unknownBucket
	}
	return Bytes([]byte(of))
}

// buckets sets which buckets the records of a snapshot are of.
func (b *statementBuilder) buckets(u UsageBuckets) {
	b.setValue(attrLastBucket, usageBucket(u.Last))
	if u.First != u.Last {
		b.setValue(attrFirstBucket, usageBucket(u.First))
	}
}

// decodeBuckets reads the incarnations of a snapshot; nothing from one that was written
// before they were noted.
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

// Anew is the span of a counter that began in a bucket made after the one whose counter was
// last seen, at last: what it counted before its first record is missing, from 0 on, and if
// the other was not at 0 nobody saw it end.
func (s UsageSpan) Anew(last int64) UsageSpan {
	s.Missing += s.First
	return s.ended(last)
}

// FromZero is Anew as the first span of a limit: it has begun at 0.
func (s UsageSpan) FromZero() UsageSpan {
	s = s.Anew(0)
	s.First = 0
	return s
}

// EndedUnseen is the span after its bucket was deleted, and nobody saw it.
func (s UsageSpan) EndedUnseen() UsageSpan {
	s = s.ended(s.Last)
	s.Last = 0
	return s
}

func (s UsageSpan) ended(last int64) UsageSpan {
	if last != 0 {
		s.Dropped += last
		s.Unseen++
	}
	return s
}

// mostEnded is how many counters a fold ends that are in none of its records: as many as a
// bucket has at once. Where more of them are known, because their limits went unseen, the
// others look as if they went on.
const mostEnded = MaxStored
