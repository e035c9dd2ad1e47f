package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDaysOnTheCalendar(t *testing.T) {
	assert.Equal(t, "20260301", AddDays("20260228", 1))
	assert.Equal(t, "20251231", AddDays("20260101", -1))
	_, err := ParseDay("2026-01-23")
	require.Error(t, err)
}

// A write to a day opens its total again for an hour before anybody may store one, for clocks
// differ and a write takes its time.
func TestDaysAreOpenedAgainBeforeTheyClose(t *testing.T) {
	c := InZone("America/New_York")
	end := time.Date(2026, 1, 24, 5, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		after           time.Duration
		reopens, closes bool
	}{
		{25*time.Hour - 1, false, false}, {25 * time.Hour, true, false}, {26*time.Hour - 1, true, false}, {26 * time.Hour, true, true}, {1000 * time.Hour, true, true},
	} {
		assert.Equal(t, tc.reopens, c.MayBeClosed("20260123", end.Add(tc.after)), tc.after)
		assert.Equal(t, tc.closes, c.IsClosable("20260123", end.Add(tc.after)), tc.after)
	}
}
