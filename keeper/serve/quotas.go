package keeper

import (
	"maps"
	"slices"
)

// others is the series of labels without their own series. No label can have this name.
const others = "(others)"

// quotas bounds the number of series of labels, because organisations name the labels. The
// first ones have their own series for the life of the process, the others share one.
type quotas struct {
	maximum int
	own     map[string]bool
}

// boundSeries returns the percentages by series of the metric. The first q.maximum labels have their own, and q
// remembers them for the process's life. All others share "(others)" with their highest percentage.
func (q *quotas) boundSeries(byLabel map[string]float64) map[string]float64 {
	if q.own == nil {
		q.own = map[string]bool{}
	}
	out := map[string]float64{}
	for _, label := range slices.Sorted(maps.Keys(byLabel)) {
		series := label
		switch {
		case q.own[label]:
		case len(q.own) < q.maximum:
			q.own[label] = true
		default:
			series = others
		}
		out[series] = max(out[series], byLabel[label])
	}
	return out
}
