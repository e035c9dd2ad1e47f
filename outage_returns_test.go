package dynalimit

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// What is to be given back for a caller who has gone is kept while the bucket does
// not answer.
func TestGrantOfACallerWhoHasGoneIsGivenBackAfterAnOutage(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *stage) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 5})
		l := s.limiter.lanes.of(userOf(0), model)
		s.down(ddbmem.Fault{Drop: true})
		s.acquire(userOf(0), Amounts{"rpm": 1})
		require.True(t, l.tripped.Load())
		take := newTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 5 * milli}}, lease.levels[0].cfg)
		l.submit(l.returning(take, result{image: l.sight.image}))
		assert.Equal(t, 1, s.limiter.Health().OwedBuckets)
		s.recovers()
		elapse(time.Second)
		charged, doubt := s.consumed(1, "rpm"), s.limiter.Health().Doubt["rpm"]
		assert.LessOrEqual(t, charged, int64(1))
		assert.GreaterOrEqual(t, charged+doubt, int64(1))
	})
}

// Give-backs that one write cannot carry together are written one after the other.
func TestOwedGiveBacksStayWithinOneWrite(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", maxTokens)}}, func(t *testing.T, s *stage) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		l := s.limiter.lanes.of(userOf(0), model)
		const leases = 600
		for range leases {
			require.True(t, s.limiter.lanes.owed.refund(l, []plan.Signed{{Name: "rpm", Amount: maxTokens * milli}}, l.imageOf(), nil))
		}
		w, sum := l.owing.Load(), int64(0)
		for _, b := range w.backs {
			assert.LessOrEqual(t, b.amounts[0].Amount, int64(plan.MaxSum))
			sum += b.amounts[0].Amount
		}
		assert.Equal(t, int64(leases*maxTokens*milli), sum)
		w.mu.Lock()
		w.backs = nil
		w.mu.Unlock()
	})
}

// A panic tells of a write that its caller was told is under way, and does not
// have it written again.
func TestPanicEndsWhatIsUnderWay(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}}, func(t *testing.T, s *stage) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 1})
		l := lease.levels[0].lane
		take := newTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: milli}}, lease.levels[0].cfg)
		take.state, l.queue, l.wrote = opCarried, []*op{take}, true
		l.giveUp(take, silence(errTripped))
		var outcome result
		l.bequeath(take, func(r result) { outcome = r })
		l.broke("boom", nil)
		assert.True(t, outcome.unknown)
		assert.Empty(t, l.queue)
	})
}

// What cannot be kept because too many buckets are owed already is told: a charge
// as dropped, a give-back as in doubt.
func TestWhatCannotBeOwedIsTold(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}}, func(t *testing.T, s *stage) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 1})
		l, d := lease.levels[0].lane, &s.limiter.lanes.owed
		d.byKey = map[laneKey]*owing{}
		for i := range maxOwingBuckets {
			d.byKey[laneKey{"full", strconv.Itoa(i)}] = nil
		}
		c := backlog.UnderWay()
		d.takeOver(l, c, []plan.Signed{{Name: "rpm", Amount: 2 * milli}}, lease.levels[0].cfg)
		d.returns(l, []plan.Signed{{Name: "rpm", Amount: 3 * milli}}, l.imageOf(), nil)
		d.byKey = nil
		assert.Equal(t, Amounts{"rpm": 2}, s.limiter.Health().Dropped)
		assert.Equal(t, Amounts{"rpm": 3}, s.limiter.Health().Doubt)
	})
}

// A take whose caller was told that it is unconfirmed is in doubt if nobody ever
// learns what became of it.
func TestDisownedTakeOfWhichNobodyKnowsIsInDoubt(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}}, func(t *testing.T, s *stage) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 1})
		l := lease.levels[0].lane
		for _, o := range []*op{newTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 4 * milli}}, nil), newAdjust(t.Context(), []plan.Signed{{Name: "rpm", Amount: 9 * milli}}, nil, nil)} {
			l.disown(o)
			l.hand(o, result{err: errTripped, unknown: true})
		}
		assert.Equal(t, Amounts{"rpm": 4}, s.limiter.Health().Doubt)
	})
}
