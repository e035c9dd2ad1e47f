package notation

import (
	"fmt"
	"strings"
	"time"
)

// ExampleMoment is a moment in this notation, for messages.
const ExampleMoment = "2026-01-31T15:04:05Z, 2026-01-31 for the day in UTC, or 2h for two hours ago"

// Moment reads a point in time as of now: one of RFC 3339, a day in UTC, or a period such
// as 2h or "3d ago", which is that long ago. A day stands for its beginning, or where the
// end of a span is wanted for its last millisecond.
func Moment(text string, now time.Time, end bool) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		if end {
			at = at.Add(day - time.Millisecond)
		}
		return at, nil
	}
	if ago, err := Period(strings.TrimSpace(strings.TrimSuffix(text, "ago"))); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time: write it like %s", text, ExampleMoment)
}
