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

// Note records the last values of an hour's counters, for limits without a later hour.
func (e Ends) Note(u schema.UsageSnapshot) {
	for name, s := range u.Spans {
		if at, there := e[name]; !there || at.Hour.Before(u.Hour) {
			e[name] = End{s.Last, u.Hour, u.Buckets.Last}
		}
	}
}

// endOf returns the last value of a counter. A counter of passed amounts may be missing although its limit's
// counter is known; then it had not begun, and its value is 0.
func (e Ends) endOf(name string) (End, bool) {
	end, there := e[name]
	if limit, passed := schema.CounterOf(name); !there && passed {
		end, there = e[limit]
		end.Last = 0
	}
	return end, there
}

// Have reports whether the last values before an hour are known: of all its counters or, if all is false,
// only of counters that began above 0.
func (e Ends) Have(u schema.UsageSnapshot, all bool) bool {
	for name, s := range u.Spans {
		if _, there := e[name]; !there && (all || s.First != 0) && !schema.IsByModel(name) {
			return false
		}
	}
	return true
}

// Breaks returns the counters of an hour that do not continue from the last known values, ordered by limit. A
// counter without a known value must begin at 0 to continue.
func Breaks(u schema.UsageSnapshot, ends Ends) []Break {
	var all []Break
	for _, name := range slices.Sorted(maps.Keys(u.Spans)) {
		s := u.Spans[name]
		end, there := ends.endOf(name)
		if !there {
			if s.First != 0 {
				all = append(all, Break{Limit: name, Kind: Before, Missing: s.First})
			}
			continue
		}
		since := s.Since(end.Last)
		if schema.OtherBucket(end.Bucket, u.Buckets.First) {
			since = s.Anew(end.Last)
		}
		b := Break{Limit: name, Kind: Between, Missing: since.Missing - s.Missing, Unseen: since.Unseen - s.Unseen, Last: end.Last, Since: end.Hour}
		if b.Missing != 0 || b.Unseen != 0 {
			all = append(all, b)
		}
	}
	return all
}

// Gaps returns the amounts missing between the breaks' hour and the hours before, by limit.
func Gaps(breaks []Break) map[string]int64 {
	gaps := map[string]int64{}
	for _, b := range breaks {
		if b.Kind == Between {
			addTo(gaps, b.Limit, b.Missing)
		}
	}
	return gaps
}
