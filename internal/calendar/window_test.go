package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func windows(t testing.TB, unit, zone string) Windows {
	t.Helper()
	w, err := WindowsOf(unit, zone)
	require.NoError(t, err)
	return w
}

func TestWindowsBeginWhereTheirDaysDo(t *testing.T) {
	for _, tc := range []struct {
		unit, zone, at string
		window         int64
		next           string
	}{
		{"hour", "", "2026-01-23T15:30:45Z", 491_439, "2026-01-23T16:00:00Z"},
		{"day", "UTC", "2026-01-23T15:30:45Z", 20_476, "2026-01-24T00:00:00Z"},
		{"day", "America/Los_Angeles", "2026-01-23T07:59:59Z", 20_475, "2026-01-23T08:00:00Z"},
		{"day", "America/Santiago", "2026-09-05T12:00:00Z", 20_701, "2026-09-06T04:00:00Z"}, // no midnight
		{"day", "America/Havana", "2026-10-31T12:00:00Z", 20_757, "2026-11-01T04:00:00Z"},   // two
		{"day", "Atlantic/Azores", "2026-03-28T12:00:00Z", 20_540, "2026-03-29T01:00:00Z"},
		{"week", "Asia/Tokyo", "2026-01-18T14:59:59Z", 2924, "2026-01-18T15:00:00Z"}, // Monday there
		{"week", "UTC", "2025-12-31T00:00:00Z", 2922, "2026-01-05T00:00:00Z"},
		{"month", "Europe/Berlin", "2026-02-28T22:59:59Z", 2026*12 + 1, "2026-02-28T23:00:00Z"},
		{"month", "UTC", "2025-12-31T23:59:59Z", 2025*12 + 11, "2026-01-01T00:00:00Z"},
	} {
		w, at := windows(t, tc.unit, tc.zone), instant(t, tc.at).UnixMilli()
		assert.Equal(t, tc.window, w.At(at), "%s at %s", w, tc.at)
		assert.Equal(t, instant(t, tc.next).UTC(), time.UnixMilli(w.Start(tc.window+1)).UTC(), "%s after %s", w, tc.at)
	}
}

// A window begins at its start and not a millisecond earlier, and lasts no longer than Longest.
func TestAWindowBeginsAtItsStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom(Units()).Draw(t, "unit")
		zone := "UTC"
		if unit != "hour" {
			zone = rapid.SampledFrom([]string{"UTC", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu", "Pacific/Kwajalein"}).Draw(t, "zone")
		}
		w, err := WindowsOf(unit, zone)
		require.NoError(t, err)
		at := rapid.Int64Range(700_000_000_000, 1_900_000_000_000).Draw(t, "at")
		now := w.At(at)
		start, next := w.Start(now), w.Start(now+1)
		require.LessOrEqual(t, start, at)
		require.Less(t, at, next)
		require.LessOrEqual(t, now+1, w.At(next))
		require.Equal(t, now, w.At(next-1))
		require.LessOrEqual(t, next-start, w.Longest())
	})
}

func TestWindowsAreOneIfTheyAreTheSame(t *testing.T) {
	w := windows(t, "day", "Europe/Berlin")
	assert.Equal(t, w, windows(t, "day", "Europe/Berlin"))
	assert.NotEqual(t, w, windows(t, "week", "Europe/Berlin"))
	assert.Equal(t, windows(t, "day", ""), windows(t, "day", "UTC"))
	again, err := Parse(w.String())
	require.NoError(t, err)
	assert.Equal(t, w, again)
	assert.Equal(t, Day, w.Unit())
	assert.Equal(t, "Europe/Berlin", w.Zone())
	for _, wrong := range []struct{ unit, zone, says string }{
		{"", "UTC", "write one of"}, {"year", "UTC", "write one of"}, {"day", "Berlin", "time zone"}, {"day", "Local", "time zone"}, {"hour", "Europe/Berlin", "of UTC"},
	} {
		_, err := WindowsOf(wrong.unit, wrong.zone)
		require.ErrorContains(t, err, wrong.says)
	}
}
