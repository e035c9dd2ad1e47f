package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// Total is the usage of one limit of a resource, summed over windows.
type Total struct {
	Resource string
	aggregator.LimitUsage
	// Series is the consumption in each window, in order.
	Series []int64
}

// Book sums usage over windows. The zero value is empty.
type Book struct {
	totals map[name]*Total
	starts []time.Time
}

type name struct{ resource, limit string }

// SetWindows sets the starts of the windows of a report, in order. Call it before the first Add. Every total
// then has a series of at least that length, with 0 for windows without usage.
func (b *Book) SetWindows(starts []time.Time) { b.starts = slices.Clone(starts) }

// Add adds the usage of a window to the sums and series of its resource's limits, in millitokens. A window that
// SetWindows did not name gets a place of its own. Sums stop at the limits of int64.
func (b *Book) Add(u aggregator.Usage) {
	if b.totals == nil {
		b.totals = map[name]*Total{}
	}
	column := b.windowIndex(u.Start)
	for _, l := range u.Limits {
		key := name{u.Resource, l.Limit}
		t := b.totals[key]
		if t == nil {
			t = &Total{Resource: u.Resource, LimitUsage: aggregator.LimitUsage{Limit: l.Limit}}
			b.totals[key] = t
		}
		t.LimitUsage = sumUsage(t.LimitUsage, l)
		for len(t.Series) <= column {
			t.Series = append(t.Series, 0)
		}
		t.Series[column] = notation.SaturatedSum(t.Series[column], l.Consumed)
	}
}

// windowIndex returns the index in b.starts of the window that begins at start. A new window it inserts in
// order of time, with zeros in every longer series.
func (b *Book) windowIndex(start time.Time) int {
	i, found := slices.BinarySearchFunc(b.starts, start, time.Time.Compare)
	if found {
		return i
	}
	b.starts = slices.Insert(b.starts, i, start)
	for _, t := range b.totals {
		if i < len(t.Series) {
			t.Series = slices.Insert(t.Series, i, 0)
		}
	}
	return i
}

// Totals returns copies of the sums by resource and limit, in millitokens, sorted. All series have a value for
// each window of the book.
func (b *Book) Totals() []Total {
	all := make([]Total, 0, len(b.totals))
	for _, t := range b.totals {
		whole := *t
		whole.Series = append(slices.Clone(t.Series), make([]int64, len(b.starts)-len(t.Series))...)
		all = append(all, whole)
	}
	slices.SortFunc(all, func(a, b Total) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Limit, b.Limit))
	})
	return all
}

// sumUsage returns the sum of the usage of one limit in two windows or by two entities. It changes neither a
// nor b. The limit's name is a's, and its unit b's if set. Sums beyond the range of int64 stay at its end.
func sumUsage(a, b aggregator.LimitUsage) aggregator.LimitUsage {
	a.Consumed = notation.SaturatedSum(a.Consumed, b.Consumed)
	a.Pending = notation.SaturatedSum(a.Pending, b.Pending)
	a.Passed = notation.SaturatedSum(a.Passed, b.Passed)
	a.Unrecorded = notation.SaturatedSum(a.Unrecorded, b.Unrecorded)
	a.Unseen = notation.SaturatedSum(a.Unseen, b.Unseen)
	a.Unit = cmp.Or(b.Unit, a.Unit)
	if len(b.ByModel) > 0 {
		sum := maps.Clone(a.ByModel)
		if sum == nil {
			sum = map[string]int64{}
		}
		for model, n := range b.ByModel {
			sum[model] = notation.SaturatedSum(sum[model], n)
		}
		a.ByModel = sum
	}
	return a
}
