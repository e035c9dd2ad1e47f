package notation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUntil(t *testing.T) {
	now, berlin := time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC), time.FixedZone("", 3600)
	for text, want := range map[string]time.Time{
		"18:00":                time.Date(2026, 1, 23, 17, 0, 0, 0, time.UTC),
		"18:00:30":             time.Date(2026, 1, 23, 17, 0, 30, 0, time.UTC),
		"2026-01-24 12:00":     time.Date(2026, 1, 24, 11, 0, 0, 0, time.UTC),
		"2026-01-24T12:00:00Z": time.Date(2026, 1, 24, 12, 0, 0, 0, time.UTC),
		"90m":                  now.Add(90 * time.Minute),
		"3d":                   now.Add(72 * time.Hour),
	} {
		got, err := ParseUntil(text, now, berlin)
		require.NoError(t, err, text)
		assert.True(t, want.Equal(got), "%s: %s", text, got)
	}
	for _, text := range []string{"", "tomorrow", "2026-01-24", "2026-01-22 12:00", "25:00", "2h ago"} {
		_, err := ParseUntil(text, now, berlin)
		assert.ErrorContains(t, err, "is no time to come", text)
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-01-02T03:04:05Z":          time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"2026-01-02T03:04:05.678+01:00": time.Date(2026, 1, 2, 2, 4, 5, 678e6, time.UTC),
		"2026-01-02 03:04":              time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC),
		"2026-01-02":                    time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		"2h":                            now.Add(-2 * time.Hour),
		"90m ago":                       now.Add(-90 * time.Minute),
		"3d ago":                        now.Add(-72 * time.Hour),
	} {
		got, err := ParseMoment(text, now, false)
		require.NoError(t, err, text)
		assert.True(t, want.Equal(got), "%s: %s", text, got)
	}
	end, err := ParseMoment("2026-01-02", now, true)
	require.NoError(t, err)
	assert.Equal(t, time.Date(2026, 1, 2, 23, 59, 59, 999e6, time.UTC), end)
	for _, text := range []string{"", "yesterday", "2026-13-01", "ago", "-2h", "2026-01-02T03:04:05"} {
		_, err := ParseMoment(text, now, false)
		assert.ErrorContains(t, err, "2h for two hours ago", text)
	}
}
