package calendar

import "time"

// openFor is the time after the end of a day during which its sum is read from the shards. Then
// the day closes. Records are accepted for 24 h.
const openFor = 26 * time.Hour

// IsClosable reports whether the day ended long enough ago to store its sum, because no record can be counted
// on it any more.
func (c Calendar) IsClosable(day string, now time.Time) bool {
	return !now.Before(c.End(day).Add(openFor))
}

// MayBeClosed reports whether a stored sum of the day may exist, so that a write to the day must mark it as
// reopened. It begins an hour before IsClosable, because clocks differ and a write takes time.
func (c Calendar) MayBeClosed(day string, now time.Time) bool {
	return !now.Before(c.End(day).Add(openFor - time.Hour))
}

// FirstOpen returns the first day whose counters may still change at now, at most four days before day.
func (c Calendar) FirstOpen(day string, now time.Time) string {
	for n := 0; n < 4; n++ {
		before := AddDays(day, -1)
		if c.IsClosable(before, now) {
			break
		}
		day = before
	}
	return day
}
