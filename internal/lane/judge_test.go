package lane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// refusedBy is what it means that a write of ops, decided from a view, was refused by an image.
func refusedBy(image *schema.Image, v plan.View, ops ...*Op) settled {
	return judge(&move{view: v, carried: ops}, Answer{Verdict: ddb.Refused, Seen: true, Image: image}, nil, nobody)
}

// nobody was told that an op is under way.
func nobody(*Op) bool { return false }

// A take that does not fit the state that refused it is denied at the instant it
// was decided for, and not tried again with the refill of the round trip.
func TestRefusedTakeThatDoesNotFitIsTurnedAway(t *testing.T) {
	cfg := rpmOf(100)
	take := func(tokens int64) *Op {
		return NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: tokens * token}}, cfg)
	}
	fits, large := take(10), take(11)
	image := imageOf(cfg, 10*token, 1000)
	s := refusedBy(image, plan.NewView(image, cfg, plan.Current, 1000), large, fits)
	assert.Equal(t, []*Op{fits}, s.again)
	require.Len(t, s.ends, 1)
	assert.Equal(t, []*Op{large}, s.ends[0].ops)
	assert.True(t, s.ends[0].result.Denied)
	assert.EqualValues(t, 1000, s.ends[0].result.Now)
}

// Of waiters whose write was refused, only those who are denied have lost their try: the
// others try again at once.
func TestWaiterThatStillFitsHasNotLost(t *testing.T) {
	cfg := rpmOf(100)
	o := NewTake(t.Context(), oneToken, cfg)
	o.Waiter = &Waiter{Patience: time.Minute}
	try := func(tokens int64) []*Waiter {
		image := imageOf(cfg, tokens, 1000)
		return refusedBy(image, plan.NewView(image, cfg, plan.Current, 1000), o).lost
	}
	assert.Empty(t, try(token))
	assert.Equal(t, []*Waiter{o.Waiter}, try(0))
}

// An image that was written under other limits denies nobody: which limits are in force is
// decided first.
func TestImageOfOtherLimitsDeniesNobody(t *testing.T) {
	cfg := rpmOf(100)
	o := NewTake(t.Context(), oneToken, cfg)
	empty := imageOf(rpmOf(50), 0, 1000)
	v := plan.NewView(empty, cfg, plan.Current, 1000)
	assert.Equal(t, []*Op{o}, refusedBy(empty, v, o).again, "refused")
	d := decide(facts{takes: []*Op{o}, view: v, known: sight{known: true, image: empty, seenAt: 1000}, looked: true})
	assert.Empty(t, d.ends, "looked at before")
	assert.Len(t, d.left, 1)
}

// Only who was refused too often ends; those who joined lately go on.
func TestContentionEndsOnlyTheWorn(t *testing.T) {
	worn, fresh := NewTake(t.Context(), nil, nil), NewTake(t.Context(), nil, nil)
	worn.refusals = MaxRefusals - 1
	s := refusedBy(nil, plan.View{}, worn, fresh)
	require.Equal(t, []*Op{fresh}, s.again)
	require.Len(t, s.ends, 1)
	require.Equal(t, []*Op{worn}, s.ends[0].ops)
	var why *Failure
	require.ErrorAs(t, s.ends[0].result.Err, &why)
	require.Equal(t, Contended, why.Reason)
	require.Equal(t, 1, fresh.refusals)
	require.Equal(t, 1, s.worn)
}

// A refused write is decided again without what it debited ahead.
func TestRefusedDebitAheadIsDropped(t *testing.T) {
	take, ahead := NewTake(t.Context(), oneToken, rpmOf(100)), &Op{take: true, ahead: true}
	for hidden := range 2 {
		for _, ops := range [][]*Op{{take}, {take, ahead}, {ahead, take}} {
			s := judge(&move{carried: ops}, Answer{Verdict: ddb.Refused, hidden: hidden}, nil, nobody)
			assert.Equal(t, []*Op{take}, s.again)
			require.Len(t, s.ends, len(ops)-1)
			for _, e := range s.ends {
				assert.Equal(t, []*Op{ahead}, e.ops)
				assert.True(t, e.result.Denied)
				assert.Equal(t, hidden > 0, e.result.Unconfirmed, "an earlier try may have landed")
			}
		}
	}
}

// A claim that brings a newer configuration to those whose takes do not fit carries nothing
// of theirs: if it is not answered, they have not been charged.
func TestUnansweredClaimChargesNobody(t *testing.T) {
	o := NewTake(t.Context(), oneToken, rpmOf(100))
	a := Answer{Verdict: ddb.Unconfirmed, Err: unconfirmed(writeBucket)}
	s := judge(&move{carried: []*Op{o}, brings: true}, a, nil, nobody)
	require.Len(t, s.ends, 1)
	require.Error(t, s.ends[0].result.Err)
	assert.False(t, s.ends[0].result.Unconfirmed)
	assert.Empty(t, s.doubt)
	assert.True(t, judge(&move{carried: []*Op{o}}, a, nil, nobody).ends[0].result.Unconfirmed, "unlike one that does")
}
