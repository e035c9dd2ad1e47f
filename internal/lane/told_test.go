package lane

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// rpm is an amount in tokens.
func rpm(tokens int64) []plan.Signed { return []plan.Signed{{Name: "rpm", Amount: tokens * token}} }

// What was counted for a bucket that is gone makes it, full, with the counter.
func TestCountedMakesABucketThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		l.owner.Store = gone{l.owner.Store}
		require.True(t, l.owner.Count(l, rpm(5), rpmOf(100)))
		require.True(t, l.owner.Count(l, rpm(-2), rpmOf(100)))
		l.owner.Flush(t.Context())
		created := l.owner.Store.(gone).Store.(*absent).created
		require.NotNil(t, created)
		assert.Equal(t, int64(3*token), created.Limits[0].Consumed)
		assert.Equal(t, int64(100*token), created.Limits[0].Tokens)
		buckets, amounts := l.owner.Waiting()
		assert.Zero(t, buckets)
		assert.Empty(t, amounts)
	})
}

// What comes to nothing is not written.
func TestWhatComesToNothingIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t) // whose store knows no updates
		require.True(t, l.owner.Count(l, rpm(5), rpmOf(100)))
		require.True(t, l.owner.Count(l, rpm(-5), rpmOf(100)))
		l.owner.Flush(t.Context())
		buckets, _ := l.owner.Waiting()
		assert.Zero(t, buckets)
	})
}

// Counts of what is lost or in doubt end at the largest number.
func TestUncertainAmountsDoNotWrap(t *testing.T) {
	var s tally
	for range 10_000 {
		s.drop(rpm(1e12))
		s.doubt(rpm(-1e12))
	}
	doubted, dropped := s.amounts()
	assert.Equal(t, int64(math.MaxInt64), dropped[0].Amount)
	assert.Equal(t, doubted, dropped)
}

// Give-backs to two incarnations of a bucket are two.
func TestGiveBacksOfTwoBucketsStayApart(t *testing.T) {
	w := &untold{}
	for _, incarnation := range []string{"a", "a", "b", "a"} {
		w.giveBack(back{rpm(1), []byte(incarnation)})
	}
	assert.Equal(t, []back{{rpm(3), []byte("a")}, {rpm(1), []byte("b")}}, w.backs)
	assert.Equal(t, rpm(4), w.sizes())
	first := w.take()
	assert.Equal(t, rpm(3), first.amounts)
	assert.Equal(t, rpm(4), w.sizes(), "what is under way counts")
	w.restore(first)
	assert.Equal(t, rpm(4), w.sizes())
}

// What waits does not grow beyond what one write can carry: give-backs are written one after
// the other, and counts beyond are left.
func TestWhatWaitsStaysWithinOneWrite(t *testing.T) {
	w, left := &untold{}, int64(0)
	for range 600 {
		w.giveBack(back{rpm(mostTokens / token), []byte("a")})
		for _, a := range w.count(rpm(mostTokens / token)) {
			left += a.Amount
		}
	}
	sum := int64(0)
	for _, b := range w.backs {
		assert.LessOrEqual(t, b.amounts[0].Amount, int64(plan.MaxSum))
		sum += b.amounts[0].Amount / token
	}
	assert.Equal(t, int64(600*(mostTokens/token)), sum)
	assert.LessOrEqual(t, w.counts[0].Amount, int64(plan.MaxSum))
	assert.Equal(t, int64(600*mostTokens), w.counts[0].Amount+left)
}

// Something waits for so many buckets, and no more: the rest is dropped, and told so.
func TestWhatFindsNoRoomIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		d := &l.owner.told
		d.byKey, d.running = map[toldKey]*untold{}, true
		for i := range maxUntold {
			d.byKey[toldKey{bucketKey: bucketKey{"full", strconv.Itoa(i)}}] = &untold{}
		}
		require.True(t, l.owner.Count(l, rpm(2), rpmOf(100)))
		require.True(t, l.owner.Count(l, rpm(-1), rpmOf(100)))
		require.True(t, l.owner.GiveBackLater(l, rpm(3), l.sight.image.Of(), nil))
		_, dropped := l.owner.tally.amounts()
		assert.Equal(t, map[string]int64{"rpm": 6}, plan.Tokens(dropped))
		d.byKey = nil
	})
}

// A correction whose caller was told that it is under way, and that was surely not written,
// waits: what it charges is counted, what it gives back is given back.
func TestCorrectionThatWasNotWrittenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		l.owner.told.running = true // nothing is written
		for _, amount := range []int64{5, -3} {
			o := NewAdjust(t.Context(), rpm(amount), []byte("a"), rpmOf(100))
			o.state, l.queue.ops = opCarried, []*Op{o}
			l.GiveUp(o, silence(ErrTripped))
			require.True(t, o.Result.Pending)
			l.Follow(o)
			l.requeue([]*Op{o})
			_, known := o.Outcome()
			assert.True(t, known)
		}
		for _, w := range l.owner.told.byKey {
			assert.Equal(t, rpm(5), w.counts)
			assert.Equal(t, []back{{rpm(3), []byte("a")}}, w.backs)
		}
		_, waiting := l.owner.Waiting()
		assert.Equal(t, rpm(8), waiting)
	})
}
