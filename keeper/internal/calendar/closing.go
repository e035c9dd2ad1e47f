package calendar

import "time"

// openFor is the time after the end of a day during which its sum is read from the shards. Then
// the day closes. Records are accepted for 24 h.
const openFor = 26 * time.Hour

// Closes reports whether the day ended long enough ago to store its sum.
func (c Calendar) Closes(day string, now time.Time) bool {
	return !now.Before(c.End(day).Add(openFor))
}

// Reopens reports whether a write to the day may find a stored sum. It begins an hour before
// Closes, because clocks differ and a write takes time.
func (c Calendar) Reopens(day string, now time.Time) bool {
	return !now.Before(c.End(day).Add(openFor - time.Hour))
}

// FirstOpen returns the first day whose counters may still change at now, at most four days before day.
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
