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

// UsageShards is the number of partitions of the index that list the snapshots of an hour.
const UsageShards = 16

const (
	skUsagePrefix = "#USAGE#"
	hourLayout    = "2006-01-02T15:04:05Z"

	attrWindow      = "window"
	attrWindowStart = "window_start"
	attrTotalEvents = "total_events"
	attrUsageSeq    = "seq"
	hourly          = "hourly"

	// usagePrefix is the prefix of every counter of a snapshot, so that no limit's name collides with an
	// attribute.
	usagePrefix  = "u_"
	fieldNet     = "n" // the consumption, in millitokens
	fieldFirst   = "f" // the counter before the first record
	fieldLast    = "l" // the counter after the last record
	fieldDropped = "d" // the last values of the counters of deleted buckets
	fieldMissing = "m" // the growth of the counter without a record
	fieldUnseen  = "e" // the number of its ends without a record
	fieldGap     = "g" // the growth since an hour before without a record, once the hour is closed
	fieldOfUnit  = "u" // the unit of the limit: "usd" for micro-dollars
)

// Usage returns the key of an entity's usage of a resource in an hour.
func (k Keys) Usage(entity, resource string, hour time.Time) Key {
	return Key{k.Entity(entity), skUsagePrefix + resource + "#" + hour.UTC().Format(hourLayout)}
}

// UsageHour returns the partition key of one shard of the index that lists the snapshots of an hour.
func (k Keys) UsageHour(hour time.Time, shard int) string {
	return k.prefix + "USAGE#" + hour.UTC().Format(hourLayout) + "#" + strconv.Itoa(shard)
}

// BucketOf returns the namespace, entity and resource in the key of a bucket; ok is false for any other key.
func BucketOf(key Key) (k Keys, entity, resource string, ok bool) {
	resource, isBucket := BucketResource(key.SK)
	k, kind, entity, known := splitPartition(key.PK)
	return k, entity, resource, isBucket && known && kind == "ENTITY#" && entity != ""
}

// Counters returns a bucket's counters by name, in millitokens: of each limit, of its part that a level above
// counts too (PassedOn), and by model (ModelCounter). It leaves out counters by model of removed limits, and
// fails for a counter that is not an integer of 64 bits.
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
	for attr := range item {
		counter, ok := strings.CutPrefix(attr, byModelPrefix)
		limit, _, _, byModel := SplitModel(counter)
		if _, counts := counters[limit]; ok && byModel && counts { // that of a limit that is gone may stay
			counters[counter], _ = d.number(attr)
		}
	}
	return counters, d.err
}

// ClaimedSince reports whether the bucket's refill instant is at or after a moment. It is true for a bucket
// without that instant, and false for an absent bucket.
func ClaimedSince(item Item, at time.Time) bool {
	d := decoder{item: item}
	refilled, there := d.number(attrRefilled)
	return item != nil && (!there || refilled >= at.UnixMilli())
}

// Sequence pads a stream's sequence number with zeros to 40 digits, so that texts sort like the numbers. It
// returns false for a text that is empty, longer, or not of digits.
func Sequence(number string) (string, bool) {
	digits := strings.TrimLeft(number, "0")
	if number == "" || len(digits) > sequenceDigits || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	return strings.Repeat("0", sequenceDigits-len(digits)) + digits, true
}

// isSequence reports whether a text is a number in the form of Sequence.
func isSequence(text string) bool {
	return len(text) == sequenceDigits && strings.Trim(text, "0123456789") == ""
}

// sequenceDigits bounds a sequence number of a stream.
const sequenceDigits = 40

// UsageSpan is the change of the counter of one limit over some records.
type UsageSpan struct {
	Limit string
	// Net is the consumption, in millitokens. It is negative if give-backs were larger.
	Net int64
	// First is the counter before the first of the records, Last the counter after the last one.
	First, Last int64
	// Dropped is the sum of the last values of the counter at the end of its bucket or of the limit.
	Dropped int64
	// Missing is the growth of the counter without a record.
	Missing int64
	// Unseen counts the restarts of the counter without a record of its end. The consumption between end and
	// restart is unknown.
	Unseen int64
}

// Then returns the span joined with a later one. Counter growth between the two is added to Missing, or to
// Dropped and Unseen if the counter restarted.
func (s UsageSpan) Then(next UsageSpan) UsageSpan {
	next = next.AddGap(s.Last)
	s.Net += next.Net
	s.Dropped += next.Dropped
	s.Missing += next.Missing
	s.Unseen += next.Unseen
	s.Last = next.Last
	return s
}

// AddGap returns the span with Missing increased by the growth of the counter from last, its value before the
// gap, to First. If First is 0, the counter restarted: last is added to Dropped, and Unseen grows by one unless
// last is 0.
func (s UsageSpan) AddGap(last int64) UsageSpan {
	switch {
	case s.First != 0:
		s.Missing += s.First - last
		return s
	default:
		return s.addUnseenEnd(last)
	}
}

// IsComplete reports whether the span has no known missing amounts and no unseen ends.
func (s UsageSpan) IsComplete() bool { return s.Missing == 0 && s.Unseen == 0 }

// setSnapshot adds to the statement an hourly snapshot's attributes apart from counters: owner, window, place
// in the hour's list, and expiry in Unix seconds. An expiry of 0 leaves the stored one.
func (b *statementBuilder) setSnapshot(k Keys, entity, resource string, hour time.Time, expires int64) {
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

// UsageSnapshot is an entity's usage of a resource in an hour.
type UsageSnapshot struct {
	Hour   time.Time
	Seq    string
	Events int64
	// Spans are the spans of its limits, by name.
	Spans map[string]UsageSpan
	// Units are the units of limits; nil without one.
	Units map[string]string
	// Gaps are the growths of counters since an hour before without a record, by a Closer.
	Gaps map[string]int64
	// Buckets are the buckets of the first and the last record. The starts and ends of Spans belong to them,
	// or are 0.
	Buckets UsageBuckets
}

// DecodeUsage reads an hourly snapshot of usage. It returns an error with the item's key and a remedy for any
// other item, and for an unreadable snapshot.
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
	u.Units = usageUnits(item)
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

// unreadable returns err wrapped with the key of the unreadable item and a remedy; nil for a nil err.
func unreadable(item Item, err error) error {
	if err == nil {
		return nil
	}
	key := KeyOf(item)
	return fmt.Errorf("item %q, %q: %w; correct the item, or delete it", key.PK, key.SK, err)
}

// OthersUsage reports whether another tool wrote an item with the key of a snapshot. Such an item lacks our
// sequence number and our counters, which begin with u_.
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

// usageUnits returns the units in a snapshot or a sum by limit name; nil without units.
func usageUnits(item Item) (units map[string]string) {
	for attr := range item {
		rest, ours := strings.CutPrefix(attr, usagePrefix)
		limit, ofUnit := strings.CutSuffix(rest, "_"+fieldOfUnit)
		if unit := Text(item, attr); ours && ofUnit && unit != "" {
			if units == nil {
				units = map[string]string{}
			}
			units[limit] = unit
		}
	}
	return units
}

// usageLimits returns the names of the counters in a snapshot, sorted: limits, their passed amounts, and
// counters by model.
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
