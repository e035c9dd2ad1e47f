package schema

import (
	"errors"
	"fmt"
	"maps"
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
		switch name, field, ok := splitBucketAttr(attr); {
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

// UsageFold is what is added to a snapshot.
type UsageFold struct {
	Keys             Keys
	Entity, Resource string
	Hour             time.Time
	// From and To are the sequence numbers of the first and the last record.
	From, To string
	Events   int64
	Spans    []UsageSpan
	// Buckets are those of the first and the last record.
	Buckets UsageBuckets
	// Expires is the item's time to live in seconds since 1970; 0 for none.
	Expires int64
	// Stored is the snapshot, when it was read and the spans say what is missing since; nil
	// before that.
	Stored *UsageSnapshot
}

// Key is the snapshot's.
func (f *UsageFold) Key() Key { return f.Keys.Usage(f.Entity, f.Resource, f.Hour) }

// Since is the fold with what is missing since a snapshot that was read; the zero one is
// none.
func (f UsageFold) Since(u *UsageSnapshot) UsageFold {
	if f.Stored = u; u.Hour.IsZero() {
		f.Stored = nil
		return f
	}
	f.Spans = slices.Clone(f.Spans)
	anew := OtherBucket(u.Buckets.Last, f.Buckets.First)
	folded := map[string]bool{}
	for i, s := range f.Spans {
		folded[s.Limit] = true
		stored, there := u.Spans[s.Limit]
		switch {
		case there && anew:
			f.Spans[i] = s.Anew(stored.Last)
		case there:
			f.Spans[i] = s.Since(stored.Last)
		case anew || OtherBucket(u.Buckets.First, f.Buckets.First):
			f.Spans[i] = s.FromZero()
		}
	}
	if anew || OtherBucket(f.Buckets.First, f.Buckets.Last) {
		f.Spans = append(f.Spans, u.ended(folded)...)
	}
	return f
}

// ended are the ends of counters that a bucket had that is no more, without some.
func (u *UsageSnapshot) ended(without map[string]bool) (ended []UsageSpan) {
	for _, name := range slices.Sorted(maps.Keys(u.Spans)) {
		if last := u.Spans[name].Last; last != 0 && !without[name] && len(ended) < mostEnded {
			ended = append(ended, UsageSpan{Limit: name, First: last, Last: last}.EndedUnseen())
		}
	}
	return ended
}

// Statement adds the fold to its snapshot. It is refused if a record of it is there
// already, and, unless the snapshot was read, if something is missing since, or if it is of
// another bucket.
func (f *UsageFold) Statement() Statement {
	b := newStatementBuilder()
	b.snapshot(f.Keys, f.Entity, f.Resource, f.Hour, f.Expires)
	b.setValue(attrUsageSeq, String(f.To))
	b.addNumber(attrTotalEvents, f.Events)
	switch {
	case f.Stored == nil && f.many():
		b.absent(PK)
	case f.Stored == nil:
		b.require(f.follows(b))
	case f.Stored.Seq == "": // no Processor made it
		b.exists(PK)
		b.absent(attrUsageSeq)
	default:
		b.compare(attrUsageSeq, "=", String(f.Stored.Seq))
	}
	buckets := f.Buckets
	if f.Stored != nil {
		buckets.First = f.Stored.Buckets.First
	}
	b.buckets(buckets)
	stored := f.Stored
	if stored == nil && f.many() {
		stored = &UsageSnapshot{}
	}
	for _, s := range f.Spans {
		b.usage(s, stored)
	}
	return b.build()
}

// MostSpans is how many counters a fold follows at once: with all that there is to say of
// each, the expressions of the write are below DynamoDB's 4 KB, and its 300 operators.
const MostSpans = 24

// many reports whether a fold has more counters than that: one change may. Its write then
// requires that there is no snapshot, or follows one that was read.
func (f *UsageFold) many() bool { return len(f.Spans) > MostSpans }

// follows is the condition that the fold follows its snapshot, with nothing missing, or that
// there is none. One of several buckets follows none: who is in the snapshot has to be read.
func (f *UsageFold) follows(b *statementBuilder) string {
	none := "attribute_not_exists(" + b.name(PK) + ")"
	if !f.Buckets.Same() {
		return none
	}
	all := []string{b.name(attrUsageSeq) + " < " + b.value(String(f.From)), b.name(attrLastBucket) + " = " + b.value(usageBucket(f.Buckets.First))}
	for _, s := range f.Spans {
		last := b.name(usagePrefix + s.Limit + "_" + fieldLast)
		fresh := "attribute_not_exists(" + last + ")"
		if s.First != 0 { // it may have begun in this bucket, and the snapshot with another
			fresh = "(" + fresh + " AND attribute_not_exists(" + b.name(attrFirstBucket) + "))"
		}
		all = append(all, "("+last+" = "+b.value(Number(s.First))+" OR "+fresh+")")
	}
	return "(" + none + " OR (" + strings.Join(all, " AND ") + "))"
}

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

// usage adds a span to the counters of its limit.
func (b *statementBuilder) usage(s UsageSpan, stored *UsageSnapshot) {
	prefix := usagePrefix + s.Limit + "_"
	if stored == nil {
		first := b.name(prefix + fieldFirst)
		b.set = append(b.set, first+" = if_not_exists("+first+", "+b.value(Number(s.First))+")")
	} else if _, there := stored.Spans[s.Limit]; !there {
		b.setValue(prefix+fieldFirst, Number(s.First))
	}
	b.setValue(prefix+fieldLast, Number(s.Last))
	b.addNumber(prefix+fieldNet, s.Net)
	for _, more := range []struct {
		field string
		n     int64
	}{{fieldDropped, s.Dropped}, {fieldMissing, s.Missing}, {fieldUnseen, s.Unseen}} {
		if more.n != 0 {
			b.addNumber(prefix+more.field, more.n)
		}
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
