package lane

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// A panic tells of a write that its caller was told is under way, and does not
// have it written again.
func TestPanicEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		take := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: token}}, rpmOf(100))
		take.state, l.queue, l.batchSent = opCarried, []*Op{take}, true
		l.GiveUp(take, silence(ErrTripped))
		var outcome Result
		l.whenKnown(take, func(r Result) { outcome = r })
		l.endPanicked("boom", nil)
		assert.True(t, outcome.Unconfirmed)
		assert.Empty(t, l.queue)
	})
}

// A take whose caller was told that it is unconfirmed is in doubt if nobody ever
// learns what became of it.
func TestDisownedTakeOfWhichNobodyKnowsIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		for _, o := range []*Op{NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 4 * token}}, nil), NewAdjust(t.Context(), []plan.Signed{{Name: "rpm", Amount: 9 * token}}, nil, nil)} {
			l.Disown(o)
			l.Hand(o, Result{Err: ErrTripped, Unconfirmed: true})
		}
		doubted, _ := l.owner.tally.amounts()
		assert.Equal(t, map[string]int64{"rpm": 4}, plan.Tokens(doubted))
	})
}

// Whoever asks what came of a write learns it, also when it has come already.
func TestOutcomeThatCameFirstIsLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		take := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: token}}, rpmOf(100))
		take.state, take.dropped, l.queue = opCarried, []string{"rpm"}, []*Op{take}
		l.GiveUp(take, silence(ErrTripped))
		require.True(t, take.Result.Pending)
		l.finish([]*Op{take}, Result{Image: l.sight.image})
		var outcome Result
		l.whenKnown(take, func(r Result) { outcome = r })
		assert.Same(t, l.sight.image, outcome.Image)
		assert.Equal(t, []string{"rpm"}, outcome.Dropped, "with the limits that were gone")
	})
}

// An op of which the write under way carries nothing is surely not written.
func TestGivingUpWhatAWriteDoesNotCarryLeavesNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		take := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: token}}, rpmOf(100))
		take.state, l.queue = opCarried, []*Op{take}
		l.markNotCarried(l.queue)
		l.GiveUp(take, silence(ErrTripped))
		assert.False(t, take.Result.Pending)
		assert.False(t, take.Result.Unconfirmed)
		assert.ErrorIs(t, take.Result.Err, problem.ErrUnavailable)
		l.requeue([]*Op{take})
		assert.Empty(t, l.queue)
	})
}
