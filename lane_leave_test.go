package dynalimit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// An op whose caller has left while it was carried is nobody's grant: what
// landed is given back once, and a caller that looks again finds nothing.
func TestOpOfACallerThatLeft(t *testing.T) {
	for name, end := range map[string]struct {
		how   func(l *lane, o *op)
		backs int
	}{
		"landed":          {func(l *lane, o *op) { l.finish([]*op{o}, result{image: &schema.Image{Incarnation: []byte("ci")}}) }, 1},
		"denied":          {func(l *lane, o *op) { l.finish([]*op{o}, result{denied: true}) }, 0},
		"failed":          {func(l *lane, o *op) { l.finish([]*op{o}, result{err: contended("user-1", model)}) }, 0},
		"decided no more": {func(l *lane, o *op) { l.requeue([]*op{o}) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := memStage(t, perMinute())
			l := s.limiter.lanes.of("user-1", model)
			cfg := newBucketConfig(s.limiter.opts.Limits, LevelOptions, false, 0, 0)
			o := newTake(t.Context(), signedOf(Amounts{"rpm": 1}), cfg)
			require.True(t, l.enqueue(o), "the lane rested")
			_, ok := l.next()
			require.True(t, ok)
			_, done := l.leave(o)
			require.False(t, done)

			end.how(l, o)
			_, done = l.leave(o)
			assert.False(t, done, "no result for who left")
			select {
			case <-o.done:
				t.Error("woken by a result that is not its own")
			default:
			}
			require.Len(t, l.queue, end.backs)
			for _, back := range l.queue {
				assert.False(t, back.take)
				assert.Equal(t, []byte("ci"), back.incarnation, "to the bucket that granted it")
				assert.Equal(t, []plan.Signed{{Name: "rpm", Amount: -1000}}, back.amounts)
			}
			l.queue = nil
			_, ok = l.next() // rests again
			require.False(t, ok)
			l.owner.stopped()
		})
	}
}
