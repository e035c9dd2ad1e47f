package ledger

import (
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// Amounts is what counts on a day against labels and against further limits, in their
// order. With stored it leaves out this process's own writes.
func (b *Board) Amounts(cal calendar.Calendar, day string, stored bool, labels []string, limits []Limit) (byLabel, byLimit []Amount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, label := range labels {
		byLabel = append(byLabel, b.dayAmount(label, day, stored))
	}
	for _, l := range limits {
		byLimit = append(byLimit, b.limitAmount(cal, l, day, stored))
	}
	return byLabel, byLimit
}

// Uncounted is what was spent in a limit's period on days that its counter does not
// contain.
func (b *Board) Uncounted(cal calendar.Calendar, l Limit, day string) Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.uncountedAmount(cal, l, day, false)
}

// amount is what counts on one counter. With stored it leaves out own writes.
func (b *Board) amount(ref store.Key, stored bool) Amount {
	var sum Counter
	for _, row := range b.rows[ref] {
		sum = sum.Add(row)
	}
	a := sum.Amount()
	if o := b.own[ref]; o != nil && !stored {
		a = a.add(o.before).add(o.since)
	}
	return a
}

// dayAmount is a label's amount on a day, open or closed.
func (b *Board) dayAmount(label, day string, stored bool) Amount {
	if row, ok := b.totals[day][label]; ok {
		return Amount{Spend: row.Spend()}
	}
	return b.amount(LabelDay(b.Scope, label, day), stored)
}

// limitAmount is what counts against a limit: its counter in hard mode, and
// the days whose spend is in no such counter. It needs the board's lock.
func (b *Board) limitAmount(cal calendar.Calendar, l Limit, day string, stored bool) Amount {
	var sum Amount
	if cal.Of(day).Counts(l.Kind()) {
		sum = b.amount(l.Ref(b.Scope, day), stored)
	}
	return sum.add(b.uncountedAmount(cal, l, day, stored))
}

// uncountedAmount sums the days of the period that its counter does not contain. Days
// counted under the other scope are taken whole: an organisation's limit gets the spend
// of all its apps, and an app's limit what the organisation spent while nobody counted
// by app. The board's lock must be held.
func (b *Board) uncountedAmount(cal calendar.Calendar, l Limit, day string, stored bool) Amount {
	var sum Amount
	labels := []string{l.Label}
	if l.Label == "" {
		labels = slices.Sorted(maps.Keys(b.has.labels))
	}
	scope := cal.Of(day).Scope
	for _, d := range cal.Uncounted(l.Kind(), day) {
		away := cal.Of(d).Scope != scope
		for _, label := range labels {
			if away {
				sum = sum.add(b.otherScope.days[d][label])
			} else {
				sum = sum.add(b.dayAmount(label, d, stored))
			}
		}
	}
	return sum
}
