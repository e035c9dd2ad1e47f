package lane

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// refusedBy is what it means that a write of ops, decided from a view, was refused by an image.
func refusedBy(image *schema.Image, v plan.View, ops ...*Op) *decision {
	return judged(&decision{view: v, move: move{carried: ops}}, Answer{Verdict: ddb.Refused, Seen: true, Image: image})
}

// judged is a decision after an answer to its write.
func judged(t *decision, a Answer) *decision {
	t.judgeAnswer(a, claims{}, time.Time{}, 0)
	return t
}

// chosen is a decision that was made.
func chosen(t *decision) *decision {
	t.chooseWrite()
	return t
}

// A take that does not fit the state that refused it is denied at the instant it
// was decided for, and not tried again with the refill of the round trip.
func TestRefusedTakeThatDoesNotFitIsTurnedAway(t *testing.T) {
	cfg := rpmOf(100)
	take := func(tokens int64) *Op {
		return NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: tokens * token}}, cfg)
	}
	fits, large := take(10), take(11)
	image := imageOf(cfg, 10*token, 1000)
	s := refusedBy(image, plan.View{Image: image, Config: cfg, Now: 1000}, large, fits)
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
	o.Waiter = &Waiter{}
	try := func(tokens int64) []*Waiter {
		image := imageOf(cfg, tokens, 1000)
		return refusedBy(image, plan.View{Image: image, Config: cfg, Now: 1000}, o).lost
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
	v := plan.View{Image: empty, Config: cfg, Now: 1000}
	assert.Equal(t, []*Op{o}, refusedBy(empty, v, o).again, "refused")
	d := &decision{batch: batch{takes: []*Op{o}}, view: v, known: sight{known: true, image: empty, seenAt: 1000}, looked: true}
	assert.Len(t, d.chooseWrite(), 1)
	assert.Empty(t, d.ends, "looked at before")
}

// Only who was refused too often ends; those who joined lately go on.
func TestContentionEndsOnlyTheWorn(t *testing.T) {
	worn, fresh := NewTake(t.Context(), nil, nil), NewTake(t.Context(), nil, nil)
	worn.Refusals = MaxRefusals - 1
	s := refusedBy(nil, plan.View{}, worn, fresh)
	require.Equal(t, []*Op{fresh}, s.again)
	require.Len(t, s.ends, 1)
	require.Equal(t, []*Op{worn}, s.ends[0].ops)
	var why *Failure
	require.ErrorAs(t, s.ends[0].result.Err, &why)
	require.Equal(t, Contended, why.Reason)
	require.Equal(t, 1, fresh.Refusals)
	require.Equal(t, 1, s.worn)
}

// A claim that brings a newer configuration to those whose takes do not fit carries nothing
// of theirs: if it is not answered, they have not been charged.
func TestUnansweredClaimChargesNobody(t *testing.T) {
	o := NewTake(t.Context(), oneToken, rpmOf(100))
	a := Answer{Verdict: ddb.Unconfirmed, Err: unconfirmed(writeBucket)}
	s := judged(&decision{move: move{carried: []*Op{o}, brings: true}}, a)
	require.Len(t, s.ends, 1)
	require.Error(t, s.ends[0].result.Err)
	assert.False(t, s.ends[0].result.Unconfirmed)
	assert.Empty(t, s.doubt)
	assert.True(t, judged(&decision{move: move{carried: []*Op{o}}}, a).ends[0].result.Unconfirmed, "unlike one that does")
}

// Callers come first: what is debited ahead is decided last, and not at all when one
// of them does not fit, waits, or was refused.
func TestChooseDebitsAheadLast(t *testing.T) {
	cfg := rpmOf(100)
	now := time.Now().UnixMilli()
	op := func(n int64) *Op {
		return NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: n * token}}, cfg)
	}
	debit := func(n int64) *Op {
		o := op(n)
		o.Prefetch = true
		return o
	}
	for name, c := range map[string]struct {
		tokens int64
		takes  []*Op
		halved int8
		adopt  plan.Standing
		want   bool
	}{
		"half is left":       {90, []*Op{debit(30), op(10)}, 0, plan.Current, true},
		"half is not left":   {90, []*Op{debit(31), op(10)}, 0, plan.Current, false},
		"alone":              {90, []*Op{debit(40)}, 0, plan.Current, true},
		"alone, of little":   {90, []*Op{debit(41)}, 0, plan.Current, false},
		"a call is left out": {90, []*Op{debit(1), op(91)}, 0, plan.Current, false},
		"others are faster":  {90, []*Op{debit(1), op(1)}, 1, plan.Current, false},
		"limits change":      {90, []*Op{debit(1), op(1)}, 0, plan.Newer, false},
	} {
		t.Run(name, func(t *testing.T) {
			image := imageOf(cfg, c.tokens*token, now)
			d := chosen(&decision{batch: batch{takes: c.takes}, view: plan.View{Image: image, Config: cfg, Adopt: c.adopt == plan.Newer, Now: now}, known: sight{known: true, image: image}, learnt: lessons{halvings: c.halved}})
			assert.Equal(t, c.want, c.takes[0].Fate == plan.Carried)
			assert.Equal(t, c.want, slices.Contains(d.carried, c.takes[0]))
		})
	}
	refusedOnce := op(1)
	refusedOnce.Refusals = 1
	image := imageOf(cfg, 90*token, now)
	d := chosen(&decision{batch: batch{takes: []*Op{refusedOnce, debit(1)}}, view: plan.View{Image: image, Config: cfg, Now: now}, known: sight{known: true, image: image}})
	assert.Equal(t, []*Op{refusedOnce}, d.carried, "a call that was refused")
}

// A turn ends what cannot be carried, whatever else it carries: a take of a limit that is gone,
// and an adjust into a debt that cannot be stored.
func TestTurnEndsWhatCannotBeCarried(t *testing.T) {
	cfg := rpmOf(100)
	image := imageOf(cfg, -plan.MaxDebt+5*token, 1000)
	gone := NewTake(t.Context(), []plan.Signed{{Name: "tpm", Amount: token}}, cfg)
	deep, fits := NewAdjust(t.Context(), rpm(6), nil, cfg), NewAdjust(t.Context(), rpm(5), nil, cfg)
	d := chosen(&decision{batch: batch{takes: []*Op{gone}, adjusts: []*Op{deep, fits}}, view: plan.View{Image: image, Config: cfg, Now: 1000}, known: sight{known: true, image: image}})
	reasons := map[*Op]Reason{}
	for _, e := range d.ends {
		var why *Failure
		require.ErrorAs(t, e.result.Err, &why)
		reasons[e.ops[0]] = why.Reason
	}
	assert.Equal(t, map[*Op]Reason{gone: Outdated, deep: TooDeep}, reasons)
	assert.Equal(t, []*Op{fits}, d.carried)
	assert.EqualValues(t, 5*token, d.rows.Of("rpm").Adjust)
}

// A take that was left once already and still does not fit is denied; one that comes new is
// left for the next write.
func TestTakeIsLeftOnce(t *testing.T) {
	cfg := rpmOf(100)
	image := imageOf(cfg, token, 1000)
	fits, late, left := NewTake(t.Context(), oneToken, cfg), NewTake(t.Context(), oneToken, cfg), NewTake(t.Context(), oneToken, cfg)
	left.Postponed = 1
	d := chosen(&decision{batch: batch{takes: []*Op{fits, late, left}}, view: plan.View{Image: image, Config: cfg, Now: 1000}, known: sight{known: true, image: image, seenAt: 1000}})
	assert.Equal(t, []*Op{fits}, d.carried)
	assert.Equal(t, []*Op{late}, d.again)
	require.Len(t, d.ends, 1)
	assert.Equal(t, []*Op{left}, d.ends[0].ops)
	assert.True(t, d.ends[0].result.Denied)
}

// An op whose caller has left while it was carried is nobody's grant: what
// landed is given back once, what may have landed is told, and a caller that looks again
// finds nothing.
func TestOpOfACallerThatLeft(t *testing.T) {
	for name, end := range map[string]struct {
		how    func(l *Lane, o *Op)
		backs  int
		doubts []plan.Signed
	}{
		"landed":          {func(l *Lane, o *Op) { endOps(l, Result{Image: &schema.Image{Incarnation: []byte("ci")}}, o) }, 1, nil},
		"denied":          {func(l *Lane, o *Op) { endOps(l, Result{Denied: true}, o) }, 0, nil},
		"failed":          {func(l *Lane, o *Op) { endOps(l, Result{Err: &Failure{Reason: Contended}}, o) }, 0, nil},
		"decided no more": {func(l *Lane, o *Op) { l.finishOps(&fates{again: []*Op{o}}) }, 0, nil},
		"unanswered":      {func(l *Lane, o *Op) { endOps(l, Result{Err: unconfirmed(writeBucket), Unconfirmed: true}, o) }, 0, oneToken},
		"refused once":    {func(l *Lane, o *Op) { l.recordAnswer(turnOf(l, plan.View{}, o), Answer{Verdict: ddb.Refused}) }, 0, nil},
		"refused after an unanswered try": {func(l *Lane, o *Op) {
			l.recordAnswer(turnOf(l, plan.View{}, o), Answer{Verdict: ddb.Refused, hidden: 1})
		}, 0, oneToken},
	} {
		t.Run(name, func(t *testing.T) {
			l := resting(t)
			o := NewTake(t.Context(), oneToken, rpmOf(100))
			require.True(t, enqueue(l, o), "the lane rested")
			require.NotNil(t, l.nextTurn(nil))
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
				assert.False(t, back.Take)
				assert.Equal(t, []byte("ci"), back.Incarnation, "to the bucket that granted it")
				assert.Equal(t, []plan.Signed{{Name: "rpm", Amount: -1000}}, back.Amounts)
			}
			l.queue.ops = nil
			require.Nil(t, l.nextTurn(nil), "rests again")
		})
	}
}

// A caller who leaves before its op is carried is charged nothing.
func TestOpThatIsLeftInTheQueueIsNotCarried(t *testing.T) {
	l := resting(t)
	o := NewTake(t.Context(), oneToken, rpmOf(100))
	require.True(t, enqueue(l, o), "the lane rested")
	_, done := l.Leave(o)
	require.False(t, done)
	assert.EqualValues(t, opGone, o.state.Load(), "nothing remains to be done for it")
	assert.Nil(t, l.nextTurn(nil))
}

// After a refused write the next one carries its adjusts without takes, which might
// have it refused again.
func TestAdjustsGoAloneAfterARefusal(t *testing.T) {
	l := resting(t)
	cfg := rpmOf(100)
	take, adjust := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, cfg), NewAdjust(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, nil, cfg)
	l.queue.ops, l.Memory.learnt.adjustsOnly = []*Op{take, adjust}, true
	b := l.nextTurn(nil)
	require.NotNil(t, b)
	assert.Equal(t, []*Op{adjust}, b.adjusts)
	assert.Empty(t, b.takes)
	l.finishOps(&fates{again: b.adjusts})
	b = l.nextTurn(nil)
	assert.Equal(t, []*Op{take}, b.takes, "and then together")
	assert.Equal(t, []*Op{adjust}, b.adjusts)
}

// A write carries the takes of one configuration: others are decided under theirs.
func TestTakesOfOtherLimitsRideInTheNextWrite(t *testing.T) {
	l := resting(t)
	one := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, rpmOf(100))
	two := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, rpmOf(50))
	l.queue.ops = []*Op{one, two, one}
	b := l.nextTurn(nil)
	require.NotNil(t, b)
	assert.Equal(t, []*Op{one, one}, b.takes)
}

// silentConfigs has a configuration that cannot be read, and is asked for 1.5 s each time.
type silentConfigs struct {
	Configs
	now *int64
}

func (c silentConfigs) Reread(context.Context, string, string, bool) (*plan.Config, error) {
	*c.now += 1500
	return nil, fault.ErrUnavailable
}

// present is a store with a bucket.
type present struct {
	Store
	image *schema.Image
}

func (s present) Read(context.Context, schema.Item, *schema.LimitSet, int) (*schema.Image, error) {
	return s.image, nil
}

// The wait of a denial counts from its answer, even if the configuration was read in vain before: the image from
// before that read is too old by then.
func TestDenialAfterAReadInVain(t *testing.T) {
	began := int64(1_000_000)
	now, image, cfg := began, imageOf(rpmOf(100), 0, began), rpmOf(50)
	image.Refilled, image.ConfigRead, cfg.ReadAt = began+time.Hour.Milliseconds(), began-1000, began // too close to tell which is newer
	l := restingOn(t, present{image: image})
	l.owner.NowMS = func() int64 { return now }
	l.owner.SureMS, l.owner.Configs = l.owner.NowMS, silentConfigs{now: &now}
	l.Memory.sight = sight{known: true, image: image, seenAt: began, seenTick: 1}
	o := NewTake(t.Context(), oneToken, cfg)
	l.Ask(t.Context(), o)
	<-o.Done
	require.True(t, o.Result.Denied)
	assert.Equal(t, now, o.Result.Now)
}

// A refused write is decided again without what it debited ahead.
func TestRefusedDebitAheadIsDropped(t *testing.T) {
	take, ahead := NewTake(t.Context(), oneToken, rpmOf(100)), &Op{Ask: plan.Ask{Take: true, Prefetch: true}}
	for hidden := range 2 {
		for _, ops := range [][]*Op{{take}, {take, ahead}, {ahead, take}} {
			s := judged(&decision{move: move{carried: ops}}, Answer{Verdict: ddb.Refused, hidden: hidden})
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
