package bucket

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// What a quota is worth, how long until an amount fits, and how long it may take to be full.
func TestQuotaOverItsWindows(t *testing.T) {
	hours, err := calendar.WindowsOf("hour", "")
	require.NoError(t, err)
	const hour = 3_600_000
	now := int64(10*hour + hour/2)
	for _, test := range []struct {
		name                   string
		tokens, window         int64
		level, waitFor5, until int64 // until is when 5 fit
	}{
		{"used in this hour", 3, 10, 3, hour / 2, 5},
		{"granted more", 12, 10, 12, 0, 5},
		{"used an hour ago", 3, 9, 10, 0, 5},
		{"in debt since an hour ago", -12, 9, -2, hour / 2, 5},
		{"in deep debt", -22, 10, -22, hour/2 + 2*hour, 5},
		{"by a clock that is ahead", 3, 11, 3, hour/2 + hour, 5},
		{"in a debt of centuries", -10_000_000_000_000_000, 10, -10_000_000_000_000_000, MaxCredit, 5},
		{"more than it allows", 0, 10, 0, Never, 11},
	} {
		s := State{Rate: Quota(10, hours), Tokens: test.tokens, Refilled: test.window}
		assert.Equal(t, test.level, s.Level(now), test.name)
		assert.Equal(t, test.waitFor5, s.Wait(now, test.until), test.name)
		if wait := test.waitFor5; wait > 0 && wait < MaxCredit {
			assert.GreaterOrEqual(t, s.Level(now+wait), test.until, test.name)
			assert.Less(t, s.Level(now+wait-1), test.until, test.name)
		}
	}
	r := Quota(10, hours)
	assert.EqualValues(t, 3*hour, r.FillTime(20))
	assert.EqualValues(t, 20, r.DebtCovered(3*hour))
	assert.Equal(t, Rate{Burst: 10, Amount: 10, Period: hour}, r.Smooth())
}
