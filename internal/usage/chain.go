package usage

import (
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// BreakKind is the kind of a gap between two hours of a counter.
type BreakKind string

// The kinds of breaks.
const (
	// Between is a counter that did not begin where an hour before it ended.
	Between BreakKind = "between"
	// Before is a counter that did not begin at 0, and that no hour before it has: the
	// stream may have been turned on then.
	Before BreakKind = "before"
)

// Break is where the counter of one limit does not go on as an hour before it ended.
type Break struct {
	Limit string
	Kind  BreakKind
	// Missing is its growth between the two, in millitokens, or before the first.
	Missing int64
	// Unseen is 1 if it began anew, and no record showed its end. Then Missing is the
	// new one's count before the hour.
	Unseen int64
	// Last is its last value, and Since the hour of it.
	Last  int64
	Since time.Time
}

// Ends is where the counters of limits ended before an hour: the latest hour of each limit.
type Ends map[string]End

// End is where a counter ended.
type End struct {
	Last int64
	Hour time.Time
	// Bucket is the incarnation of the bucket that it was of; "" if that is not known.
	Bucket string
}

// AddSnapshot sets in e the last values of an hour's counters, with the hour and its last bucket. It skips
// limits with a value of the same or a later hour.
func (e Ends) AddSnapshot(u schema.UsageSnapshot) {
	for name, s := range u.Spans {
		if at, there := e[name]; !there || at.Hour.Before(u.Hour) {
			e[name] = End{s.Last, u.Hour, u.Buckets.Last}
		}
	}
}

// lastValue returns the last value of a counter; false if it is unknown. A counter of passed amounts that is
// missing while its limit's counter is known had not begun: its value is 0.
func (e Ends) lastValue(name string) (End, bool) {
	end, there := e[name]
	if limit, passed := schema.CounterOf(name); !there && passed {
		end, there = e[limit]
		end.Last = 0
	}
	return end, there
}

// HasAll reports whether e has a last value for every counter of an hour or, if all is false, only for counters
// that began above 0. Counters by model do not matter.
func (e Ends) HasAll(u schema.UsageSnapshot, all bool) bool {
	for name, s := range u.Spans {
		if _, there := e[name]; !there && (all || s.First != 0) && !schema.IsByModel(name) {
			return false
		}
	}
	return true
}

// Breaks returns a Break for each counter of an hour that does not continue from its last known value, sorted
// by limit. A counter without a known value must begin at 0 to continue.
func Breaks(u schema.UsageSnapshot, ends Ends) []Break {
	var all []Break
	for _, name := range slices.Sorted(maps.Keys(u.Spans)) {
		s := u.Spans[name]
		end, there := ends.lastValue(name)
		if !there {
			if s.First != 0 {
				all = append(all, Break{Limit: name, Kind: Before, Missing: s.First})
			}
			continue
		}
		since := s.AddGap(end.Last)
		if schema.OtherBucket(end.Bucket, u.Buckets.First) {
			since = s.InNewBucket(end.Last)
		}
		b := Break{Limit: name, Kind: Between, Missing: since.Missing - s.Missing, Unseen: since.Unseen - s.Unseen, Last: end.Last, Since: end.Hour}
		if b.Missing != 0 || b.Unseen != 0 {
			all = append(all, b)
		}
	}
	return all
}

// Gaps returns the millitokens missing between the breaks' hour and an hour before, by limit. It leaves out
// breaks of the kind Before.
func Gaps(breaks []Break) map[string]int64 {
	gaps := map[string]int64{}
	for _, b := range breaks {
		if b.Kind == Between {
			addTo(gaps, b.Limit, b.Missing)
		}
	}
	return gaps
}
