package usage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Fold is the additions of changes of one bucket to one hour.
type Fold struct {
	schema.UsageFold
	// Changes are the summed changes, in order.
	Changes []Change
	// moved is how far counters moved in all, up or down, or the most that 64 bits hold.
	moved int64
}

// Folds groups changes by bucket and hour, in the order of their numbers, and sums each group; it does not
// change the slice. A group that one write cannot hold is split. Repeated changes count once, and changes
// without usage are dropped. Snapshots expire retention after the end of their hour; 0 means never.
func Folds(changes []Change, retention time.Duration) []Fold {
	sorted := slices.SortedStableFunc(slices.Values(changes), compareChanges)
	sorted = slices.CompactFunc(sorted, func(a, b Change) bool { return compareChanges(a, b) == 0 })
	var folds []Fold
	for _, c := range sorted {
		if !c.changesCounter() {
			continue
		}
		hour := c.At.UTC().Truncate(time.Hour)
		i := findFold(folds, c.Key, hour)
		if i < 0 {
			i = len(folds)
			folds = append(folds, newFold(c, hour, retention))
		}
		folds[i].Changes = append(folds[i].Changes, c)
	}
	var all []Fold
	for _, f := range folds {
		all = append(all, f.foldOf(f.Changes).splitParts()...)
	}
	return all
}

// splitParts returns the fold, or its halves split further, if it has too many limits for one write or too
// large sums for 64 bits. It splits by changes; a single change always fits.
func (f Fold) splitParts() []Fold {
	half := len(f.Changes) / 2
	if len(f.Spans) <= schema.MostSpans && f.moved <= maxMoved || half == 0 {
		return []Fold{f}
	}
	return append(f.foldOf(f.Changes[:half]).splitParts(), f.foldOf(f.Changes[half:]).splitParts()...)
}

// findFold returns the place of the bucket's fold for an hour, or -1. It searches only the last
// folds, which must be the bucket's.
func findFold(folds []Fold, key schema.Key, hour time.Time) int {
	for i, f := range slices.Backward(folds) {
		if f.Changes[0].Key != key {
			break
		}
		if f.Hour.Equal(hour) {
			return i
		}
	}
	return -1
}

// compareChanges compares changes for sorting: by bucket, then number. It returns 0 for the same change.
func compareChanges(a, b Change) int {
	return cmp.Or(strings.Compare(a.Key.PK, b.Key.PK), strings.Compare(a.Key.SK, b.Key.SK), strings.Compare(a.Seq, b.Seq))
}

// newFold returns an empty fold for the bucket of c in an hour. It expires retention after the
// hour's end, or never if retention is 0.
func newFold(c Change, hour time.Time, retention time.Duration) Fold {
	f := Fold{}
	f.Keys, f.Entity, f.Resource, _ = schema.BucketOf(c.Key)
	f.Hour = hour
	if retention > 0 {
		f.Expires = hour.Add(time.Hour + retention).Unix()
	}
	return f
}

// After returns the fold without its changes up to the sequence number seq. It returns false if no change is
// left.
func (f Fold) After(seq string) (Fold, bool) {
	i := slices.IndexFunc(f.Changes, func(c Change) bool { return c.Seq > seq })
	if i < 0 {
		return Fold{}, false
	}
	return f.foldOf(f.Changes[i:]), true
}

// foldOf returns the fold with changes in place of its own, and their sums. changes must not be
// empty.
func (f Fold) foldOf(changes []Change) Fold {
	f.Changes, f.From, f.To = changes, changes[0].Seq, changes[len(changes)-1].Seq
	f.Events, f.Units = int64(len(changes)), changes[len(changes)-1].Units
	f.Buckets = schema.UsageBuckets{First: changes[0].Buckets.First, Last: changes[len(changes)-1].Buckets.Last}
	t := folding{spans: map[string]*schema.UsageSpan{}}
	for i, c := range changes {
		if i > 0 && schema.OtherBucket(changes[i-1].Buckets.Last, c.Buckets.First) {
			t.endUnseen()
		}
		if c.replaces() {
			t.addChange(Change{Old: c.Old})
			c.Old, t.other = nil, true
		}
		t.addChange(c)
	}
	f.Spans, f.moved = nil, t.moved
	for _, name := range slices.Sorted(maps.Keys(t.spans)) {
		f.Spans = append(f.Spans, *t.spans[name])
	}
	return f
}

// folding are the counters of a bucket over some changes.
type folding struct {
	spans map[string]*schema.UsageSpan
	// other says that the bucket is not the one of the first change.
	other bool
	// moved is how far counters moved in all.
	moved int64
}

// endUnseen ends all counters without a record: it adds their last values to Dropped and counts them in Unseen.
// The next change is of another bucket under the same key, where the first spans of limits begin at 0.
func (t *folding) endUnseen() {
	t.other = true
	for _, s := range t.spans {
		*s = s.EndedUnseen()
	}
}

// addChange adds a change to the spans of its limits. The last value of a counter that ended goes into Dropped,
// not into Net. It skips counters that did not change.
func (t *folding) addChange(c Change) {
	for name, old := range c.Old {
		now, there := c.New[name]
		switch next := (schema.UsageSpan{Limit: name, First: old, Last: now}); {
		case there && now == old, !there && old == 0:
			// The span begins where something happens.
		case there:
			next.Net = now - old
			t.addSpan(next)
		default:
			next.Dropped = old
			t.addSpan(next)
		}
	}
	for name, now := range c.New {
		if _, was := c.Old[name]; !was && now != 0 {
			t.addSpan(schema.UsageSpan{Limit: name, Net: now, Last: now})
		}
	}
}

// addSpan appends a span to the limit's span so far. It adds the change of the counter, without its sign, to
// t.moved. After a change of buckets a limit's first span begins at 0.
func (t *folding) addSpan(next schema.UsageSpan) {
	s := t.spans[next.Limit]
	t.moved = saturatedSum(t.moved, saturatedSum(magnitude(next.Net), magnitude(next.Dropped)))
	switch {
	case s != nil:
		t.moved = saturatedSum(t.moved, magnitude(next.First-s.Last))
		*s = s.Then(next)
	case t.other:
		next = next.FromZero()
		fallthrough
	default:
		t.spans[next.Limit] = &next
	}
}
