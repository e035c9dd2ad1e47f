package schema

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// UsageFold is an addition to a snapshot.
type UsageFold struct {
	Keys             Keys
	Entity, Resource string
	Hour             time.Time
	// From and To are the sequence numbers of the first and the last record.
	From, To string
	Events   int64
	Spans    []UsageSpan
	// Units are the units of the bucket's limits; nil without one.
	Units map[string]string
	// Buckets are the buckets of the first and the last record.
	Buckets UsageBuckets
	// Expires is the item's time to live in seconds since 1970; 0 without one.
	Expires int64
	// Stored is the snapshot, once it was read and the spans include the amounts missing since. It is nil
	// before.
	Stored *UsageSnapshot
}

// Key returns the key of the snapshot.
func (f *UsageFold) Key() Key { return f.Keys.Usage(f.Entity, f.Resource, f.Hour) }

// AddGaps returns the fold with u as Stored and, in a copy of its spans, the counter growth since u. If the
// bucket of u is gone, it adds the unseen ends of its counters. A u with zero Hour means an absent snapshot,
// and leaves the spans as they are.
func (f UsageFold) AddGaps(u *UsageSnapshot) UsageFold {
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
			f.Spans[i] = s.InNewBucket(stored.Last)
		case there:
			f.Spans[i] = s.AddGap(stored.Last)
		case anew || OtherBucket(u.Buckets.First, f.Buckets.First):
			f.Spans[i] = s.FromZero()
		}
	}
	if anew || OtherBucket(f.Buckets.First, f.Buckets.Last) {
		f.Spans = append(f.Spans, u.unseenEnds(folded)...)
	}
	return f
}

// Statement returns the update that adds the fold to its snapshot. It fails to apply if the snapshot has a
// record of the fold already, or has changed since Stored. Without Stored it also fails if a counter has a gap,
// or if the snapshot is of another bucket.
func (f *UsageFold) Statement() Statement {
	b := newStatementBuilder()
	b.setSnapshot(f.Keys, f.Entity, f.Resource, f.Hour, f.Expires)
	b.setValue(attrUsageSeq, String(f.To))
	b.addNumber(attrTotalEvents, f.Events)
	switch {
	case f.Stored == nil && f.exceedsSpans():
		b.requireAbsent(PK)
	case f.Stored == nil:
		b.require(f.continuation(b))
	case f.Stored.Seq == "": // no Processor made it
		b.requireExists(PK)
		b.requireAbsent(attrUsageSeq)
	default:
		b.requireCompare(attrUsageSeq, "=", String(f.Stored.Seq))
	}
	buckets := f.Buckets
	if f.Stored != nil {
		buckets.First = f.Stored.Buckets.First
	}
	b.setBuckets(buckets)
	stored := f.Stored
	if stored == nil && f.exceedsSpans() {
		stored = &UsageSnapshot{}
	}
	for _, s := range f.Spans {
		b.addSpan(s, stored)
		if unit := f.Units[s.Limit]; unit != "" && (stored == nil || stored.Units[s.Limit] != unit) {
			b.setValue(usagePrefix+s.Limit+"_"+fieldOfUnit, String(unit))
		}
	}
	return b.build()
}

// MostSpans bounds the counters that a fold follows at once. Even with all their fields, the expressions of
// the write stay below DynamoDB's 4 KB and 300 operators.
const MostSpans = 24

// exceedsSpans reports whether the fold has more counters than MostSpans. Its write then requires an absent
// snapshot, or follows one that was read.
func (f *UsageFold) exceedsSpans() bool { return len(f.Spans) > MostSpans }

// continuation returns the text of the condition that the snapshot is absent, or that the fold continues it
// without a gap. A fold that is not surely of one bucket requires an absent one. It adds names and values to b.
func (f *UsageFold) continuation(b *statementBuilder) string {
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

// unseenEnds returns a span for each counter that ended without a record, sorted by limit. These are the
// counters with a last value other than 0, except for those in without. It returns at most mostEnded.
func (u *UsageSnapshot) unseenEnds(without map[string]bool) (ended []UsageSpan) {
	for _, name := range slices.Sorted(maps.Keys(u.Spans)) {
		if last := u.Spans[name].Last; last != 0 && !without[name] && len(ended) < mostEnded {
			ended = append(ended, UsageSpan{Limit: name, First: last, Last: last}.EndedUnseen())
		}
	}
	return ended
}

// addSpan adds to the statement the changes of a limit's counters by a span. It sets First only if the snapshot
// stored lacks the limit; if stored is nil, the write itself decides.
func (b *statementBuilder) addSpan(s UsageSpan, stored *UsageSnapshot) {
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
