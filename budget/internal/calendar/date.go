package calendar

import (
	"time"
	_ "time/tzdata" // organisations name IANA zones, whatever the host has installed
)

const dayLayout = "20060102"

// dayIn is the local date of an instant, as "20260123". Days sort as strings.
func dayIn(t time.Time, zone *time.Location) string { return t.In(zone).Format(dayLayout) }

// nextDate is the first instant after t whose local date differs from t's. It
// walks the zone's own transitions: midnight may not exist (Santiago on
// 2026-09-06), and days last 23 to 25 hours.
func nextDate(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	day := dayIn(t, zone)
	for {
		_, offset := t.Zone()
		fixed := time.FixedZone("", offset)
		y, m, d := t.In(fixed).Date()
		midnight := time.Date(y, m, d+1, 0, 0, 0, 0, fixed)
		_, end := t.ZoneBounds()
		if end.IsZero() || midnight.Before(end) {
			return midnight.In(zone)
		}
		if t = end.In(zone); dayIn(t, zone) != day {
			return t
		}
	}
}

// ParseDay reads a day like "20260123"; the answer is its noon in UTC.
func ParseDay(day string) (time.Time, error) {
	t, err := time.Parse(dayLayout, day)
	return t.Add(12 * time.Hour), err
}

// AddDays moves a day on the calendar.
func AddDays(day string, n int) string {
	t, err := time.Parse(dayLayout, day)
	if err != nil {
		return day
	}
	return t.AddDate(0, 0, n).Format(dayLayout)
}
