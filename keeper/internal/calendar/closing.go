package calendar

import "time"

// openFor is the time after the end of a day during which its sum is read from the shards. Then
// the day closes. Records are accepted for 24 h.
const openFor = 26 * time.Hour

// IsClosable reports whether the day ended at least 26 hours before now, so that its sum can be stored. Records
// count on a day for 24 hours only.
func (c Calendar) IsClosable(day string, now time.Time) bool {
	return !now.Before(c.End(day).Add(openFor))
}

// MayBeClosed reports whether the day ended at least 25 hours before now. Its sum may be stored then, by a
// process with another clock, so a write to the day must mark it as reopened.
func (c Calendar) MayBeClosed(day string, now time.Time) bool {
	return !now.Before(c.End(day).Add(openFor - time.Hour))
}

// FirstOpen returns the earliest day, among day and the four days before it, from which on no day is closable
// at now. It returns day itself if the day before is closable.
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
