package aggregator

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// listResources returns the names of the resources that may have usage for the query, sorted. A resource may turn
// out to have none.
func (s *usageSource) listResources(ctx context.Context, a ask) list[string] {
	if a.Resource != "" {
		return listOf(a.Resource)
	}
	partition := a.Partition(s.keys)
	all := []list[string]{s.skimResources(ctx, partition, a.Prefix())}
	for _, w := range a.storedWindows() {
		of := a.UsageSeries
		of.Window = w
		all = append(all, s.skimResources(ctx, partition, of.Prefix()))
	}
	if a.Kind == schema.UsageOfEntity {
		if a.includesOpenHour() {
			all = append(all, s.bucketResources(ctx, a.ID))
		}
	} else {
		all = append(all, listOf(slices.Sorted(maps.Keys(a.live))...))
	}
	return withoutRepeats(mergeLists(strings.Compare, all...))
}
