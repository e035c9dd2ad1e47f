// Package calendar knows an organisation's days: which one an instant belongs to, when it
// ends, and when its sums are complete. It takes time as an argument and knows neither
// money nor the store.
package calendar

import (
	"fmt"
	"sync"
	"time"
)

// Calendar is the days of one time zone. The zero value has those of UTC.
type Calendar struct{ zone *time.Location }

// In is the calendar of an IANA time zone, which LoadZone knows.
func In(zone string) Calendar {
	z, err := LoadZone(zone)
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
func (c Calendar) Reset(t time.Time) time.Time { return nextDate(t, c.location()) }

// End is the instant the day is over.
func (c Calendar) End(day string) time.Time {
	noon, err := time.ParseInLocation(dayLayout+"15", day+"12", c.location())
	if err != nil {
		return time.Time{}
	}
	return nextDate(noon, c.location())
}

var zones sync.Map // name → *time.Location; loading one parses the tz database

// LoadZone finds an IANA time zone; another name is an error.
func LoadZone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%q is not an IANA time zone", name)
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not an IANA time zone", name)
	}
	zones.Store(name, z)
	return z, nil
}
