package usage

import (
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Pending is what the counters of a bucket grew by since its snapshots were written, by
// limit: what no record brought yet. seen are the counters as the newest snapshots hold
// them; a limit that they do not have began at 0. A limit that the bucket has no more adds
// nothing, for what it held at its end is in no counter.
func Pending(counters, seen map[string]int64) map[string]int64 {
	pending := map[string]int64{}
	for name, n := range counters {
		addTo(pending, name, n-seen[name])
	}
	return pending
}

// Unknown are the limits whose counters no snapshot showed that was seen, in their order.
func Unknown(counters, seen map[string]int64) []string {
	var names []string
	for name, n := range counters {
		if _, known := seen[name]; !known && n != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Newer takes over the counters of a snapshot that is newer than what was seen.
func Newer(seen map[string]int64, u *schema.UsageSnapshot) { maps.Copy(seen, lasts(u)) }

// Older takes over the counters of a snapshot that is older than what was seen, of limits
// that nothing showed so far.
func Older(seen map[string]int64, u *schema.UsageSnapshot) {
	for name, n := range lasts(u) {
		if _, known := seen[name]; !known {
			seen[name] = n
		}
	}
}

// lasts are the counters after the last record of a snapshot.
func lasts(u *schema.UsageSnapshot) map[string]int64 {
	counters := make(map[string]int64, len(u.Spans))
	for name, s := range u.Spans {
		counters[name] = s.Last
	}
	return counters
}
