package calendar

import (
	"fmt"
	"time"
)

// Period is how long a quota runs: a day, an ISO week or a month of the
// organisation's zone.
type Period string

// The periods. The zero value means Day.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// String is the period as it is stored.
func (p Period) String() string { return string(p) }

// Bounds are the first and the last day of the period that contains day.
func Bounds(p Period, day string) (first, last string) {
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

// PeriodKey names the period that contains day: DAY#20260123, WEEK#2026-W04,
// MONTH#202601.
func PeriodKey(p Period, day string) string {
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
