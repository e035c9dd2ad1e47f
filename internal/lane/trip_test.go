package lane

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// A panic tells of a write that its caller was told is under way, and does not
// have it written again.
func TestPanicEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		take := NewTake(t.Context(), oneToken, rpmOf(100))
		take.state, l.queue.ops = opCarried, []*Op{take}
		l.GiveUp(take, silence(ErrTripped))
		l.Follow(take)
		_, waiting := l.owner.Waiting()
		assert.Equal(t, oneToken, waiting, "it is under way")
		guard.Call(func() { panic("boom") }, (&turn{lane: l, sending: &sending{tried: true}}).ended)
		doubted, _ := l.owner.tally.amounts()
		assert.Equal(t, oneToken, doubted)
		_, waiting = l.owner.Waiting()
		assert.Empty(t, waiting)
		assert.Empty(t, l.queue.ops)
	})
}

// A take whose caller was told that it is unconfirmed is in doubt if nobody ever
// learns what became of it.
func TestDisownedTakeOfWhichNobodyKnowsIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		o := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 4 * token}}, nil)
		l.Follow(o)
		l.Deliver(o, Result{Err: ErrTripped, Unconfirmed: true})
		doubted, _ := l.owner.tally.amounts()
		assert.Equal(t, map[string]int64{"rpm": 4}, plan.Tokens(doubted))
	})
}

// Whoever disowns a take whose outcome has come already has it given back.
func TestOutcomeThatCameFirstIsLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		take := NewTake(t.Context(), oneToken, rpmOf(100))
		take.state, l.queue.ops = opCarried, []*Op{take}
		l.GiveUp(take, silence(ErrTripped))
		require.True(t, take.Result.Pending)
		l.finish([]*Op{take}, Result{Unconfirmed: true, Err: ErrTripped})
		l.Follow(take)
		doubted, _ := l.owner.tally.amounts()
		assert.Equal(t, oneToken, doubted)
		_, waiting := l.owner.Waiting()
		assert.Empty(t, waiting)
	})
}

// An op of which the write under way carries nothing is surely not written.
func TestGivingUpWhatAWriteDoesNotCarryLeavesNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		take := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: token}}, rpmOf(100))
		take.state, l.queue.ops = opCarried, []*Op{take}
		(&turn{lane: l}).markNotCarried(l.queue.ops)
		l.GiveUp(take, silence(ErrTripped))
		assert.False(t, take.Result.Pending)
		assert.False(t, take.Result.Unconfirmed)
		assert.ErrorIs(t, take.Result.Err, fault.ErrUnavailable)
		l.requeue([]*Op{take})
		assert.Empty(t, l.queue.ops)
	})
}
