package lane

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// After a refused write the next one carries its adjusts without takes, which might
// have it refused again.
func TestAdjustsGoAloneAfterARefusal(t *testing.T) {
	l := resting(t)
	cfg := rpmOf(100)
	take, adjust := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, cfg), NewAdjust(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, nil, cfg)
	l.queue.ops, l.learnt.adjustsOnly = []*Op{take, adjust}, true
	b, ok := driver{lane: l}.next()
	require.True(t, ok)
	assert.Equal(t, []*Op{adjust}, b.adjusts)
	assert.Empty(t, b.takes)
	l.requeue(b.adjusts)
	b, _ = driver{lane: l}.next()
	assert.Equal(t, []*Op{take}, b.takes, "and then together")
	assert.Equal(t, []*Op{adjust}, b.adjusts)
}

// A write carries the takes of one configuration: others are decided under theirs.
func TestTakesOfOtherLimitsRideInTheNextWrite(t *testing.T) {
	l := resting(t)
	one := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, rpmOf(100))
	two := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, rpmOf(50))
	l.queue.ops = []*Op{one, two, one}
	b, ok := driver{lane: l}.next()
	require.True(t, ok)
	assert.Equal(t, []*Op{one, one}, b.takes)
}

// A take that does not fit the state that refused it is denied at the instant it
// was decided for, and not tried again with the refill of the round trip.
func TestRefusedTakeThatDoesNotFitIsTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := resting(t), rpmOf(100)
		l.sight.image = imageOf(cfg, 10*token, l.owner.NowMS())
		fits, large := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 10 * token}}, cfg), NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 11 * token}}, cfg)
		v := plan.NewView(l.sight.image, cfg, plan.Current, l.owner.NowMS())
		<-time.After(5 * time.Second) // the round trip
		again := sendingOf(l, v).denyUnfit([]*Op{large, fits}, Answer{Verdict: ddb.Refused, Seen: true, Image: l.sight.image})
		assert.Equal(t, []*Op{fits}, again)
		<-large.Done
		assert.True(t, large.Result.Denied)
		assert.Equal(t, v.Now, large.Result.Now)
	})
}

// Of waiters whose write was refused, only those who are denied have lost their try: the
// others try again at once.
func TestWaiterThatStillFitsHasNotLost(t *testing.T) {
	l, cfg := resting(t), rpmOf(100)
	try := func(tokens int64) {
		o := NewTake(t.Context(), oneToken, cfg)
		o.Waiter = &Waiter{Patience: time.Minute}
		image := imageOf(cfg, tokens, l.owner.NowMS())
		sendingOf(l, plan.NewView(image, cfg, plan.Current, l.owner.NowMS())).denyUnfit([]*Op{o}, Answer{Verdict: ddb.Refused, Seen: true, Image: image})
	}
	try(token)
	assert.Zero(t, l.Line.spread)
	try(0)
	assert.NotZero(t, l.Line.spread)
}

// An image that was written under other limits denies nobody: which limits are in force is
// decided first.
func TestImageOfOtherLimitsDeniesNobody(t *testing.T) {
	l, cfg := resting(t), rpmOf(100)
	o := NewTake(t.Context(), oneToken, cfg)
	empty := imageOf(rpmOf(50), 0, l.owner.NowMS())
	v := plan.NewView(empty, cfg, plan.Current, l.owner.NowMS())
	assert.Equal(t, []*Op{o}, sendingOf(l, v).denyUnfit([]*Op{o}, Answer{Verdict: ddb.Refused, Seen: true, Image: empty}), "refused")
	turn := turn{lane: l, takes: []*Op{o}, view: v}
	turn.denyUnfitAsSeen()
	assert.Equal(t, []*Op{o}, turn.takes, "looked at before")
}

// Only who was refused too often ends; those who joined lately go on.
func TestContentionEndsOnlyTheWorn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Lane{Entity: "u", Resource: "m", owner: &Registry{}}
		worn, fresh := NewTake(t.Context(), nil, nil), NewTake(t.Context(), nil, nil)
		worn.refusals = MaxRefusals - 1
		require.Equal(t, []*Op{fresh}, sendingOf(l, plan.View{}).countRefusal([]*Op{worn, fresh}))
		<-worn.Done
		var why *Failure
		require.ErrorAs(t, worn.Result.Err, &why)
		require.Equal(t, Contended, why.Reason)
		require.Equal(t, 1, fresh.refusals)
		select {
		case <-fresh.Done:
			t.Fatal("ended although it was refused once")
		default:
		}
	})
}
