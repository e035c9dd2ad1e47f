package lane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// A waiter behind a place leaves it its amounts for 100 ms, once they are there. The next Acquire that needs no more
// has them, and those of no waiter before the place.
func TestWaiterLeavesAPlaceItsAmounts(t *testing.T) {
	cfg, now := rpmOf(60), int64(1_000_000)
	l := &Line{}
	first, last := NewWaiter(1, time.UnixMilli(now), false), NewWaiter(3, time.UnixMilli(now), false)
	for _, w := range []*Waiter{first, last} {
		l.Join(w)
		l.RecordDenial(w, oneToken, []string{"rpm"}, cfg)
	}
	l.LeavePlace(2, oneToken)
	r := plan.Reading{Image: imageOf(cfg, token, now), Config: cfg, Now: now}
	acquire := func(n int64) *Op {
		return NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: n * token}}, cfg)
	}
	c := l.claims()
	assert.EqualValues(t, 3*token, c.leftTo(LastRank, nil, r, nil).Of("rpm").Amount, "without a place")
	fits := acquire(1)
	p := c.placeOf(fits, nil, now)
	assert.EqualValues(t, token, c.leftTo(LastRank, nil, r, p).Of("rpm").Amount, "the waiter before it")
	assert.Nil(t, c.placeOf(acquire(2), nil, now), "it needs more")
	assert.Nil(t, c.placeOf(acquire(1), []*Op{fits}, now), "another has it")

	l.Quit(first)
	due := func(at int64) int64 {
		wait, known := l.due(last, imageOf(cfg, token, now), at, at)
		assert.True(t, known)
		return wait
	}
	assert.EqualValues(t, 101, due(now), "until the place is over")
	assert.EqualValues(t, 1, due(now+100))
	assert.Equal(t, int64(0), due(now+101))
	assert.Zero(t, leftToRank(l, last.Rank, nil, r, nil).Of("rpm").Amount)

	l.LeavePlace(4, oneToken)
	l.LeavePlace(5, oneToken)
	assert.Len(t, l.places, 1, "at most as many as waiters")
	l.dropPlace(l.places[0])
	assert.Empty(t, l.places)
}

// Places stand in the order of their ranks, whoever leaves one first. A waiter is due only once the places before it
// leave it its amounts.
func TestPlacesStandByRank(t *testing.T) {
	cfg, now := rpmOf(60), int64(1_000_000)
	l := &Line{}
	for rank := range uint64(3) {
		w := NewWaiter(10+rank, time.UnixMilli(now), false)
		l.Join(w)
		l.RecordDenial(w, oneToken, []string{"rpm"}, cfg)
	}
	l.LeavePlace(20, oneToken)
	l.LeavePlace(5, oneToken)
	image := imageOf(cfg, token, now)
	wait, known := l.due(l.waiters[0], image, now, now)
	assert.True(t, known)
	assert.EqualValues(t, 101, wait)
	left := leftToRank(l, 10, nil, plan.Reading{Image: image, Config: cfg, Now: now}, nil)
	assert.EqualValues(t, token, left.Of("rpm").Amount)
}

// leftToRank is claims.leftTo for the claims of a line.
func leftToRank(l *Line, rank uint64, carried []*Waiter, r plan.Reading, p *placeClaim) plan.Promises {
	c := l.claims()
	return c.leftTo(rank, carried, r, p)
}
