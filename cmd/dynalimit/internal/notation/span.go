package notation

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Span is a time between two moments, To not included.
type Span struct{ From, To time.Time }

// ExampleSpan is a moment of a span in this notation, for messages.
const ExampleSpan = "2026-01-31T15:04:05Z, 2026-01-31 for the day, 2026-01 for the month, or 7d for seven days ago"

// SpanOf reads a span as of now in a time zone: the last of a period, such as 7d, or from
// one moment to another, which are read as Moment reads them, months and years besides. A
// day, a month or a year at the end of a span is in it. Without a beginning it is as long
// as usual; without an end it ends now.
func SpanOf(since, from, to string, now time.Time, usual time.Duration, zone *time.Location) (Span, error) {
	s := Span{To: now}
	if since != "" {
		length, err := Period(since)
		switch {
		case from != "" || to != "":
			return s, errors.New("--since is the time up to now: leave it out where --from or --to is given")
		case err != nil:
			return s, fmt.Errorf("--since %w", err)
		case length <= 0:
			return s, fmt.Errorf("--since %s is no time: give more than 0, such as 7d", since)
		}
		s.From = now.Add(-length)
		return s, nil
	}
	if err := moments(&s, from, to, now, zone); err != nil {
		return s, err
	}
	if from == "" {
		s.From = s.To.Add(-usual)
	}
	if !s.From.Before(s.To) {
		return s, fmt.Errorf("--from %s is not before --to %s: nothing lies between them", stamp(s.From, zone), stamp(s.To, zone))
	}
	return s, nil
}

func moments(s *Span, from, to string, now time.Time, zone *time.Location) error {
	for _, m := range []struct {
		flag, text string
		end        bool
		at         *time.Time
	}{{"--from", from, false, &s.From}, {"--to", to, true, &s.To}} {
		if m.text == "" {
			continue
		}
		begins, ends, ok := momentIn(m.text, now, zone)
		if !ok {
			return fmt.Errorf("%s %q is no time: write it like %s", m.flag, m.text, ExampleSpan)
		}
		if *m.at = begins; m.end {
			*m.at = ends
		}
	}
	return nil
}

func stamp(at time.Time, zone *time.Location) string {
	return at.In(zone).Format("2006-01-02 15:04 MST")
}

// Text is the span in words: 2026-01-16 15:30 – 2026-01-23 15:30 CET, or for whole days
// 2026-01-16 – 2026-01-22 CET.
func (s Span) Text(zone *time.Location) string {
	from, to := s.From.In(zone), s.To.In(zone)
	if !midnight(from) || !midnight(to) {
		return from.Format("2006-01-02 15:04") + " – " + to.Format("2006-01-02 15:04 MST")
	}
	first, last := from.Format(time.DateOnly), to.AddDate(0, 0, -1).Format("2006-01-02 MST")
	if strings.HasPrefix(last, first) {
		return last
	}
	return first + " – " + last
}

func midnight(at time.Time) bool {
	return at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0 && at.Nanosecond() == 0
}

// Days reports whether the span is whole days of a time zone, and Months whether it is whole
// months.
func (s Span) Days(zone *time.Location) bool {
	return midnight(s.From.In(zone)) && midnight(s.To.In(zone))
}

// Months is described at Days.
func (s Span) Months(zone *time.Location) bool {
	return s.Days(zone) && s.From.In(zone).Day() == 1 && s.To.In(zone).Day() == 1
}

// Widened is the span with the whole of the windows that it cuts, but not beyond now; floor
// is where the window of a time begins, and next where the one after it does.
func (s Span) Widened(now time.Time, floor, next func(time.Time) time.Time) Span {
	s.From = floor(s.From)
	if end := floor(s.To); end.Before(s.To) {
		if end = next(end); end.After(now) && !s.To.After(now) {
			end = now
		}
		s.To = end
	}
	return s
}
