package lane

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// After a refused write the next one carries its adjusts without takes, which might
// have it refused again.
func TestAdjustsGoAloneAfterARefusal(t *testing.T) {
	l := resting(t)
	cfg := rpmOf(100)
	take, adjust := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, cfg), NewAdjust(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, nil, cfg)
	l.queue.ops, l.learnt.adjustsOnly = []*Op{take, adjust}, true
	b, ok := driver{lane: l}.next()
	require.True(t, ok)
	assert.Equal(t, []*Op{adjust}, b.adjusts)
	assert.Empty(t, b.takes)
	l.requeue(b.adjusts)
	b, _ = driver{lane: l}.next()
	assert.Equal(t, []*Op{take}, b.takes, "and then together")
	assert.Equal(t, []*Op{adjust}, b.adjusts)
}

// A write carries the takes of one configuration: others are decided under theirs.
func TestTakesOfOtherLimitsRideInTheNextWrite(t *testing.T) {
	l := resting(t)
	one := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, rpmOf(100))
	two := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, rpmOf(50))
	l.queue.ops = []*Op{one, two, one}
	b, ok := driver{lane: l}.next()
	require.True(t, ok)
	assert.Equal(t, []*Op{one, one}, b.takes)
}
