package usage

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// FinalAfter is the time from the end of an hour until it is final: the stream keeps a record for a
// day, and its reader has another hour.
const FinalAfter = 25 * time.Hour

// IsFinal reports whether the stream can bring no more records of the window w that begins at start. At now,
// FinalAfter has then passed since its end.
func IsFinal(w schema.UsageWindow, start, now time.Time) bool {
	return !w.Next(start).Add(FinalAfter).After(now)
}

// FirstCursor returns the cursor before the first closing. It begins with the day of the last final hour, so
// that the first day is whole.
func FirstCursor(now time.Time) schema.UsageCursor {
	first := schema.UsageDaily.Floor(now.Add(-FinalAfter))
	return schema.UsageCursor{First: first, Closed: first, Final: first}
}

// NextHour returns the next hour to close or, because it became final, to recompute, and the cursor after that.
// An hour closes at the earliest grace after its end; one closed when it is already final is not recomputed. It
// returns false and c if no hour is due.
func NextHour(c schema.UsageCursor, now time.Time, grace time.Duration) (hour time.Time, next schema.UsageCursor, ok bool) {
	final := IsFinal(schema.UsageHourly, c.Final, now)
	switch {
	case c.Final.Before(c.Closed) && final:
		next = schema.UsageCursor{First: c.First, Closed: c.Closed, Final: c.Final.Add(time.Hour)}
		return c.Final, next, true
	case c.Closed.Add(time.Hour + grace).After(now):
		return time.Time{}, c, false
	}
	next = schema.UsageCursor{First: c.First, Closed: c.Closed.Add(time.Hour), Final: c.Final}
	if final && !c.Final.Before(c.Closed) {
		next.Final = next.Closed
	}
	return c.Closed, next, true
}
