package bucket

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// TestEdges pins what happens where 64 bits end, at the first instant of all and
// at amounts that are just enough.
func TestEdges(t *testing.T) {
	one := Rate{Burst: 10, Amount: 1, Period: 1}
	huge := Rate{Burst: 10, Amount: MaxCredit, Period: 1}

	credit, ok := State{Rate: huge}.Credit(1)
	assert.Equal(t, int64(MaxCredit), credit)
	assert.True(t, ok, "the largest credit that a write can carry")
	_, ok = State{Rate: Rate{Burst: 10, Amount: MaxCredit + 1, Period: 1}}.Credit(1)
	assert.False(t, ok)

	assert.Equal(t, int64(-10), one.DebtCovered(0))
	assert.Equal(t, int64(-10), one.DebtCovered(-1))
	assert.Equal(t, int64(MaxCredit-10), Rate{Burst: 10, Amount: 1 << 31, Period: 1}.DebtCovered(1<<31))
	assert.Equal(t, int64(MaxCredit), Rate{Burst: 10, Amount: 1 << 32, Period: 1}.DebtCovered(1<<32), "more than 64 bits")
	assert.Equal(t, int64(math.MaxInt64), Rate{Burst: 1 << 62, Amount: 1, Period: 4}.FillTime(0), "more than 64 bits")

	assert.Equal(t, int64(5), State{Rate: one}.Wait(0, 5), "from the first instant of all")
	assert.Equal(t, int64(2), State{Rate: one}.Wait(3, 5))
	assert.Equal(t, int64(5), State{Rate: one, Refilled: -7}.Wait(-7, 5))
	slow := State{Rate: Rate{Burst: 1 << 62, Amount: 1, Period: 1 << 20}, Refilled: 5}
	assert.Equal(t, int64(math.MaxInt64), slow.Wait(0, 1<<62), "longer than 64 bits can say")
	slow.Refilled = -5
	assert.Equal(t, int64(math.MaxInt64), slow.Wait(-10, 1<<62))
}

// Sums end where numbers do, either way.
func TestSaturatingAdd(t *testing.T) {
	for _, test := range [][3]int64{
		{2, -3, -1},
		{math.MaxInt64, 1, math.MaxInt64},
		{1, math.MaxInt64, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64},
		{-1, math.MinInt64, math.MinInt64},
		{math.MaxInt64, math.MinInt64, -1},
	} {
		assert.Equal(t, test[2], SaturatingAdd(test[0], test[1]), "%d + %d", test[0], test[1])
	}
}

// What fills takes a bucket to be full that lacks the slack, and leaves it so.
func TestFillingLeavesTheSlack(t *testing.T) {
	s := State{Rate: Rate{Burst: 100, Amount: 1, Period: 1000}, Tokens: 95, Refilled: 0}
	a := Amounts{Take: 10, Adjust: 3, Back: 2}
	for move, put := range map[bool]int64{false: 100 - 7 - 4 - 10 - 3, true: 100 - 7 - 10 - 3} { // 4 are credited
		u := s.Decide(4, a, Way{Form: Filling, Slack: 7, Move: move})
		if want := (Update{Full: true, Put: put, Low: 100 - 4 - 2 - 7, HasLow: true}); u != want {
			t.Errorf("moved %t: %+v, want %+v", move, u, want)
		}
	}
}

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

// An outlook is what Level and Wait say one by one, of buckets and of quotas, also where
// products need 128 bits.
func TestOutlookIsLevelAndWaits(t *testing.T) {
	day, err := calendar.WindowsOf("day", "UTC")
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{20, 1_000_000, 1_000_000_000_000_000}).Draw(t, "most")
		s := State{Tokens: rapid.Int64Range(-most, most).Draw(t, "tokens"), Refilled: rapid.Int64Range(1, 2_000_000_000_000).Draw(t, "refilled")}
		s.Rate = Rate{Burst: rapid.Int64Range(1, most).Draw(t, "burst"), Amount: rapid.Int64Range(1, most).Draw(t, "amount"), Period: rapid.Int64Range(1, 40_000_000_000).Draw(t, "period")}
		now := s.Refilled + rapid.Int64Range(-10, 1_000_000_000).Draw(t, "passed")
		if rapid.Bool().Draw(t, "quota") {
			s.Rate = Quota(s.Burst, day)
			s.Refilled = day.At(s.Refilled)
		}
		need := rapid.Int64Range(0, most+2).Draw(t, "need")
		require.Equal(t, Outlook{s.Level(now), s.Wait(now, need), s.Wait(now, s.Burst)}, s.Outlook(now, need))
	})
}

// A take that leaves a reserve requires it of a quota, too, within a window and where it opens one.
func TestTakeOfAQuotaLeavesTheReserve(t *testing.T) {
	windows, err := calendar.WindowsOf("day", "UTC")
	require.NoError(t, err)
	of := func(tokens int64, o Opening) int64 {
		return State{Rate: Quota(100, windows), Tokens: tokens}.DecideQuota(Amounts{Take: 5, Keep: 20}, o).Low
	}
	assert.EqualValues(t, 25, of(30, Opening{}))
	assert.EqualValues(t, 25-100, of(-30, Opening{Credit: 100}))
}

// A reserve is a fifth of the burst in whole tokens, or as configured, up to half of the burst.
func TestReserveOfALimit(t *testing.T) {
	for _, c := range []struct{ burst, n, want int64 }{
		{100_000, 0, 20_000}, {99_000, 0, 19_000}, {4_000, 0, 0}, {100_000, -1000, 0}, {100_000, 30_000, 30_000}, {50_000, 30_000, 25_000},
	} {
		assert.Equal(t, c.want, Rate{Burst: c.burst}.ReserveOf(c.n), "%+v", c)
	}
}
