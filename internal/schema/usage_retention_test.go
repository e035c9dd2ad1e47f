package schema

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOldestHourAfterChanges: hours of before a change stay as long as was said then.
func TestOldestHourAfterChanges(t *testing.T) {
	const day = 24 * time.Hour
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	days := func(n int) UsageRetention { return UsageRetention{Hours: time.Duration(n) * day, Version: 1} }
	on := func(n int) time.Time { return at.AddDate(0, 0, n) }
	change := func(r UsageRetention, n int, when time.Time) UsageRetention {
		return r.WithSpans(time.Duration(n)*day, 0, 0, when)
	}
	raised := change(days(30), 90, at)
	for _, test := range []struct {
		name string
		r    UsageRetention
		now  time.Time
		want time.Time
	}{
		{"never changed", days(30), at, on(-30)},
		{"kept for ever", UsageRetention{Version: 1}, at, time.Time{}},
		{"raised lately", raised, on(10), on(-20)},
		{"raised longer ago than was kept before", raised, on(40), at},
		{"raised long ago", raised, on(120), on(30)},
		{"lowered", change(days(90), 30, at), on(10), on(-20)},
		{"raised to for ever", change(days(30), 0, at), on(400), at},
		{"raised twice", change(raised, 180, on(10)), on(20), on(-10)},
		{"raised again long after", change(raised, 180, on(300)), on(310), on(220)},
		{"lowered from for ever", change(UsageRetention{Version: 1}, 30, at), on(10), on(-20)},
		{"other windows changed", days(30).WithSpans(30*day, day, day, at), on(10), on(-20)},
	} {
		assert.Equal(t, test.want, test.r.Oldest(test.now), test.name)
		stored, err := DecodeUsageRetention(test.r.Item())
		require.NoError(t, err)
		assert.Equal(t, test.r, stored, test.name)
	}
}
