package notation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const week = 7 * 24 * time.Hour

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	return zone
}

func TestSpan(t *testing.T) {
	now := time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)
	utc := func(month time.Month, day, hour int) time.Time {
		return time.Date(2026, month, day, hour, 0, 0, 0, time.UTC)
	}
	for _, c := range []struct {
		since, from, to string
		zone            *time.Location
		want            Span
		text            string
	}{
		{"", "", "", time.UTC, Span{now.Add(-week), now}, "2026-01-16 15:30 – 2026-01-23 15:30 UTC"},
		{"2h", "", "", time.UTC, Span{now.Add(-2 * time.Hour), now}, "2026-01-23 13:30 – 2026-01-23 15:30 UTC"},
		{"", "2026-01-01", "", time.UTC, Span{utc(1, 1, 0), now}, "2026-01-01 00:00 – 2026-01-23 15:30 UTC"},
		{"", "2026-01-02", "2026-01-03", time.UTC, Span{utc(1, 2, 0), utc(1, 4, 0)}, "2026-01-02 – 2026-01-03 UTC"},
		{"", "2026-01-02", "2026-01-02", time.UTC, Span{utc(1, 2, 0), utc(1, 3, 0)}, "2026-01-02 UTC"},
		{"", "2025-12", "2025-12", time.UTC, Span{time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), utc(1, 1, 0)}, "2025-12-01 – 2025-12-31 UTC"},
		{"", "2026", "2026", time.UTC, Span{utc(1, 1, 0), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}, "2026-01-01 – 2026-12-31 UTC"},
		{"", "", "2026-01-03", time.UTC, Span{utc(1, 4, 0).Add(-week), utc(1, 4, 0)}, "2025-12-28 – 2026-01-03 UTC"},
		{"", "3d ago", "1d", time.UTC, Span{now.Add(-3 * day), now.Add(-day)}, "2026-01-20 15:30 – 2026-01-22 15:30 UTC"},
		// A day has 23 hours where clocks go forward, and 25 where they go back.
		{"", "2026-03-29", "2026-03-29", berlin(t), Span{utc(3, 28, 23), utc(3, 29, 22)}, "2026-03-29 CET"},
		{"", "2026-10-25", "2026-10-25", berlin(t), Span{utc(10, 24, 22), utc(10, 25, 23)}, "2026-10-25 CEST"},
		{"", "2026-01-02 10:00", "2026-01-02T12:00:00Z", berlin(t), Span{utc(1, 2, 9), utc(1, 2, 12)}, "2026-01-02 10:00 – 2026-01-02 13:00 CET"},
	} {
		got, err := ParseSpan(c.since, c.from, c.to, now, week, c.zone)
		require.NoError(t, err, "%+v", c)
		assert.True(t, c.want.From.Equal(got.From) && c.want.To.Equal(got.To), "%+v: %v", c, got)
		assert.Equal(t, c.text, got.Text(c.zone))
	}
}

func TestSpanRefuses(t *testing.T) {
	now := time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)
	for _, c := range []struct{ since, from, to, says string }{
		{"week", "", "", "--since"},
		{"0s", "", "", "more than 0"},
		{"-2h", "", "", "more than 0"},
		{"7d", "2026-01-01", "", "leave it out"},
		{"7d", "", "1d", "leave it out"},
		{"", "yesterday", "", `--from "yesterday"`},
		{"", "", "13", `--to "13"`},
		{"", "2026-02-01", "", "not before"},
		{"", "2026-01-03", "2026-01-02", "nothing lies between"},
	} {
		_, err := ParseSpan(c.since, c.from, c.to, now, week, time.UTC)
		assert.ErrorContains(t, err, c.says, "%+v", c)
	}
}

func TestWholeSpans(t *testing.T) {
	zone := berlin(t)
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from, to     string
		days, months bool
	}{{"2026-10", "2026-10", true, true}, {"2026-10-01", "2026-10-30", true, false}, {"2026-10-01 01:00", "2026-10", false, false}, {"2026", "2026-03", true, true}} {
		s, err := ParseSpan("", c.from, c.to, now, week, zone)
		require.NoError(t, err)
		assert.Equal(t, c.days, s.IsWholeDays(zone))
		assert.Equal(t, c.months, s.IsWholeMonths(zone))
		assert.False(t, s.IsWholeDays(time.UTC))
	}
}

// TestWidenedSpan: it has the windows that it cut, and nothing that is to come.
func TestWidenedSpan(t *testing.T) {
	at := func(day, hour int) time.Time { return time.Date(2026, 1, day, hour, 0, 0, 0, time.UTC) }
	floor := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	next := func(t time.Time) time.Time { return t.AddDate(0, 0, 1) }
	now := at(23, 15)
	for _, c := range []struct{ span, want Span }{
		{Span{at(20, 3), at(21, 0)}, Span{at(20, 0), at(21, 0)}},
		{Span{at(20, 0), at(21, 1)}, Span{at(20, 0), at(22, 0)}},
		{Span{at(20, 0), now}, Span{at(20, 0), now}},
		{Span{at(20, 0), at(23, 1)}, Span{at(20, 0), now}},
		{Span{at(20, 0), at(25, 1)}, Span{at(20, 0), at(26, 0)}},
	} {
		assert.Equal(t, c.want, c.span.Widened(now, floor, next))
	}
}
