package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSpread(t *testing.T) {
	var s Spread
	assert.Zero(t, s.Behind(0.99), "the first try is exact")
	assert.False(t, s.Looks(lookAge), "and writes at once")
	s = s.Lost(0)
	assert.EqualValues(t, 100*ms, s)
	assert.EqualValues(t, 100*ms, s.Behind(0.5), "on average")
	assert.EqualValues(t, 198*ms, s.Behind(0.99), "from none to twice that")
	assert.Zero(t, s.Behind(0))
	assert.True(t, s.Looks(lookAge), "who has lost looks first")
	assert.False(t, s.Looks(lookAge-1), "not if an answer came just now")
	assert.False(t, s.Won().Looks(second))
	s = s.Lost(0)
	assert.EqualValues(t, 400*ms, s, "four times as long after each try that loses")
	assert.EqualValues(t, 200*ms, s.Won(), "halved by each that wins")
	assert.EqualValues(t, 600*ms, s.Lost(600*ms), "to the waiter's patience")
	for range 20 {
		s = s.Lost(0)
	}
	assert.EqualValues(t, 4*second, s, "and no further")
	for range 30 {
		s = s.Won()
	}
	assert.Zero(t, s)
}
