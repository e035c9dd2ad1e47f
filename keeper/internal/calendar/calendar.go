// Package calendar computes an organisation's days: the day of an instant, the end of a day,
// and the instant from which the sums of a day are complete. It takes the time as an argument
// and knows neither money nor the store.
package calendar

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// Calendar is the days of one time zone. The zero value is the calendar of UTC.
type Calendar struct{ zone *time.Location }

// Check returns nil if calendar.LoadZone accepts zone as the name of a time zone, else the error of LoadZone.
func Check(zone string) error {
	_, err := calendar.LoadZone(zone)
	return err
}

// InZone returns the calendar of an IANA time zone that calendar.LoadZone accepts, or that of UTC for any other
// name.
func InZone(zone string) Calendar {
	z, err := calendar.LoadZone(zone)
	if err != nil {
		z = time.UTC // validated before it was stored
	}
	return Calendar{z}
}

// location returns the calendar's time zone. It is UTC for the zero Calendar.
func (c Calendar) location() *time.Location {
	if c.zone == nil {
		return time.UTC
	}
	return c.zone
}

// Day returns the date of the instant t in the calendar's time zone, as text such as 20260123.
func (c Calendar) Day(t time.Time) string { return dateIn(t, c.location()) }

// NextDay returns the first instant of the date after t's date in the calendar's time zone, when quotas are
// full again.
func (c Calendar) NextDay(t time.Time) time.Time { return calendar.NextDate(t, c.location()) }

// End returns the first instant after the day, a text such as 20260123, in the calendar's time zone. For an
// invalid day it returns the zero time.
func (c Calendar) End(day string) time.Time {
	noon, err := time.ParseInLocation(dayLayout+"15", day+"12", c.location())
	if err != nil {
		return time.Time{}
	}
	return calendar.NextDate(noon, c.location())
}
