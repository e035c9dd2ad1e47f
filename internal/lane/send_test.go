package lane

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A caller who was told that its write is under way hears that the write may have landed,
// if an earlier try of it got no answer and the next is refused: nothing of it is sent
// again, and nothing of it is taken for not written.
func TestWriteUnderWayThatMayHaveLandedIsNotSentAgain(t *testing.T) {
	for hidden := range 2 {
		l := resting(t)
		o := NewTake(t.Context(), oneToken, rpmOf(100))
		require.True(t, l.enqueue(o))
		_, ok := driver{lane: l}.next()
		require.True(t, ok)
		l.GiveUp(o, silence(ErrTripped))
		require.True(t, o.Result.Pending)
		l.Follow(o)
		sendingOf(l, plan.View{}, o).settle(Answer{Verdict: ddb.Refused, hidden: hidden})
		got, known := o.Outcome()
		require.True(t, known)
		assert.Equal(t, hidden > 0, got.Unconfirmed)
		require.Error(t, got.Err)
		assert.Empty(t, l.queue.ops)
		_, ok = driver{lane: l}.next()
		require.False(t, ok)
		l.owner.Stopped()
	}
}

// refusing is a store that refuses the first update, and hands the context of the second
// to a test, which lets it land.
type refusing struct {
	Store
	updates int
	second  chan context.Context
	land    chan struct{}
}

func (s *refusing) Update(ctx context.Context, _ schema.Item, _ schema.Statement, _ *schema.LimitSet, _ int) Answer {
	image := imageOf(rpmOf(100), 50*token, 0)
	if s.updates++; s.updates == 1 {
		<-s.land
		return Answer{Verdict: ddb.Refused, Seen: true, Image: image}
	}
	s.second <- ctx
	<-s.land
	return Answer{Verdict: ddb.Landed, Seen: true, Image: image}
}

// A write that carries several callers does not depend on the context of the one on whose
// goroutine the lane ran.
func TestWriteOfSeveralCallersOutlivesEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := resting(t), rpmOf(100)
		s := &refusing{second: make(chan context.Context), land: make(chan struct{})}
		l.owner.Store = s
		l.learn(imageOf(cfg, 50*token, l.owner.NowMS()), l.owner.Ask(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		first, second := NewTake(ctx, oneToken, cfg), NewTake(t.Context(), oneToken, cfg)
		go l.Ask(ctx, first)
		synctest.Wait()
		require.False(t, l.enqueue(second))
		s.land <- struct{}{}
		of := <-s.second
		cancel()
		require.NoError(t, of.Err(), "it carries the other caller as well")
		_, done := l.Leave(first)
		require.False(t, done)
		s.land <- struct{}{}
		<-second.Done
		require.NoError(t, second.Result.Err)
		synctest.Wait()
		go func() { <-s.second; s.land <- struct{}{} }() // what the first was granted is given back
		synctest.Wait()
		assert.Equal(t, 3, s.updates)
	})
}
