package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// period are the flags of a time.
type period struct {
	Since    string `help:"The time up to now, such as 24h or 7d. Default: ${usual}." placeholder:"PERIOD"`
	From     string `help:"Not before: a time, a day such as 2026-01-31, a month such as 2026-01, or a period such as 7d." placeholder:"TIME"`
	To       string `help:"Not after: likewise; a day or a month is in it. Default: now." placeholder:"TIME"`
	Timezone string `help:"The time zone in which days begin and times are shown, such as Europe/Berlin." default:"UTC"`
}

// asked is a period that was read.
type asked struct {
	notation.Span
	zone *time.Location
	// namespace is the one that is read; "" for none.
	namespace string
}

// read reads the flags, as of now; usual is how long the period is if nothing else is said.
func (p period) read(now time.Time, usual time.Duration) (asked, error) {
	zone, err := time.LoadLocation(cmp.Or(p.Timezone, "UTC"))
	if err != nil {
		return asked{}, fmt.Errorf("--timezone %q is not known: give the name of the IANA, such as Europe/Berlin", p.Timezone)
	}
	span, err := notation.SpanOf(p.Since, p.From, p.To, now, usual, zone)
	return asked{Span: span, zone: zone}, err
}

// zoneText names the time zone where it is not UTC.
func (a asked) zoneText() string {
	if a.zone == time.UTC || a.zone.String() == "UTC" {
		return ""
	}
	return " in " + term.Plain(a.zone.String())
}

// widened is the period with the whole of the windows that it cuts.
func (a asked) widened(w aggregator.Window, now time.Time) asked {
	calendar, kind := usage.Calendar{Zone: a.zone}, storedWindows[w]
	a.Span = a.Span.Widened(now, func(at time.Time) time.Time { return calendar.Floor(kind, at) }, func(at time.Time) time.Time { return calendar.Next(kind, at) })
	return a
}

// starts are where the windows of the period begin, up to now.
func (a asked) starts(w aggregator.Window, now time.Time) (all []time.Time) {
	calendar, kind := usage.Calendar{Zone: a.zone}, storedWindows[w]
	for at := calendar.Floor(kind, a.From); at.Before(a.To) && !at.After(now); at = calendar.Next(kind, at) {
		all = append(all, at)
	}
	return all
}

// storedWindows are the windows as the table has them.
var storedWindows = map[aggregator.Window]schema.UsageWindow{
	aggregator.Hour: schema.UsageHourly, aggregator.Day: schema.UsageDaily, aggregator.Month: schema.UsageMonthly,
}

// widest are the longest windows that the period is whole ones of: the fewer are read.
func (a asked) widest() aggregator.Window {
	switch {
	case a.Months(a.zone):
		return aggregator.Month
	case a.Days(a.zone):
		return aggregator.Day
	}
	return aggregator.Hour
}
