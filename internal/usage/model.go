package usage

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// mostModels bounds the models of a limit in a sum. The other models add to the limit's own count alone.
const mostModels = 40

// dropSmallModels keeps the counters by model of the mostModels largest models of each limit, by net. It
// deletes the others from the maps in all, in place; net must be one of these maps.
func dropSmallModels(net map[string]int64, all []map[string]int64) {
	byLimit := map[string][]string{}
	for counter := range net {
		if limit, _, _, ok := schema.SplitModel(counter); ok {
			byLimit[limit] = append(byLimit[limit], counter)
		}
	}
	for _, counters := range byLimit {
		if len(counters) <= mostModels {
			continue
		}
		slices.SortFunc(counters, func(a, b string) int { return cmp.Or(cmp.Compare(net[b], net[a]), cmp.Compare(a, b)) })
		for _, counter := range counters[mostModels:] {
			for _, of := range all {
				delete(of, counter)
			}
		}
	}
}

// ByModel returns the consumption by limit and model, in millitokens, from the counters of a sum; nil without
// any. It leaves out models with 0, and includes amounts that a level above counted too.
func ByModel(net map[string]int64) map[string]map[string]int64 {
	var all map[string]map[string]int64
	for _, counter := range slices.Sorted(maps.Keys(net)) {
		limit, model, _, ok := schema.SplitModel(counter)
		if !ok || net[counter] == 0 {
			continue
		}
		if all == nil {
			all = map[string]map[string]int64{}
		}
		if all[limit] == nil {
			all[limit] = map[string]int64{}
		}
		all[limit][model] = saturatedSum(all[limit][model], net[counter])
	}
	return all
}
