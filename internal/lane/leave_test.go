package lane

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// An op whose caller has left while it was carried is nobody's grant: what
// landed is given back once, what may have landed is told, and a caller that looks again
// finds nothing.
func TestOpOfACallerThatLeft(t *testing.T) {
	for name, end := range map[string]struct {
		how    func(l *Lane, o *Op)
		backs  int
		doubts []plan.Signed
	}{
		"landed":          {func(l *Lane, o *Op) { l.finish([]*Op{o}, Result{Image: &schema.Image{Incarnation: []byte("ci")}}) }, 1, nil},
		"denied":          {func(l *Lane, o *Op) { l.finish([]*Op{o}, Result{Denied: true}) }, 0, nil},
		"failed":          {func(l *Lane, o *Op) { l.finish([]*Op{o}, Result{Err: &Failure{Reason: Contended}}) }, 0, nil},
		"decided no more": {func(l *Lane, o *Op) { l.requeue([]*Op{o}) }, 0, nil},
		"unanswered":      {func(l *Lane, o *Op) { l.finish([]*Op{o}, Result{Err: unconfirmed(writeBucket), Unconfirmed: true}) }, 0, oneToken},
		"refused once":    {func(l *Lane, o *Op) { sendingOf(l, plan.View{}, o).settle(Answer{Verdict: ddb.Refused}) }, 0, nil},
		"refused after an unanswered try": {func(l *Lane, o *Op) {
			sendingOf(l, plan.View{}, o).settle(Answer{Verdict: ddb.Refused, hidden: 1})
		}, 0, oneToken},
	} {
		t.Run(name, func(t *testing.T) {
			l := resting(t)
			o := NewTake(t.Context(), oneToken, rpmOf(100))
			require.True(t, l.enqueue(o), "the lane rested")
			_, ok := driver{lane: l}.next()
			require.True(t, ok)
			_, done := l.Leave(o)
			require.False(t, done)

			end.how(l, o)
			_, done = l.Leave(o)
			assert.False(t, done, "no result for who left")
			select {
			case <-o.Done:
				t.Error("woken by a result that is not its own")
			default:
			}
			doubted, _ := l.owner.Uncertain()
			assert.Equal(t, end.doubts, doubted)
			require.Len(t, l.queue.ops, end.backs)
			for _, back := range l.queue.ops {
				assert.False(t, back.take)
				assert.Equal(t, []byte("ci"), back.Incarnation, "to the bucket that granted it")
				assert.Equal(t, []plan.Signed{{Name: "rpm", Amount: -1000}}, back.Amounts)
			}
			l.queue.ops = nil
			_, ok = driver{lane: l}.next() // rests again
			require.False(t, ok)
			l.owner.Stopped()
		})
	}
}

// A caller who leaves before its op is carried is charged nothing.
func TestOpThatIsLeftInTheQueueIsNotCarried(t *testing.T) {
	l := resting(t)
	o := NewTake(t.Context(), oneToken, rpmOf(100))
	require.True(t, l.enqueue(o), "the lane rested")
	_, done := l.Leave(o)
	require.False(t, done)
	assert.Equal(t, opGone, o.state, "nothing remains to be done for it")
	_, carried := driver{lane: l}.next()
	assert.False(t, carried)
	l.owner.Stopped()
}
