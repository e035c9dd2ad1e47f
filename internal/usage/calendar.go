package usage

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Calendar cuts time into windows in a time zone. Hours are those of the table: they begin
// at full hours of UTC in every zone.
type Calendar struct{ Zone *time.Location }

// UTC reports whether days and months are those of UTC, as sums in the table are.
func (c Calendar) UTC() bool { return c.Zone == time.UTC }

// Floor returns the beginning of the window that contains an instant, in the calendar's zone. Hours begin at
// full hours of UTC in every zone.
func (c Calendar) Floor(w schema.UsageWindow, at time.Time) time.Time {
	at = at.In(c.Zone)
	year, month, day := at.Date()
	switch w {
	case schema.UsageDaily:
	case schema.UsageMonthly:
		day = 1
	default:
		return at.Truncate(time.Hour) // of absolute time
	}
	start := c.dayStart(year, month, day)
	if start.After(at) { // the clock was set back over midnight: the day had not begun
		return c.Floor(w, start.AddDate(0, 0, -1))
	}
	return start
}

// Next returns the beginning of the window after the one that begins at start, in the calendar's zone. Any
// window but a day or a month is an hour.
func (c Calendar) Next(w schema.UsageWindow, start time.Time) time.Time {
	year, month, day := start.In(c.Zone).Date()
	switch w {
	case schema.UsageDaily:
		return c.dayStart(year, month, day+1)
	case schema.UsageMonthly:
		return c.dayStart(year, month+1, 1)
	default:
		return start.Add(time.Hour)
	}
}

// Hours returns the first full hour of UTC at or after start, and that at or after end.
func (c Calendar) Hours(start, end time.Time) (from, to time.Time) {
	return hourFrom(start), hourFrom(end)
}

// hourFrom returns the first full hour of UTC at an instant or after it.
func hourFrom(at time.Time) time.Time {
	hour := at.UTC().Truncate(time.Hour)
	if hour.Before(at) {
		hour = hour.Add(time.Hour)
	}
	return hour
}

// dayStart returns the first instant of a day: midnight, or its first occurrence if clocks show
// it twice. If midnight is skipped, it is the instant that clocks skip to.
func (c Calendar) dayStart(year int, month time.Month, day int) time.Time {
	civil := time.Date(year, month, day, 0, 0, 0, 0, time.UTC) // without months of 32 days
	t := time.Date(civil.Year(), civil.Month(), civil.Day(), 0, 0, 0, 0, c.Zone)
	zoneStart, zoneEnd := t.ZoneBounds()
	switch {
	case t.Day() != civil.Day():
		return zoneEnd
	case t.Hour() != 0 || t.Minute() != 0:
		return zoneStart
	case zoneStart.IsZero():
		return t
	}
	_, after := t.Zone()
	_, before := zoneStart.Add(-1).Zone()
	if first := t.Add(time.Duration(after-before) * time.Second); before > after && first.Before(zoneStart) && first.Day() == civil.Day() {
		return first
	}
	return t
}
