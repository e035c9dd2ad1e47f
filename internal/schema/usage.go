package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// UsageShards is how many partitions of the index list the snapshots of an hour.
const UsageShards = 16

const (
	skUsagePrefix = "#USAGE#"
	hourLayout    = "2006-01-02T15:04:05Z"

	attrWindow      = "window"
	attrWindowStart = "window_start"
	attrTotalEvents = "total_events"
	attrUsageSeq    = "seq"
	hourly          = "hourly"

	// usagePrefix begins every counter of a snapshot, so that no limit's name collides with
	// an attribute.
	usagePrefix  = "u_"
	fieldNet     = "n" // what was consumed, in millitokens
	fieldFirst   = "f" // the counter before the first record
	fieldLast    = "l" // the counter after the last record
	fieldDropped = "d" // what the counters of buckets held when they went
	fieldMissing = "m" // what the counter grew by without a record
	fieldUnseen  = "e" // how many of its ends no record showed
	fieldGap     = "g" // what it grew by since an hour before without a record, once the hour is closed
)

// Usage is the key of what an entity consumed of a resource in an hour.
func (k Keys) Usage(entity, resource string, hour time.Time) Key {
	return Key{k.Entity(entity), skUsagePrefix + resource + "#" + hour.UTC().Format(hourLayout)}
}

// UsageHour is a partition of the index of entity configurations that lists the snapshots
// of an hour.
func (k Keys) UsageHour(hour time.Time, shard int) string {
	return k.prefix + "USAGE#" + hour.UTC().Format(hourLayout) + "#" + strconv.Itoa(shard)
}

// BucketOf takes the key of a bucket apart; false for the key of something else.
func BucketOf(key Key) (k Keys, entity, resource string, ok bool) {
	resource, isBucket := BucketResource(key.SK)
	k, kind, entity, known := splitPartition(key.PK)
	return k, entity, resource, isBucket && known && kind == "ENTITY#" && entity != ""
}

// passedMark ends the name of the counter of what a level above counted of a limit, too. No
// name of a limit has it.
const passedMark = "^"

// PassedOn is the name of the counter of what a level above counted of a limit, too.
func PassedOn(limit string) string { return limit + passedMark }

// CounterOf is the limit that a counter is of; passed says that it is the one of what a level
// above counted too.
func CounterOf(counter string) (limit string, passed bool) {
	return strings.CutSuffix(counter, passedMark)
}

// Counters are the total consumption of each limit that a bucket holds, in millitokens, and
// under the name PassedOn what of it a level above counted too. It fails for a counter that
// is no integer of 64 bits.
func Counters(item Item) (map[string]int64, error) {
	counters := map[string]int64{}
	d := decoder{item: item}
	for attr := range item {
		switch name, field, _, ok := splitBucketAttr(attr); {
		case !ok:
		case field == "tc":
			counters[name], _ = d.number(attr)
		case field == fieldPassed:
			counters[PassedOn(name)], _ = d.number(attr)
		}
	}
	return counters, d.err
}

// ClaimedSince reports whether the refill instant of a bucket was moved since a moment, as far
// as the bucket says when it was; never that of no bucket.
func ClaimedSince(item Item, at time.Time) bool {
	d := decoder{item: item}
	refilled, there := d.number(attrRefilled)
	return item != nil && (!there || refilled >= at.UnixMilli())
}

// Sequence is a sequence number as snapshots hold it, so that texts compare as the numbers
// do; false if it is none.
func Sequence(number string) (string, bool) {
	digits := strings.TrimLeft(number, "0")
	if number == "" || len(digits) > sequenceDigits || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	return strings.Repeat("0", sequenceDigits-len(digits)) + digits, true
}

// isSequence reports whether a text is a number as Sequence has it.
func isSequence(text string) bool {
	return len(text) == sequenceDigits && strings.Trim(text, "0123456789") == ""
}

// sequenceDigits bounds a sequence number of a stream.
const sequenceDigits = 40

// UsageSpan is what happened to the counter of one limit over some records.
type UsageSpan struct {
	Limit string
	// Net is what was consumed, in millitokens, negative if more was given back.
	Net int64
	// First is the counter before the first of the records, Last that after the last one.
	First, Last int64
	// Dropped is the sum of what the counter held when its bucket or the limit went.
	Dropped int64
	// Missing is what the counter grew by without a record.
	Missing int64
	// Unseen is how often it began anew although no record showed its end: what was
	// consumed between the two is not known.
	Unseen int64
}

// Then is the span followed by a later one, with what is missing between them.
func (s UsageSpan) Then(next UsageSpan) UsageSpan {
	next = next.Since(s.Last)
	s.Net += next.Net
	s.Dropped += next.Dropped
	s.Missing += next.Missing
	s.Unseen += next.Unseen
	s.Last = next.Last
	return s
}

// Since is the span with what is missing since the counter was last seen. One that is at 0
// then, and was not, is taken to have begun anew: nothing tells of a limit that begins at 0.
func (s UsageSpan) Since(last int64) UsageSpan {
	switch {
	case s.First != 0:
		s.Missing += s.First - last
		return s
	default:
		return s.ended(last)
	}
}

// Whole reports whether nothing is known to be missing.
func (s UsageSpan) Whole() bool { return s.Missing == 0 && s.Unseen == 0 }

// snapshot sets what every snapshot has besides its counters.
func (b *statementBuilder) snapshot(k Keys, entity, resource string, hour time.Time, expires int64) {
	b.setValue(attrEntity, String(entity))
	b.setValue(attrResource, String(resource))
	b.setValue(attrWindow, String(hourly))
	b.setValue(attrWindowStart, String(hour.UTC().Format(hourLayout)))
	b.setValue(GSI3PK, String(k.UsageHour(hour, UsageShard(entity, resource))))
	b.setValue(GSI3SK, String(entity+"#"+resource))
	if expires > 0 {
		b.setValue(TTL, Number(expires))
	}
}

// UsageSnapshot is what an entity consumed of a resource in an hour.
type UsageSnapshot struct {
	Hour   time.Time
	Seq    string
	Events int64
	// Spans are those of its limits, by name.
	Spans map[string]UsageSpan
	// Gaps are what counters grew by since an hour before without a record, as a Closer saw it.
	Gaps map[string]int64
	// Buckets are those of the first and the last record: what Spans begin with and end with
	// is of these, or 0.
	Buckets UsageBuckets
}

// DecodeUsage reads a snapshot.
func DecodeUsage(item Item) (UsageSnapshot, error) {
	hour, err := time.Parse(hourLayout, Text(item, attrWindowStart))
	if err != nil || Text(item, attrWindow) != hourly {
		return UsageSnapshot{}, unreadable(item, errors.New("is no hourly snapshot of usage"))
	}
	if seq, there := item[attrUsageSeq]; there {
		text, _ := seq.(*types.AttributeValueMemberS)
		if text == nil || !isSequence(text.Value) {
			return UsageSnapshot{}, unreadable(item, fmt.Errorf("attribute %s is no sequence number of %d digits", attrUsageSeq, sequenceDigits))
		}
	}
	d := decoder{item: item}
	u := UsageSnapshot{Hour: hour, Seq: Text(item, attrUsageSeq), Spans: map[string]UsageSpan{}, Gaps: map[string]int64{}}
	u.Events, _ = d.number(attrTotalEvents)
	names := usageLimits(item)
	u.Buckets = decodeBuckets(&d)
	for _, name := range names {
		prefix := usagePrefix + name + "_"
		s := UsageSpan{Limit: name}
		s.Net, _ = d.number(prefix + fieldNet)
		s.First, _ = d.number(prefix + fieldFirst)
		s.Last, _ = d.number(prefix + fieldLast)
		s.Dropped, _ = d.number(prefix + fieldDropped)
		s.Missing, _ = d.number(prefix + fieldMissing)
		s.Unseen, _ = d.number(prefix + fieldUnseen)
		u.Spans[name] = s
		if n, ok := d.number(prefix + fieldGap); ok {
			u.Gaps[name] = n
		}
	}
	return u, unreadable(item, d.err)
}

// unreadable names the item that cannot be read, and what to do; nil for no error.
func unreadable(item Item, err error) error {
	if err == nil {
		return nil
	}
	key := KeyOf(item)
	return fmt.Errorf("item %q, %q: %w; correct the item, or delete it", key.PK, key.SK, err)
}

// OthersUsage reports whether an item with the key of a snapshot is none of ours: other tools
// keep theirs there, with counters that are named as limits are.
func OthersUsage(item Item) bool {
	if _, ours := item[attrUsageSeq].(*types.AttributeValueMemberS); ours {
		return false
	}
	for attr := range item {
		if strings.HasPrefix(attr, usagePrefix) {
			return false
		}
	}
	return true
}

// usageLimits are the limits that a snapshot has counters of, by name.
func usageLimits(item Item) []string {
	var names []string
	for attr := range item {
		rest, ok := strings.CutPrefix(attr, usagePrefix)
		if name, isNet := strings.CutSuffix(rest, "_"+fieldNet); ok && isNet {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
