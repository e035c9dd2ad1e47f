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
			assert.Equal(t, instant(t, tc.want).UTC(), NextDate(instant(t, tc.at), zone(t, tc.zone)).UTC())
		})
	}
}

func TestNextDateIsTheFirstInstantOfAnotherDate(t *testing.T) {
	names := []string{"UTC", "America/New_York", "America/Santiago", "Asia/Tokyo", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia", "America/St_Johns"}
	rapid.Check(t, func(t *rapid.T) {
		z, err := LoadZone(rapid.SampledFrom(names).Draw(t, "zone"))
		require.NoError(t, err)
		from := time.Unix(rapid.Int64Range(1_640_000_000, 1_900_000_000).Draw(t, "at"), 0)
		next := NextDate(from, z)
		require.NotEqual(t, dateOf(from, z), dateOf(next, z))
		require.Equal(t, dateOf(from, z), dateOf(next.Add(-time.Nanosecond), z))
		require.LessOrEqual(t, next.Sub(from), 26*time.Hour)
	})
}
