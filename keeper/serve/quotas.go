package keeper

import (
	"maps"
	"slices"
)

// others stands for the labels of quotas that have no series of their own: no label is
// called so.
const others = "(others)"

// quotas bounds the series of labels, which organisations name: those that come first have
// one each, for as long as the process runs, and the others one together.
type quotas struct {
	maximum int
	own     map[string]bool
}

// bounded is the highest percentage by series.
func (q *quotas) bounded(byLabel map[string]float64) map[string]float64 {
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
