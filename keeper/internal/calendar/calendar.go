// Package calendar knows an organisation's days: which one an instant belongs to, when it
// ends, and when its sums are complete. It takes time as an argument and knows neither
// money nor the store.
package calendar

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// Calendar is the days of one time zone. The zero value has those of UTC.
type Calendar struct{ zone *time.Location }

// Check says what is wrong with the name of a zone; nil if nothing is.
func Check(zone string) error {
	_, err := calendar.LoadZone(zone)
	return err
}

// In is the calendar of an IANA time zone, which calendar.LoadZone knows.
func In(zone string) Calendar {
	z, err := calendar.LoadZone(zone)
	if err != nil {
		z = time.UTC // validated before it was stored
	}
	return Calendar{z}
}

func (c Calendar) location() *time.Location {
	if c.zone == nil {
		return time.UTC
	}
	return c.zone
}

// Day is the day at t.
func (c Calendar) Day(t time.Time) string { return dayIn(t, c.location()) }

// Reset is the first instant after t that belongs to another day.
func (c Calendar) Reset(t time.Time) time.Time { return calendar.NextDate(t, c.location()) }

// End is the instant the day is over.
func (c Calendar) End(day string) time.Time {
	noon, err := time.ParseInLocation(dayLayout+"15", day+"12", c.location())
	if err != nil {
		return time.Time{}
	}
	return calendar.NextDate(noon, c.location())
}
