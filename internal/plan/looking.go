package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// A refused write costs a write unit of the thousand that a bucket has a second, and a
// read one of three thousand, at a fifth of the price. So where a bucket is scarce and
// what is known of it is old, a lane looks before it writes. A bucket that nobody else
// takes from is exactly what its lane remembers. Everything here is pure.

const (
	// lowShare is the part of a burst below which a limit is scarce.
	lowShare = 10
	// sharedFor is for how long, in ms, others that took from a bucket are reckoned
	// with.
	sharedFor = 60_000
)

// IsShared reports whether others are reckoned with at now who were last seen at seen,
// in ms.
func IsShared(seen, now int64) bool { return now-seen < sharedFor }

// Low reports whether an image, as it was at an instant, left less than a tenth of
// the burst of a limit that amounts name. A quota is low for hours, in which it is not looked
// at before each write.
func Low(m *schema.Image, amounts []Signed, at int64) bool {
	for _, a := range amounts {
		if !m.Holds(a.Name) {
			continue
		}
		if s := m.State(m.Set.Index(a.Name)); !s.IsQuota() && s.Level(at) < s.Burst/lowShare {
			return true
		}
	}
	return false
}

// Tight reports whether a bucket may well deny amounts at an instant: as an image showed it,
// they would leave less than a tenth of a burst.
func Tight(m *schema.Image, amounts []Signed, at int64) bool {
	for _, a := range amounts {
		if !m.Holds(a.Name) {
			continue
		}
		if s := m.State(m.Set.Index(a.Name)); s.Level(at)-a.Amount < s.Burst/lowShare {
			return true
		}
	}
	return false
}

// Shared reports whether anybody else took, or gave back, between two images of which
// the later one came after sums of ours had been written.
func Shared(before, after *schema.Image, ours Rows) bool {
	if before == nil || after == nil || before.Set != after.Set || string(before.Of()) != string(after.Of()) {
		return before != nil
	}
	for i, name := range after.Set.Names {
		if after.Limits[i].Consumed != before.Limits[i].Consumed+ours.Consumed(name) {
			return true
		}
	}
	return false
}
