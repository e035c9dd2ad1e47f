package lane

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// A lane that is paced takes all that fits, although it was refused: it has few writes.
func TestPacedLaneTakesAllThatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		l.learnt.halvings = 2
		assert.Equal(t, 2, (&turn{lane: l}).halvings())
		driver{lane: l}.throttled(false, time.Millisecond, nil)
		assert.Zero(t, (&turn{lane: l}).halvings())
		<-time.After(3 * time.Minute)
		assert.Nil(t, driver{lane: l}.pacer())
		assert.Equal(t, 2, (&turn{lane: l}).halvings(), "as ever when that is over")
	})
}

// Nothing leaves the queue before the lane's turn, whoever comes as the last driver stops.
func TestNothingIsTakenBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		dr := driver{lane: l}
		dr.throttled(false, time.Millisecond, nil)
		l.running = true
		_, wait, ok := dr.take()
		assert.Zero(t, wait)
		assert.False(t, ok)
		assert.False(t, l.running, "at rest at once: who comes next finds no driver that has seen no queue")

		o := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, rpmOf(100))
		l.queue.ops = []*Op{o}
		_, wait, ok = dr.take()
		assert.Positive(t, wait)
		assert.False(t, ok)
		assert.Equal(t, opQueued, o.state)
		<-time.After(wait)
		b, wait, ok := dr.take()
		assert.Zero(t, wait)
		assert.True(t, ok)
		assert.Equal(t, []*Op{o}, b.takes)
	})
}

// A process lists the hottest buckets, and those that are not paced any more no longer.
func TestHottest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resting(t).owner
		for i, trip := range []time.Duration{3 * time.Millisecond, 9 * time.Millisecond, time.Millisecond, 9 * time.Millisecond} {
			driver{lane: s.Of(string(rune('a'+i)), "m")}.throttled(false, trip, nil)
		}
		driver{lane: s.Of("r", "m")}.throttled(true, 0, nil)
		var names []string
		for _, p := range s.Hottest(4) {
			names = append(names, p.Entity)
		}
		assert.Equal(t, []string{"b", "d", "a", "c"}, names, "the longest interval first, then by name")
		assert.True(t, s.Hottest(5)[4].Reads)
		<-time.After(3 * time.Minute)
		assert.Empty(t, s.Hottest(4))
		assert.Empty(t, s.paced.all(), "nothing is kept of them")
	})
}
