package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return v
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := LoadZone(name)
	require.NoError(t, err)
	return z
}

func TestNextDate(t *testing.T) {
	for _, tc := range []struct {
		name, zone, at, want string
	}{
		{"winter", "America/New_York", "2026-01-23T15:30:45Z", "2026-01-24T05:00:00Z"},
		{"the 23-hour day", "America/New_York", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"the 25-hour day", "America/New_York", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"midnight does not exist", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z"},
		{"clocks go back at midnight", "America/Havana", "2026-10-31T12:00:00Z", "2026-11-01T04:00:00Z"},
		{"half-hour zone", "Asia/Kolkata", "2026-01-23T18:29:59Z", "2026-01-23T18:30:00Z"},
		{"just on midnight", "UTC", "2026-01-24T00:00:00Z", "2026-01-25T00:00:00Z"},
		{"a day left out", "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, instant(t, tc.want).UTC(), nextDate(instant(t, tc.at), zone(t, tc.zone)).UTC())
		})
	}
}

func TestNextDateIsTheFirstInstantOfAnotherDate(t *testing.T) {
	names := []string{"UTC", "America/New_York", "America/Santiago", "Asia/Tokyo", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia", "America/St_Johns"}
	rapid.Check(t, func(t *rapid.T) {
		z, err := LoadZone(rapid.SampledFrom(names).Draw(t, "zone"))
		require.NoError(t, err)
		from := time.Unix(rapid.Int64Range(1_640_000_000, 1_900_000_000).Draw(t, "at"), 0)
		next := nextDate(from, z)
		require.NotEqual(t, dayIn(from, z), dayIn(next, z))
		require.Equal(t, dayIn(from, z), dayIn(next.Add(-time.Nanosecond), z))
		require.LessOrEqual(t, next.Sub(from), 26*time.Hour)
	})
}

func TestDaysOnTheCalendar(t *testing.T) {
	assert.Equal(t, "20260301", AddDays("20260228", 1))
	assert.Equal(t, "20251231", AddDays("20260101", -1))
	_, err := ParseDay("2026-01-23")
	require.Error(t, err)
}

// A write to a day opens its total again for an hour before anybody may store one, for clocks
// differ and a write takes its time.
func TestDaysAreOpenedAgainBeforeTheyClose(t *testing.T) {
	c := In("America/New_York")
	end := time.Date(2026, 1, 24, 5, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		after           time.Duration
		reopens, closes bool
	}{
		{25*time.Hour - 1, false, false}, {25 * time.Hour, true, false}, {26*time.Hour - 1, true, false}, {26 * time.Hour, true, true}, {1000 * time.Hour, true, true},
	} {
		assert.Equal(t, tc.reopens, c.Reopens("20260123", end.Add(tc.after)), tc.after)
		assert.Equal(t, tc.closes, c.Closes("20260123", end.Add(tc.after)), tc.after)
	}
}
