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
