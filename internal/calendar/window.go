package calendar

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Unit is how long the windows of a calendar are.
type Unit uint8

// The units. Hours are those of UTC; weeks begin on Monday, as in ISO 8601.
const (
	Hour Unit = 1 + iota
	Day
	Week
	Month
)

var unitNames = [...]string{Hour: "hour", Day: "day", Week: "week", Month: "month"}

// Units returns the names of the units, shortest first: hour, day, week, month.
func Units() []string { return slices.Clone(unitNames[1:]) }

// String returns the name of the unit: "hour", "day", "week" or "month".
func (u Unit) String() string { return unitNames[u] }

// Windows are the windows of a unit in a time zone, one after the other. They are a number, so
// that equal windows are equal numbers; 0 is unset. Each window has an ordinal: hours and days since
// 1970-01-01, ISO weeks since the one of that day, months since January of the year 0.
type Windows uint32

// registry gives each pair of a unit and a zone its number, for as long as the process lasts.
var registry struct {
	sync.RWMutex
	known []entry // number − 1
	by    map[string]Windows
}

type entry struct {
	unit Unit
	name string
	zone *time.Location
}

// mostWindows bounds how many pairs a process knows. There are some 600 zones.
const mostWindows = 10_000

// WindowsOf returns the windows of a unit, by its name, in an IANA time zone; "" means UTC. Equal arguments
// give equal Windows. It returns an error for an unknown unit or zone, and for hours in another zone than UTC.
func WindowsOf(unit, zone string) (Windows, error) {
	if zone == "" {
		zone = "UTC"
	}
	i := slices.Index(unitNames[:], unit)
	if i < int(Hour) {
		return 0, fmt.Errorf("%q is no window; write one of %q", unit, unitNames[1:])
	}
	u := Unit(i) //nolint:gosec // of a list of five
	if u == Hour && zone != "UTC" {
		return 0, fmt.Errorf("hours are those of UTC; leave out the zone %q", zone)
	}
	key := Text(unit, zone)
	registry.RLock()
	w := registry.by[key]
	registry.RUnlock()
	if w != 0 {
		return w, nil
	}
	location, err := LoadZone(zone)
	if err != nil {
		return 0, err
	}
	registry.Lock()
	defer registry.Unlock()
	if w := registry.by[key]; w != 0 {
		return w, nil
	}
	if len(registry.known) == mostWindows {
		return 0, fmt.Errorf("more than %d windows in time zones", mostWindows)
	}
	if registry.by == nil {
		registry.by = map[string]Windows{}
	}
	registry.known = append(registry.known, entry{u, zone, location})
	w = Windows(len(registry.known)) //nolint:gosec // at most mostWindows
	registry.by[key] = w
	return w, nil
}

// Text returns the stored form of windows: "day America/Los_Angeles".
func Text(unit, zone string) string { return unit + " " + zone }

// Parse returns the windows of a stored text, such as "day America/Los_Angeles". It returns an error for an
// unknown unit or zone.
func Parse(text string) (Windows, error) {
	unit, zone, _ := strings.Cut(text, " ")
	return WindowsOf(unit, zone)
}

// entry returns the unit and the zone of w, which must not be 0.
func (w Windows) entry() entry {
	registry.RLock()
	defer registry.RUnlock()
	return registry.known[w-1]
}

// Unit returns the unit of the windows.
func (w Windows) Unit() Unit { return w.entry().unit }

// Zone returns the IANA name of the windows' time zone.
func (w Windows) Zone() string { return w.entry().name }

// String returns the stored form of the windows: "day America/Los_Angeles".
func (w Windows) String() string {
	e := w.entry()
	return Text(e.unit.String(), e.name)
}

// At returns the ordinal of the window that contains the instant ms, in Unix ms. The ordinal counts hours, days
// or ISO weeks since 1970-01-01, or months since January of the year 0.
func (w Windows) At(ms int64) int64 {
	e := w.entry()
	if e.unit == Hour {
		return floorDiv(ms, 3_600_000)
	}
	t := time.UnixMilli(ms)
	switch e.unit {
	case Month:
		y, m, _ := t.In(e.zone).Date()
		return int64(y)*12 + int64(m) - 1
	case Week:
		return weekOf(dateOf(t, e.zone))
	default:
		return dateOf(t, e.zone)
	}
}

// weekOf returns the number of the ISO week of a date, both counted from 1970. 1970-01-01 was a Thursday.
func weekOf(date int64) int64 { return floorDiv(date+3, 7) }

// Start returns the first instant, in Unix ms, of the window with this ordinal or, if no instant belongs to it,
// of the next one.
func (w Windows) Start(window int64) int64 {
	e := w.entry()
	var date int64 // on which the window begins
	switch e.unit {
	case Hour:
		return window * 3_600_000
	case Month:
		date = time.Date(int(floorDiv(window, 12)), time.Month(window-floorDiv(window, 12)*12+1), 1, 0, 0, 0, 0, time.UTC).Unix() / secondsOfDay
	case Week:
		date = window*7 - 3
	default:
		date = window
	}
	t := time.Unix((date-2)*secondsOfDay+secondsOfDay/2, 0)
	for dateOf(t, e.zone) < date {
		t = NextDate(t, e.zone)
	}
	return t.UnixMilli()
}

// Longest returns the largest possible length of a window, in ms. It allows for a day of 26 hours and a zone
// that moves by up to a day.
func (w Windows) Longest() int64 {
	const hour = 3_600_000
	switch w.entry().unit {
	case Hour:
		return hour
	case Month:
		return (31*24 + 26) * hour
	case Week:
		return (7*24 + 26) * hour
	default:
		return (24 + 26) * hour
	}
}

// floorDiv returns a/b rounded down, also for a negative a.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
