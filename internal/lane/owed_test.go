package lane

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// What a bucket is owed is written part by part.
func TestOwedIsWrittenOnePartAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := owingLane(t, plan.Signed{Name: "rpm", Amount: token})
		w.addRefund([]plan.Signed{{Name: "rpm", Amount: token}}, nil, w.cfg)
		first := w.next(l.owner)
		require.NotNil(t, first)
		require.NotNil(t, first.charge, "charges go first")
		assert.Nil(t, w.next(l.owner))
		assert.False(t, w.empty())
		first.onOutcome(Result{Unconfirmed: true, Err: ErrTripped})
		assert.False(t, w.empty(), "the give-back is left")
		second := w.next(l.owner)
		require.NotNil(t, second)
		assert.Nil(t, w.next(l.owner))
		second.onOutcome(Result{Unconfirmed: true, Err: ErrTripped})
		assert.True(t, w.empty())
	})
}

// What could not be written waits for a while: calls of the bucket go first.
func TestOwedThatCouldNotBeWrittenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := owingLane(t, plan.Signed{Name: "rpm", Amount: 5 * token})
		w.next(l.owner).onOutcome(Result{Err: ErrTripped})
		assert.Equal(t, []plan.Signed{{Name: "rpm", Amount: 5 * token}}, w.due(0))
		assert.False(t, w.pending())
		assert.Nil(t, w.next(l.owner))
		<-time.After(3 * flushDelay)
		assert.True(t, w.empty(), "and then it is written")
		created := l.owner.Store.(*absent).created
		require.NotNil(t, created)
		assert.Equal(t, int64(5*token), created.Limits[0].Consumed)
	})
}

// Give-backs to two incarnations of a bucket are two.
func TestOwedGiveBacksOfTwoBucketsStayApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w := owingLane(t)
		for _, incarnation := range []string{"a", "a", "b"} {
			w.addRefund([]plan.Signed{{Name: "rpm", Amount: token}}, []byte(incarnation), w.cfg)
		}
		assert.Equal(t, []owedBack{{[]plan.Signed{{Name: "rpm", Amount: 2 * token}}, []byte("a")}, {[]plan.Signed{{Name: "rpm", Amount: token}}, []byte("b")}}, w.backs)
		w.mu.Lock()
		w.backs = nil
		w.mu.Unlock()
	})
}

// What a bucket is owed does not grow beyond what can be summed up.
func TestOwedStaysWithinWhatCanBeSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := owingLane(t)
		kept := 0
		for range 3000 {
			if l.owner.owed.charge(l, []plan.Signed{{Name: "rpm", Amount: mostTokens}}, w.cfg) == nil {
				break
			}
			kept++
		}
		assert.Less(t, kept, 3000)
		sum := w.charge.Total()
		assert.Equal(t, int64(kept)*mostTokens, sum)
		assert.Positive(t, sum)
		w.mu.Lock()
		w.charge = backlog.NewCharge()
		w.mu.Unlock()
	})
}

// A process keeps what so many buckets are owed, and no more.
func TestOwedToTooManyBucketsIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := owingLane(t)
		d := &l.owner.owed
		d.mu.Lock()
		for i := range maxOwingBuckets - len(d.byKey) {
			d.byKey[bucketKey{"x" + strconv.Itoa(i), "gpt-4"}] = &owing{charge: backlog.NewCharge()}
		}
		d.mu.Unlock()
		l = l.owner.Of("one-more", "gpt-4")
		one := []plan.Signed{{Name: "rpm", Amount: token}}
		assert.Nil(t, d.charge(l, one, w.cfg))
		assert.False(t, d.addRefund(l, one, nil, w.cfg))
		c := backlog.UnderWay()
		c.Carry("rpm", w.cfg.RateOf("rpm"), token, 0)
		h := backlog.Holding{Name: "rpm"}
		h.Owe(c, token)
		d.takeOver(l, c, one, w.cfg)
		h.Resolve(func([]byte) {})
		assert.Equal(t, int64(token), h.Doubt, "used, and never charged")
		assert.Zero(t, h.Owed())
	})
}

// Give-backs that one write cannot carry together are written one after the other.
func TestOwedGiveBacksStayWithinOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		const leases = 600
		for range leases {
			require.True(t, l.owner.owed.addRefund(l, []plan.Signed{{Name: "rpm", Amount: mostTokens}}, l.incarnation(), nil))
		}
		w, sum := l.owing.Load(), int64(0)
		for _, b := range w.backs {
			assert.LessOrEqual(t, b.amounts[0].Amount, int64(plan.MaxSum))
			sum += b.amounts[0].Amount
		}
		assert.Equal(t, int64(leases*mostTokens), sum)
		w.mu.Lock()
		w.backs = nil
		w.mu.Unlock()
	})
}

// What cannot be kept because too many buckets are owed already is told: a charge
// as dropped, a give-back as in doubt.
func TestWhatCannotBeOwedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		d := &l.owner.owed
		d.byKey = map[bucketKey]*owing{}
		for i := range maxOwingBuckets {
			d.byKey[bucketKey{"full", strconv.Itoa(i)}] = nil
		}
		c := backlog.UnderWay()
		d.takeOver(l, c, []plan.Signed{{Name: "rpm", Amount: 2 * token}}, rpmOf(100))
		d.refundOrDoubt(l, []plan.Signed{{Name: "rpm", Amount: 3 * token}}, l.incarnation(), nil)
		d.byKey = nil
		doubted, dropped := l.owner.tally.amounts()
		assert.Equal(t, map[string]int64{"rpm": 2}, plan.Tokens(dropped))
		assert.Equal(t, map[string]int64{"rpm": 3}, plan.Tokens(doubted))
	})
}
