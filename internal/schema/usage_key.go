package schema

import (
	"strings"
	"time"
)

// SplitNamespace splits a partition key into the Keys of its namespace and the rest. Without a namespace it
// returns zero Keys and the whole key.
func SplitNamespace(pk string) (k Keys, rest string) {
	if name, rest, ok := strings.Cut(pk, "/"); ok && name != "" && !strings.Contains(name, "#") {
		return NewKeys(name), rest
	}
	return Keys{}, pk
}

// UsageSeriesOf returns the namespace, the series and the start of the window in the key of a snapshot or of
// any sum. It returns false for any other key.
func UsageSeriesOf(key Key) (k Keys, s UsageSeries, start time.Time, ok bool) {
	k, rest := SplitNamespace(key.PK)
	i := strings.LastIndexByte(key.SK, '#')
	if i < 0 {
		return k, UsageSeries{}, time.Time{}, false
	}
	for window := range usageWindows {
		for _, kind := range []UsageKind{UsageOfEntity, UsageOfResource, UsageOfPlan, UsageOfChildren} {
			s := UsageSeries{Kind: kind, Window: window}
			var mine, its bool
			s.ID, mine = strings.CutPrefix(rest, s.Partition(Keys{}))
			s.Resource, its = strings.CutPrefix(key.SK[:i], s.Prefix())
			if !mine || !its || s.ID == "" || s.Resource == "" {
				continue
			}
			start, err := time.Parse(usageWindows[window].layout, key.SK[i+1:])
			return k, s, start, err == nil
		}
	}
	return k, UsageSeries{}, time.Time{}, false
}
