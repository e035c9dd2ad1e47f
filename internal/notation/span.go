package notation

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Span is the time between two moments, To excluded.
type Span struct{ From, To time.Time }

// ExampleSpan is a moment of a span in this notation, for messages.
const ExampleSpan = "2026-01-31T15:04:05Z, 2026-01-31 for the day, 2026-01 for the month, or 7d for seven days ago"

// ParseSpan parses a span at now: since, a period up to now such as 7d, or from and to, moments, days, months
// or years. A day, month or year in to is included. Without from the span has the length usual, without to it
// ends now; an empty span is an error.
func ParseSpan(since, from, to string, now time.Time, usual time.Duration, zone *time.Location) (Span, error) {
	s := Span{To: now}
	if since != "" {
		length, err := ParsePeriod(since)
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
	if err := parseMoments(&s, from, to, now, zone); err != nil {
		return s, err
	}
	if from == "" {
		s.From = s.To.Add(-usual)
	}
	if !s.From.Before(s.To) {
		return s, fmt.Errorf("--from %s is not before --to %s: nothing lies between them", stampText(s.From, zone), stampText(s.To, zone))
	}
	return s, nil
}

// parseMoments sets s.From and s.To from the flags --from and --to. An empty flag leaves its field unchanged,
// and --to with a day, month or year means its end.
func parseMoments(s *Span, from, to string, now time.Time, zone *time.Location) error {
	for _, m := range []struct {
		flag, text string
		end        bool
		at         *time.Time
	}{{"--from", from, false, &s.From}, {"--to", to, true, &s.To}} {
		if m.text == "" {
			continue
		}
		begins, ends, ok := parseMomentIn(m.text, now, zone)
		if !ok {
			return fmt.Errorf("%s %q is no time: write it like %s", m.flag, m.text, ExampleSpan)
		}
		if *m.at = begins; m.end {
			*m.at = ends
		}
	}
	return nil
}

// stampText formats an instant to the minute, with its time zone.
func stampText(at time.Time, zone *time.Location) string {
	return at.In(zone).Format("2006-01-02 15:04 MST")
}

// Text formats the span in a time zone: 2026-01-16 15:30 – 2026-01-23 15:30 CET. Whole days are shown with the
// last one included: 2026-01-16 – 2026-01-22 CET.
func (s Span) Text(zone *time.Location) string {
	from, to := s.From.In(zone), s.To.In(zone)
	if !isMidnight(from) || !isMidnight(to) {
		return from.Format("2006-01-02 15:04") + " – " + to.Format("2006-01-02 15:04 MST")
	}
	first, last := from.Format(time.DateOnly), to.AddDate(0, 0, -1).Format("2006-01-02 MST")
	if strings.HasPrefix(last, first) {
		return last
	}
	return first + " – " + last
}

// isMidnight reports whether a time is the start of a day in its own zone.
func isMidnight(at time.Time) bool {
	return at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0 && at.Nanosecond() == 0
}

// IsWholeDays reports whether the span begins and ends at midnight in a time zone.
func (s Span) IsWholeDays(zone *time.Location) bool {
	return isMidnight(s.From.In(zone)) && isMidnight(s.To.In(zone))
}

// IsWholeMonths reports whether the span begins and ends at the start of a month in a time zone.
func (s Span) IsWholeMonths(zone *time.Location) bool {
	return s.IsWholeDays(zone) && s.From.In(zone).Day() == 1 && s.To.In(zone).Day() == 1
}

// Widened returns the span extended to whole windows, but not beyond now. The function floor returns the start
// of a time's window, and next the start of the following one.
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
