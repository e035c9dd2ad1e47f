package usage

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Change is one record's change of the counters of one bucket.
type Change struct {
	Key schema.Key
	// Seq is the record's number, see schema.Sequence.
	Seq string
	// At is when the change was made, to the second.
	At time.Time
	// Old and New are the counters by limit before and after; nil where there was no item.
	Old, New map[string]int64
	// Units are the units of its limits, by name; nil without one.
	Units map[string]string
	// Buckets are the incarnations of the bucket before and after; where there was no item,
	// that of the other.
	Buckets schema.UsageBuckets
}

// Decode returns the change of counters in a record of the stream, from its item's key, number, time and images
// (nil if missing). It returns false unless the item is a bucket, and for failed logins. It returns true with
// an error for a record without number, time or images, and for an unreadable bucket.
func Decode(key schema.Key, seq string, at time.Time, before, after schema.Item) (Change, bool, error) {
	if _, entity, resource, ok := schema.BucketOf(key); !ok || schema.FormerlyOwn(entity, resource) {
		return Change{}, false, nil
	}
	number, ok := schema.Sequence(seq)
	switch {
	case !ok:
		return Change{}, true, fmt.Errorf("the sequence number %q is no number of at most 40 digits", seq)
	case at.IsZero():
		return Change{}, true, fmt.Errorf("record %s has no time", seq)
	case before == nil && after == nil:
		return Change{}, true, fmt.Errorf("record %s has no image: the stream needs the view NEW_AND_OLD_IMAGES", seq)
	}
	c := Change{Key: key, Seq: number, At: at, Buckets: schema.UsageBuckets{
		First: cmp.Or(schema.BucketIncarnation(before), schema.BucketIncarnation(after)),
		Last:  cmp.Or(schema.BucketIncarnation(after), schema.BucketIncarnation(before)),
	}}
	var err error
	if before != nil {
		c.Old, err = schema.Counters(before)
	}
	c.Units = schema.Units(before)
	if err == nil && after != nil {
		c.Units = schema.Units(after)
		c.New, err = schema.Counters(after)
	}
	if err == nil {
		err = cmp.Or(checkCounters(c.Old), checkCounters(c.New))
	}
	if err != nil {
		err = fmt.Errorf("record %s: %w", seq, err)
	}
	return c, true, err
}

// replaces reports whether the write put another bucket in place of one. The counters of the old one then end,
// and those of the new one begin at 0.
func (c Change) replaces() bool {
	return c.Old != nil && c.New != nil && schema.OtherBucket(c.Buckets.First, c.Buckets.Last)
}

// changesCounter reports whether a counter changed, began with an amount, or ended with one. If another bucket
// replaced the old one, every counter other than 0 did.
func (c Change) changesCounter() bool {
	if c.replaces() {
		return Change{Old: c.Old}.changesCounter() || Change{New: c.New}.changesCounter()
	}
	for name, old := range c.Old {
		if now, there := c.New[name]; !there && old != 0 || there && now != old {
			return true
		}
	}
	for name, now := range c.New {
		if _, was := c.Old[name]; !was && now != 0 {
			return true
		}
	}
	return false
}
