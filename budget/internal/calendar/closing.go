package calendar

import "time"

// openFor is how long after its end a day is summed from its shards; then it
// is closed. Records are taken for 24 h.
const openFor = 26 * time.Hour

// Closes says that a day is over for so long that its sum can be stored.
func (c Calendar) Closes(day string, now time.Time) bool {
	return !now.Before(c.End(day).Add(openFor))
}

// Reopens says that a write to a day may find its sum stored. It begins an hour
// before Closes does: clocks differ, and a write takes its time.
func (c Calendar) Reopens(day string, now time.Time) bool {
	return !now.Before(c.End(day).Add(openFor - time.Hour))
}

// FirstOpen is the first day whose shards may still be written, at most four
// before day.
func (c Calendar) FirstOpen(day string, now time.Time) string {
	for n := 0; n < 4; n++ {
		before := AddDays(day, -1)
		if c.Closes(before, now) {
			break
		}
		day = before
	}
	return day
}

// Uncounted lists the days of a period, from its first to day, whose spend is not
// in the counter of that kind which is kept on day: all when none is. A day is in
// it that was counted under the same scope, with such a counter.
func (c Calendar) Uncounted(kind CounterKind, day string) []string {
	rule := c.Of(day)
	first, _ := Bounds(kind.Period, day)
	counts := rule.Counts(kind)
	if counts && c.indexOf(first) == c.indexOf(day) {
		return nil
	}
	var days []string
	for d := first; d <= day; d = AddDays(d, 1) {
		if r := c.Of(d); !counts || r.Scope != rule.Scope || !r.Counts(kind) {
			days = append(days, d)
		}
	}
	return days
}

// PeriodEnd is when the period that contains day is over; reset is when the day
// is.
func (c Calendar) PeriodEnd(p Period, day string, reset time.Time) time.Time {
	if _, last := Bounds(p, day); last > day {
		return c.End(last)
	}
	return reset
}
