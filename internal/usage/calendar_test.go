package usage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestCalendar: days begin at the first moment that their date is shown, and have as many
// hours as begin in them.
func TestCalendar(t *testing.T) {
	for _, test := range []struct {
		zone, at, start string
		hours           int
	}{
		{"UTC", "2026-03-29T12:00:00Z", "2026-03-29T00:00:00Z", 24},
		{"Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", 23},
		{"Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", 25},
		{"Asia/Kolkata", "2026-03-29T18:29:59Z", "2026-03-28T18:30:00Z", 24},
		{"Asia/Kolkata", "2026-03-29T18:30:00Z", "2026-03-29T18:30:00Z", 24},
		{"America/Havana", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", 23}, // midnight is skipped
		{"America/Havana", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", 25}, // midnight comes twice
	} {
		loc, err := time.LoadLocation(test.zone)
		require.NoError(t, err)
		at, err := time.Parse(time.RFC3339, test.at)
		require.NoError(t, err)
		c := Calendar{Zone: loc}
		start := c.Floor(schema.UsageDaily, at)
		assert.Equal(t, test.start, start.UTC().Format(time.RFC3339), "%s at %s", test.zone, test.at)
		from, to := c.Hours(start, c.Next(schema.UsageDaily, start))
		assert.Equal(t, time.Duration(test.hours)*time.Hour, to.Sub(from), "%s at %s", test.zone, test.at)
	}
}

// TestCalendarHasNoGaps: every moment is in one window, in zones of every kind.
func TestCalendarHasNoGaps(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "America/Havana", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Beirut"} {
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		c := Calendar{Zone: loc}
		for _, w := range []schema.UsageWindow{schema.UsageDaily, schema.UsageMonthly} {
			start := c.Floor(w, time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC))
			for start.Year() < 2013 {
				next := c.Next(w, start)
				require.True(t, start.Before(next), "%s %s", zone, start)
				assert.True(t, start.Equal(c.Floor(w, start)), "%s %s", zone, start)
				assert.True(t, start.Equal(c.Floor(w, next.Add(-time.Nanosecond))) || zone == "America/St_Johns", "%s %s", zone, start)
				start = next
			}
		}
	}
}
