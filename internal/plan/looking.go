package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// A refused write costs a write unit; a bucket has a thousand of these a second. A read costs one of three
// thousand read units, at a fifth of the price. So a lane reads before it writes if the bucket is scarce and
// its image is old. If no other process takes from the bucket, the lane's image is exact. Everything here is
// pure.

const (
	// lowShare is the divisor of a burst: a limit below that part is scarce.
	lowShare = 10
	// sharedFor is the time in ms for which a bucket counts as shared after another process took from it.
	sharedFor = 60_000
)

// IsShared reports whether a bucket still counts as shared at now; seen is the last sign of another process.
// Both are in ms.
func IsShared(seen, now int64) bool { return now-seen < sharedFor }

// Low reports whether the image, at the instant at, leaves less than a tenth of the burst of a limit in
// amounts. Quotas do not count: a quota is low for hours, and a read before each write would be too many.
func Low(m *schema.Image, amounts []Signed, at int64) bool {
	for _, a := range amounts {
		if !m.Holds(a.Name) {
			continue
		}
		if s := m.State(m.Set.Index(a.Name)); s.Period > 0 && s.Level(at) < s.Burst/lowShare {
			return true
		}
	}
	return false
}

// Tight reports whether the bucket may well deny amounts at an instant: by the image they would leave less
// than a tenth of a burst.
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

// Shared reports whether another process took or gave back tokens between two images. The writes of ours
// landed between them.
func Shared(before, after *schema.Image, ours Rows) bool {
	if before == nil || after == nil || before.Set != after.Set || string(before.Of()) != string(after.Of()) {
		return before != nil
	}
	for i, name := range after.Set.Names {
		consumed := after.Limits[i].Consumed - before.Limits[i].Consumed
		for len(ours) > 0 && ours[0].Name < name { // both are in name order
			ours = ours[1:]
		}
		if len(ours) > 0 && ours[0].Name == name {
			consumed -= ours[0].Consumed()
		}
		if consumed != 0 {
			return true
		}
	}
	return false
}
