package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// period is the flags of a period.
type period struct {
	Since    string `help:"The time up to now, such as 24h or 7d. Default: ${usual}." placeholder:"PERIOD"`
	From     string `help:"Not before: a time, a day such as 2026-01-31, a month such as 2026-01, or a period such as 7d." placeholder:"TIME"`
	To       string `help:"Not after: likewise; a day or a month is in it. Default: now." placeholder:"TIME"`
	Timezone string `help:"The time zone in which days begin and times are shown, such as Europe/Berlin." default:"UTC"`
}

// asked is a parsed period.
type asked struct {
	notation.Span
	zone *time.Location
	// namespace is the read namespace, or "".
	namespace string
}

// parsePeriod returns the period and time zone of the flags. now resolves relative times, and usual is the
// length up to now without flags. An unknown time zone and malformed times are errors.
func (p period) parsePeriod(now time.Time, usual time.Duration) (asked, error) {
	zone, err := time.LoadLocation(cmp.Or(p.Timezone, "UTC"))
	if err != nil {
		return asked{}, fmt.Errorf("--timezone %q is not known: give the name of the IANA, such as Europe/Berlin", p.Timezone)
	}
	span, err := notation.ParseSpan(p.Since, p.From, p.To, now, usual, zone)
	return asked{Span: span, zone: zone}, err
}

// zoneText returns " in ZONE" for a title, or "" for UTC.
func (a asked) zoneText() string {
	if a.zone == time.UTC || a.zone.String() == "UTC" {
		return ""
	}
	return " in " + term.Plain(a.zone.String())
}

// wholeWindows returns a copy of the period extended to whole windows of length w at both ends. A period that
// ends at now or earlier is not extended beyond now.
func (a asked) wholeWindows(w aggregator.Window, now time.Time) asked {
	calendar, kind := usage.Calendar{Zone: a.zone}, storedWindows[w]
	a.Span = a.Span.Widened(now, func(at time.Time) time.Time { return calendar.Floor(kind, at) }, func(at time.Time) time.Time { return calendar.Next(kind, at) })
	return a
}

// windowStarts returns the starts of the period's windows of length w, without those after now.
func (a asked) windowStarts(w aggregator.Window, now time.Time) (all []time.Time) {
	calendar, kind := usage.Calendar{Zone: a.zone}, storedWindows[w]
	for at := calendar.Floor(kind, a.From); at.Before(a.To) && !at.After(now); at = calendar.Next(kind, at) {
		all = append(all, at)
	}
	return all
}

// storedWindows maps windows to the table's names.
var storedWindows = map[aggregator.Window]schema.UsageWindow{
	aggregator.Hour: schema.UsageHourly, aggregator.Day: schema.UsageDaily, aggregator.Month: schema.UsageMonthly,
}

// widestWindow returns the longest window that divides the period: month, day or hour. Fewer
// windows cost fewer reads.
func (a asked) widestWindow() aggregator.Window {
	switch {
	case a.IsWholeMonths(a.zone):
		return aggregator.Month
	case a.IsWholeDays(a.zone):
		return aggregator.Day
	}
	return aggregator.Hour
}
