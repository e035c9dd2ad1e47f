package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSpread(t *testing.T) {
	var s Spread
	assert.Zero(t, s.Behind(0.99), "the first try is exact")
	s = s.Lost(0)
	assert.EqualValues(t, 20*ms, s)
	assert.EqualValues(t, 20*ms, s.Behind(0.5), "on average")
	assert.EqualValues(t, 39_600, s.Behind(0.99), "from none to twice that")
	assert.Zero(t, s.Behind(0))
	s = s.Lost(0)
	assert.EqualValues(t, 40*ms, s, "doubled by each try that loses")
	assert.EqualValues(t, 20*ms, s.Won(), "halved by each that wins")
	assert.EqualValues(t, 60*ms, s.Lost(60*ms), "to the waiter's patience")
	for range 20 {
		s = s.Lost(0)
	}
	assert.EqualValues(t, 4*second, s, "and no further")
	for range 30 {
		s = s.Won()
	}
	assert.Zero(t, s)
}
