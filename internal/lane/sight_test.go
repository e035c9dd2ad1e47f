package lane

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// What a lane notes of an answer: when it came, and how long it was under way.
func TestALaneHears(t *testing.T) {
	now := int64(1000)
	lanes, err := New(Options{Size: 10, NowMS: func() int64 { return now }, Tick: func() int64 { return 1 }})
	require.NoError(t, err)
	l := lanes.Of("shared", "gpt-4")
	l.learn(nil, 993, nil)
	assert.Equal(t, plan.Crowding{Heard: 1000, Trip: 7}, l.sight.crowding)
	now = 1100
	l.Assume(nil, nil) // asked nobody
	assert.Equal(t, plan.Crowding{Heard: 1100, Trip: 7}, l.sight.crowding)
	l.sight.crowding.Refused = 9
	known := l.snapshot()
	assert.Equal(t, plan.Crowding{Heard: 1100, Trip: 7, Refused: 2}, known.crowding.Within(2))
}

// An answer to a request sent earlier does not replace a later one.
func TestOlderAnswerDoesNotCorrect(t *testing.T) {
	l := &Lane{owner: &Registry{Options: Options{Tick: func() int64 { return 1 }, NowMS: func() int64 { return 100 }}}}
	newer, older := &schema.Image{Refilled: 2}, &schema.Image{Refilled: 1}
	l.learn(newer, 100, nil)
	l.Observe(older, 99)
	require.Same(t, newer, l.sight.image)
	l.Observe(older, 100)
	require.Same(t, older, l.sight.image)
}
