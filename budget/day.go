package budget

import (
	"fmt"
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

// parseDay checks a day like "20260123" and returns its date at noon UTC.
func parseDay(field, day string) (time.Time, error) {
	t, err := time.Parse(dayLayout, day)
	if err != nil {
		return time.Time{}, invalid(field, "%q is not a day like 20260123", day)
	}
	return t.Add(12 * time.Hour), nil
}

// addDays moves a day on the calendar.
func addDays(day string, n int) string {
	t, err := time.Parse(dayLayout, day)
	if err != nil {
		return day
	}
	return t.AddDate(0, 0, n).Format(dayLayout)
}

// Period is how long a quota runs: a day, an ISO week or a month of the
// organisation's zone.
type Period string

// The periods. The zero value means Day.
const (
	Day   Period = "day"   // a date of the organisation's zone
	Week  Period = "week"  // from Monday on, as in ISO 8601
	Month Period = "month" // a calendar month
)

// bounds are the first and the last day of the period that contains day.
func (p Period) bounds(day string) (first, last string) {
	t, err := time.Parse(dayLayout, day)
	if err != nil {
		return day, day
	}
	switch p {
	case Week: // ISO: Monday to Sunday
		back := (int(t.Weekday()) + 6) % 7
		return t.AddDate(0, 0, -back).Format(dayLayout), t.AddDate(0, 0, 6-back).Format(dayLayout)
	case Month:
		start := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
		return start.Format(dayLayout), start.AddDate(0, 1, -1).Format(dayLayout)
	}
	return day, day
}

// key names the period that contains day: DAY#20260123, WEEK#2026-W04,
// MONTH#202601.
func (p Period) key(day string) string {
	t, err := time.Parse(dayLayout, day)
	if err != nil {
		return "DAY#" + day
	}
	switch p {
	case Week:
		y, w := t.ISOWeek()
		return fmt.Sprintf("WEEK#%04d-W%02d", y, w)
	case Month:
		return "MONTH#" + day[:6]
	}
	return "DAY#" + day
}

// ParseTime reads an RFC 3339 time with its zone, as usage records carry it. A
// time without a zone is a *ValidationError.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, invalid("timestamp", "%q is not RFC 3339 with a zone, like 2026-01-23T15:30:45Z", s)
	}
	return t, nil
}
