package notation

import (
	"fmt"
	"strings"
	"time"
)

// ExampleMoment is a moment in this notation, for messages.
const ExampleMoment = "2026-01-31T15:04:05Z, 2026-01-31 for the day in UTC, or 2h for two hours ago"

// ParseMoment parses a point in time at now: RFC 3339, a day in UTC, or a duration such as 2h or "3d ago"
// before now. A day means its beginning or, with end, its last millisecond.
func ParseMoment(text string, now time.Time, end bool) (time.Time, error) {
	begins, ends, ok := parseMomentIn(text, now, time.UTC)
	switch {
	case !ok:
		return time.Time{}, fmt.Errorf("%q is no time: write it like %s", text, ExampleMoment)
	case end && ends.After(begins):
		return ends.Add(-time.Millisecond), nil
	}
	return begins, nil
}

// calendarParts are the calendar formats of a span, with the distance to the next one in years,
// months and days.
var calendarParts = []struct {
	layout              string
	years, months, days int
}{{time.DateOnly, 0, 0, 1}, {"2006-01", 0, 1, 0}, {"2006", 1, 0, 0}}

// parseMomentIn parses a moment in a time zone: RFC 3339, a date with a time, a day, a month, a year, or a
// duration before now. begins and ends differ only for a day, a month or a year. ok is false for an invalid
// text.
func parseMomentIn(text string, now time.Time, zone *time.Location) (begins, ends time.Time, ok bool) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, at, true
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return at, at, true
		}
	}
	for _, part := range calendarParts {
		if at, err := time.ParseInLocation(part.layout, text, zone); err == nil {
			return at, at.AddDate(part.years, part.months, part.days), true
		}
	}
	if ago, err := ParsePeriod(strings.TrimSpace(strings.TrimSuffix(text, "ago"))); err == nil && ago >= 0 {
		return now.Add(-ago), now.Add(-ago), true
	}
	return time.Time{}, time.Time{}, false
}

// ExampleUntil is an end in this notation, for messages.
const ExampleUntil = "18:00, '2026-01-31 18:00', 2026-01-31T18:00:00Z, or 2h for so long"

// ParseUntil parses an end at now: a time of day or of a date in a zone, RFC 3339, or a duration from now. A
// time of day means today, even if it has passed; any other date must be later than now.
func ParseUntil(text string, now time.Time, zone *time.Location) (time.Time, error) {
	if period, err := ParsePeriod(text); err == nil {
		return now.Add(period), nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			today := now.In(zone)
			return time.Date(today.Year(), today.Month(), today.Day(), at.Hour(), at.Minute(), at.Second(), 0, zone), nil
		}
	}
	if begins, ends, ok := parseMomentIn(text, now, zone); ok && begins.Equal(ends) && begins.After(now) {
		return begins, nil
	}
	return time.Time{}, fmt.Errorf("%q is no time to come: write it like %s", text, ExampleUntil)
}
