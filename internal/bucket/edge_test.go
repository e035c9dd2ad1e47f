package bucket

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
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
		u, fits := s.Decide(4000, a, Way{Form: Filling, Slack: 7, Move: move})
		if want := (Update{Full: true, Put: put, Low: 100 - 4 - 2 - 7, HasLow: true}); u != want || !fits {
			t.Errorf("moved %t: %+v, want %+v", move, u, want)
		}
	}
}
