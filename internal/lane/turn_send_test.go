package lane

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
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
		require.True(t, enqueue(l, o))
		require.NotNil(t, l.nextTurn(nil))
		l.GiveUp(o, silence(ErrTripped))
		require.True(t, o.Result.Pending)
		l.Follow(o)
		l.recordAnswer(turnOf(l, plan.View{}, o), Answer{Verdict: ddb.Refused, hidden: hidden})
		got, known := o.Outcome()
		require.True(t, known)
		assert.Equal(t, hidden > 0, got.Unconfirmed)
		require.Error(t, got.Err)
		assert.Empty(t, l.queue.ops)
		require.Nil(t, l.nextTurn(nil))
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
		l.Memory.learnRead(imageOf(cfg, 50*token, l.owner.NowMS()), l.owner.Ask())
		ctx, cancel := context.WithCancel(t.Context())
		first, second := NewTake(ctx, oneToken, cfg), NewTake(t.Context(), oneToken, cfg)
		go l.Ask(ctx, first)
		synctest.Wait()
		require.False(t, enqueue(l, second))
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

// ended is a trace whose contexts have ended.
type ended struct{}

func (ended) Begin(ctx context.Context, _ Writing) (context.Context, func(Answer)) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, func(Answer) {}
}

func (ended) Paced(Paced) {}

// conflicting is a store whose first update meets a conflict. most is the largest number of updates at the same time.
type conflicting struct {
	slow
	updates, flying, most int
}

func (s *conflicting) Update(ctx context.Context, k schema.Item, st schema.Statement, set *schema.LimitSet, slot int) Answer {
	s.updates++
	s.flying++
	s.most = max(s.most, s.flying)
	a, first := Answer{Verdict: ddb.Conflicted, Err: new(types.TransactionConflictException)}, s.updates == 1
	landed := s.slow.Update(ctx, k, st, set, slot)
	s.flying--
	if first {
		return a
	}
	return landed
}

// A lane has one write in flight, also if an observer's context has ended.
func TestLaneHasOneWriteInFlightAfterAnObserversContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &conflicting{}
		l := restingOn(t, s)
		l.owner.Trace = ended{}
		for range 5 {
			l.Submit(NewTake(t.Context(), oneToken, rpmOf(100)))
			<-time.After(trip)
		}
		assert.NoError(t, l.owner.Drain(t.Context()))
		assert.Equal(t, 1, s.most)
	})
}

// contended is a store that refuses every update.
type contended struct{ slow }

func (s contended) Update(ctx context.Context, k schema.Item, st schema.Statement, set *schema.LimitSet, slot int) Answer {
	if ctx.Err() != nil {
		return Answer{Verdict: ddb.Unsent, Err: ctx.Err()}
	}
	landed := s.slow.Update(ctx, k, st, set, slot)
	return Answer{Verdict: ddb.Refused, Seen: true, Image: landed.Image}
}

// The pause after refusals ends with the caller on whose goroutine the lane runs.
func TestPausesAfterRefusalsEndWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := restingOn(t, contended{})
		for range 50 {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 8*trip+1)
			o := NewTake(ctx, oneToken, rpmOf(100))
			l.Ask(ctx, o)
			assert.LessOrEqual(t, time.Since(began), 9*trip, "a try lasts a trip")
			cancel()
			_, _ = l.Leave(o)
			assert.NoError(t, l.owner.Drain(t.Context()))
		}
	})
}

// A give-back is sent again only if the last write in its slot was this client's own:
// after another's it could land twice.
func TestGiveBackIsSentAgainAfterAnOwnWriteAlone(t *testing.T) {
	for name, test := range map[string]struct {
		last, own string
		again     bool
	}{
		"own": {"own write", "own write", true}, "another's": {"not-owned", "own write", false}, "the first": {"", "", false}, "none known": {"not-owned", "", false},
	} {
		var own tryID
		copy(own[:], test.own)
		d := &delivery{givesBack: true}
		d.bindToSlot(&schema.Image{Op: schema.WriteIDOf([]byte(test.last))}, own)
		assert.Equal(t, test.again, d.lastIsOwn, name)
		assert.Equal(t, test.again, d.rule == schema.OpLast, name)
	}
}

// landing is a store whose updates land if the op slot holds what they require. The answer to the first
// one that lands is lost.
type landing struct {
	Store
	image  schema.Image
	landed int
	lose   func()
}

func (s *landing) Update(_ context.Context, _ schema.Item, st schema.Statement, _ *schema.LimitSet, _ int) Answer {
	var ids [][]byte
	for _, v := range st.Values {
		if id, ok := v.(*types.AttributeValueMemberB); ok && len(id.Value) == idLength {
			ids = append(ids, id.Value)
		}
	}
	image := s.image
	required := slices.IndexFunc(ids, func(id []byte) bool { return string(id) == string(image.Op.Bytes()) })
	if required < 0 {
		return Answer{Verdict: ddb.Refused, Seen: true, Image: &image}
	}
	image.Op = schema.WriteIDOf(slices.Delete(ids, required, required+1)[0])
	s.image = image
	if s.landed++; s.landed == 1 {
		s.lose()
		return Answer{Verdict: ddb.Unconfirmed, Err: silence(ErrTripped)}
	}
	return Answer{Verdict: ddb.Landed, Seen: true, Image: &image}
}

func (s *landing) Read(context.Context, schema.Item, *schema.LimitSet, int) (*schema.Image, error) {
	image := s.image
	return &image, nil
}

func (*landing) Probe(context.Context, schema.Item) error { return nil }

// A give-back whose caller must be answered during its delivery goes on as it is, on another goroutine:
// its next try recognises the one whose answer was lost.
func TestGiveBackThatChangesHandsLandsOnce(t *testing.T) {
	for name, lose := range map[string]func(leave func()){
		"the caller's context ends": func(leave func()) { leave() },
		"the bucket falls silent":   func(func()) { <-time.After(SlowFailure) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, cfg, own := resting(t), rpmOf(100), OpID(7, 0)
				s := &landing{image: *imageOf(cfg, 50*token, l.owner.NowMS())}
				s.image.Op, s.image.Incarnation = schema.WriteIDOf(own), []byte("a")
				l.owner.Store = s
				image := s.image
				l.Memory.learnRead(&image, l.owner.Ask())
				l.Memory.learnt.own = tryID(own)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				s.lose = func() { lose(leave) }
				back := NewAdjust(t.Context(), rpm(-1), image.Incarnation, cfg)
				l.Ask(ctx, back)
				r := func() Result { <-back.Done; return back.Result }
				if ctx.Err() == nil {
					require.True(t, r().Pending)
					l.Follow(back)
					r = func() Result { <-time.After(time.Minute); outcome, _ := back.Outcome(); return outcome }
				}
				assert.NoError(t, r().Err)
				assert.NotNil(t, r().Image, "it is known")
				assert.Equal(t, 1, s.landed)
			})
		})
	}
}

// unanswering is a store that gives the same answer to every update, for at most so many.
type unanswering struct {
	Store
	answer  Answer
	updates int
}

func (s *unanswering) Update(context.Context, schema.Item, schema.Statement, *schema.LimitSet, int) Answer {
	if s.updates++; s.updates > 2*MaxTries {
		return Answer{Verdict: ddb.Landed}
	}
	return s.answer
}

// A write is tried again for as long as somebody has time for it, and a bucket is alive.
func TestWriteIsTriedAgainWhileThereIsTime(t *testing.T) {
	conflicted := Answer{Verdict: ddb.Conflicted, Err: &Failure{Reason: Contended}}
	unsent := Answer{Verdict: ddb.Unsent, Err: silence(ErrTripped)}
	for name, test := range map[string]struct {
		answer  Answer
		until   time.Duration
		closed  bool
		updates int
	}{
		"for ever":                  {conflicted, 0, false, MaxTries},
		"for no time":               {conflicted, -1, false, 1},
		"after Close, of no bucket": {unsent, 0, true, MaxUnconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := resting(t), &unanswering{answer: test.answer}
				l.owner.Store = s
				o := NewTake(t.Context(), oneToken, rpmOf(100))
				if test.until != 0 {
					o.Until = time.Now().Add(test.until)
				}
				if test.closed {
					l.owner.End()
				}
				w := turnOf(l, plan.View{}, o)
				w.ctx, w.write = t.Context(), plan.Write{Kind: plan.GiveBack, GiveBack: &schema.GiveBack{}}
				a, over := w.deliver()
				require.True(t, over)
				assert.Equal(t, test.updates, s.updates)
				assert.NotEqual(t, ddb.Landed, a.Verdict)
			})
		})
	}
}

// What follows from an answer depends on what the tries before it were answered: a take is
// sent again until it recognises itself, a give-back only if it cannot land twice.
func TestWhatFollowsFromTheAnswerToATry(t *testing.T) {
	lost, none := Answer{Verdict: ddb.Unconfirmed, Err: silence(ErrTripped)}, Answer{}
	for name, test := range map[string]struct {
		d       delivery
		earlier Answer
		a       Answer
		took    time.Duration
		verdict ddb.Verdict
		then    step
		doubted bool
	}{
		"landed":                            {delivery{}, none, Answer{Verdict: ddb.Landed}, 0, ddb.Landed, step{over: true}, false},
		"landed after a lost take":          {delivery{}, lost, Answer{Verdict: ddb.Landed}, 0, ddb.Landed, step{over: true}, true},
		"refused":                           {delivery{}, none, Answer{Verdict: ddb.Refused}, 0, ddb.Refused, step{over: true}, false},
		"refused after a lost take":         {delivery{}, lost, Answer{Verdict: ddb.Refused}, 0, ddb.Refused, step{over: true}, true},
		"refused after a lost give-back":    {delivery{givesBack: true, lastIsOwn: true}, lost, Answer{Verdict: ddb.Refused}, 0, ddb.Unconfirmed, step{over: true}, false},
		"recognised":                        {delivery{operation: 7}, lost, Answer{Verdict: ddb.Refused, Image: &schema.Image{Op: schema.WriteIDOf(OpID(7, 0))}}, 0, ddb.Landed, step{over: true}, false},
		"another's":                         {delivery{operation: 7}, lost, Answer{Verdict: ddb.Refused, Image: &schema.Image{Op: schema.WriteIDOf(OpID(8, 0))}}, 0, ddb.Refused, step{over: true}, true},
		"lost, a take":                      {delivery{}, none, lost, 0, ddb.Unconfirmed, step{}, false},
		"lost, a give-back of an own slot":  {delivery{givesBack: true, lastIsOwn: true}, none, lost, 0, ddb.Unconfirmed, step{}, false},
		"lost, a give-back of another slot": {delivery{givesBack: true}, none, lost, 0, ddb.Unconfirmed, step{over: true}, false},
		"lost after its full time":          {delivery{}, none, lost, SlowFailure, ddb.Unconfirmed, step{silent: true}, false},
		"throttled":                         {delivery{}, none, Answer{Verdict: ddb.Throttled}, 0, ddb.Throttled, step{over: true}, false},
		"throttled after a lost try":        {delivery{}, lost, Answer{Verdict: ddb.Throttled}, 0, ddb.Throttled, step{}, false},
		"failed after a lost try":           {delivery{}, lost, Answer{Verdict: ddb.Failed}, 0, ddb.Unconfirmed, step{over: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.d
			if test.earlier.Err != nil {
				d.bookTry(test.earlier, 0)
				d.try++
			}
			a, then := d.bookTry(test.a, test.took)
			assert.Equal(t, test.verdict, a.Verdict)
			assert.Equal(t, test.then, then)
			assert.Equal(t, test.doubted, a.hidden > 0)
		})
	}
}

// Tries that got no answer land in any order, and other clients of the op slot may write in
// between: each of them but the one that is known, or told to the caller, may have landed too.
func TestTriesThatMayHaveLandedBesides(t *testing.T) {
	d := delivery{operation: 7, unanswered: 3, rule: schema.OpNotMine}
	for try := range 3 {
		image := &schema.Image{Op: schema.WriteIDOf(OpID(7, try))}
		assert.Equal(t, 2, d.recognise(Answer{Verdict: ddb.Refused, Image: image}).hidden)
		assert.Equal(t, 2, d.outcomeIn(image, nil).hidden)
	}
	assert.Equal(t, 3, d.recognise(Answer{Verdict: ddb.Refused}).hidden, "it is decided again")
	assert.Equal(t, 2, d.outcomeIn(nil, nil).hidden, "the caller is told of one")
	assert.Equal(t, 2, d.outcomeIn(nil, unconfirmed("read")).hidden)
	failed, _ := d.bookTry(Answer{Verdict: ddb.Failed}, 0)
	assert.Equal(t, 2, failed.hidden)
	landed, _ := d.bookTry(Answer{Verdict: ddb.Landed}, 0)
	assert.Equal(t, 3, landed.hidden)
	created := delivery{operation: 7, unanswered: 3, creates: true}
	assert.Zero(t, created.outcomeIn(nil, nil).hidden, "a bucket is made once")
	d.givesBack = true
	assert.Zero(t, d.outcomeIn(&schema.Image{Op: schema.WriteIDOf(OpID(7, 1))}, nil).hidden, "it lands once")
	ops := []*Op{NewTake(t.Context(), oneToken, rpmOf(100))}
	for _, verdict := range []ddb.Verdict{ddb.Landed, ddb.Unconfirmed} {
		s := judged(&decision{move: move{carried: ops}}, Answer{Verdict: verdict, hidden: 2})
		assert.Equal(t, []plan.Signed{{Name: "rpm", Amount: 2000}}, s.doubt)
	}
}

// rpm is an amount in tokens.
func rpm(tokens int64) []plan.Signed { return []plan.Signed{{Name: "rpm", Amount: tokens * token}} }

// What comes to nothing is not written.
func TestWhatComesToNothingIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t) // whose store knows no updates
		require.True(t, l.owner.Count(l, rpm(5), rpmOf(100)))
		require.True(t, l.owner.Count(l, rpm(-5), rpmOf(100)))
		l.owner.Flush(t.Context())
		buckets, _ := l.owner.SumPendingUpdates()
		assert.Zero(t, buckets)
	})
}

// Counts of what is lost or in doubt end at the largest number.
func TestUncertainAmountsDoNotWrap(t *testing.T) {
	var s tally
	for range 10_000 {
		s.Drop(rpm(1e12))
		s.Doubt(rpm(-1e12))
	}
	doubted, dropped := s.Uncertain()
	assert.Equal(t, int64(math.MaxInt64), dropped[0].Amount)
	assert.Equal(t, doubted, dropped)
}

// Give-backs to two incarnations of a bucket are two.
func TestGiveBacksOfTwoBucketsStayApart(t *testing.T) {
	w := &untold{}
	for _, incarnation := range []string{"a", "a", "b", "a"} {
		w.giveBack(back{amounts: rpm(1), incarnation: []byte(incarnation)})
	}
	assert.Equal(t, []back{{amounts: rpm(3), incarnation: []byte("a")}, {amounts: rpm(1), incarnation: []byte("b")}}, w.backs)
	assert.Equal(t, rpm(4), w.sizes())
	first := w.takePart()
	assert.Equal(t, rpm(3), first.amounts)
	assert.Equal(t, rpm(4), w.sizes(), "what is under way counts")
	w.restorePart(first)
	assert.Equal(t, rpm(4), w.sizes())
}

// What waits does not grow beyond what one write can carry: give-backs are written one after
// the other, and counts beyond are left.
func TestWhatWaitsStaysWithinOneWrite(t *testing.T) {
	w, left := &untold{}, int64(0)
	for range 600 {
		w.giveBack(back{amounts: rpm(mostTokens / token), incarnation: []byte("a")})
		for _, a := range w.addCounts(rpm(mostTokens / token)) {
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
			d.byKey[toldKey{BucketKey: BucketKey{"full", strconv.Itoa(i)}}] = &untold{}
		}
		require.True(t, l.owner.Count(l, rpm(2), rpmOf(100)))
		require.True(t, l.owner.Count(l, rpm(-1), rpmOf(100)))
		require.True(t, l.owner.GiveBackLater(l, rpm(3), l.Memory.sight.image.IncarnationID(), plan.Model{}, nil))
		_, dropped := l.owner.Uncertain()
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
			setState(opCarried, o)
			l.queue.ops = []*Op{o}
			l.GiveUp(o, silence(ErrTripped))
			require.True(t, o.Result.Pending)
			l.Follow(o)
			l.finishOps(&fates{again: []*Op{o}})
			_, known := o.Outcome()
			assert.True(t, known)
		}
		for _, w := range l.owner.told.byKey {
			assert.Equal(t, rpm(5), w.counts)
			assert.Equal(t, []back{{amounts: rpm(3), incarnation: []byte("a")}}, w.backs)
		}
		_, waiting := l.owner.SumPendingUpdates()
		assert.Equal(t, rpm(8), waiting)
	})
}
