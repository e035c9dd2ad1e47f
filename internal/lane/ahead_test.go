package lane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/prefetch"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// holding is a lane that holds n tokens debited ahead just now, for a second.
func holding(t *testing.T, n int64) (*Lane, *plan.Config) {
	t.Helper()
	l, cfg := resting(t), rpmOf(100)
	l.Memory.sight.known, l.Memory.sight.image = true, imageOf(cfg, 90*token, l.owner.NowMS())
	l.owner.startPrefetch(l, time.Second)
	AheadOf(l).bookOutcome(&Op{Ask: plan.Ask{Amounts: []plan.Signed{{Name: "rpm", Amount: n * token}}}, debited: l.owner.elapsed()}, Result{Image: l.Memory.sight.image, Config: cfg})
	return l, cfg
}

// held is what the lane holds of rpm.
func held(l *Lane) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return AheadOf(l).stock.parcels.Held("rpm")
}

func TestNoHorizonHoldsNothing(t *testing.T) {
	l := resting(t)
	l.owner.Horizon = func(string) time.Duration { return 0 }
	assert.Nil(t, AheadOf(l.owner.Of("user-2", "gpt-4")))
}

// What a denied call puts back is as old as it was.
func TestPutBackKeepsItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := holding(t, 2)
		<-time.After(900 * time.Millisecond)
		r, sent, ok := AheadOf(l).Serve(t.Context(), oneToken, cfg)
		require.True(t, ok)
		assert.Same(t, l.Memory.sight.image, r.Image)
		AheadOf(l).PutBack(t.Context(), oneToken, plan.Reading{Image: r.Image, Config: cfg}, sent)
		assert.EqualValues(t, 2*token, held(l))
		<-time.After(102 * time.Millisecond)
		_, _, ok = AheadOf(l).Serve(t.Context(), oneToken, cfg)
		assert.False(t, ok)
		assert.Zero(t, held(l))
		AheadOf(l).lapseAll()
	})
}

// Nobody is served while others wait in line, under limits of his own, or of another
// bucket than there is; only the last loses what is held.
func TestServesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := holding(t, 2)
		own := rpmOf(200)
		own.Override = true
		_, _, ok := AheadOf(l).Serve(t.Context(), oneToken, own)
		assert.False(t, ok)
		assert.EqualValues(t, 2*token, held(l))

		w := NewWaiter(1, time.Now(), false)
		LineOf(l, false).Join(w)
		_, _, ok = AheadOf(l).Serve(t.Context(), oneToken, cfg)
		assert.False(t, ok)
		LineOf(l, false).Quit(w)
		_, _, ok = AheadOf(l).Serve(t.Context(), oneToken, cfg)
		assert.True(t, ok)

		other := *l.Memory.sight.image
		other.Incarnation = []byte("another")
		l.Memory.sight.image = &other
		_, _, ok = AheadOf(l).Serve(t.Context(), oneToken, cfg)
		assert.False(t, ok)
		assert.False(t, AheadOf(l).stock.parcels.HasTokens())
		assert.Nil(t, AheadOf(l).lapsedOp(), "with the bucket its counter is gone")
		AheadOf(l).lapseOld()
	})
}

func TestDebitAheadOfWhichNobodyKnowsIsInDoubt(t *testing.T) {
	l := resting(t)
	l.owner.startPrefetch(l, time.Second)
	AheadOf(l).stock.fetching = true
	AheadOf(l).bookOutcome(&Op{Ask: plan.Ask{Amounts: oneToken}}, Result{Unconfirmed: true, Err: ErrTripped})
	assert.False(t, AheadOf(l).stock.parcels.HasTokens())
	assert.False(t, AheadOf(l).stock.fetching)
	doubted, _ := l.owner.Uncertain()
	assert.Equal(t, map[string]int64{"rpm": 1}, plan.Tokens(doubted))
}

// The callers of a refused write are decided again; what it debited ahead is not.
func TestRefusedWriteGoesAgainWithoutDebitingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := resting(t), rpmOf(100)
		image := imageOf(cfg, 90*token, l.owner.NowMS())
		take := NewTake(t.Context(), oneToken, cfg)
		ahead := &Op{ctx: t.Context(), Ask: plan.Ask{Take: true, Amounts: oneToken, Prefetch: true}, cfg: cfg, Rank: LastRank, onOutcome: func(Result) {}}
		setState(opCarried, take, ahead)
		l.queue.ops = []*Op{take, ahead}
		l.recordAnswer(turnOf(l, plan.View{Image: image, Config: cfg, Now: l.owner.NowMS()}, l.queue.ops...), Answer{Verdict: ddb.Refused, Seen: true, Image: image})
		assert.Equal(t, []*Op{take}, l.queue.ops)
	})
}

// A throttled debit ahead is dropped, and does not keep later ones from being made.
func TestThrottledDebitAheadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := holding(t, 2)
		AheadOf(l).stock.fetching, l.owner.Patience = true, time.Second
		take, ahead := NewTake(t.Context(), oneToken, cfg), NewTake(t.Context(), oneToken, cfg)
		ahead.Prefetch = true
		ahead.abandoned.Store(true)
		ahead.onOutcome = func(r Result) { AheadOf(l).bookOutcome(ahead, r) }
		setState(opCarried, take, ahead)
		l.queue.ops = []*Op{take, ahead}
		l.recordAnswer(turnOf(l, plan.View{Image: l.Memory.sight.image, Config: cfg, Now: l.owner.NowMS()}, take, ahead), Answer{Verdict: ddb.Throttled, Err: ErrTripped})
		assert.Equal(t, []*Op{take}, l.queue.ops)
		assert.False(t, AheadOf(l).stock.fetching)
		AheadOf(l).lapseAll()
	})
}

// While the bucket has to be read again nobody is served, and nothing is lost.
func TestHeldWhileTheBucketIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := holding(t, 2)
		l.Memory.Drop()
		_, _, ok := AheadOf(l).Serve(t.Context(), oneToken, cfg)
		assert.False(t, ok)
		assert.EqualValues(t, 2*token, held(l))
		AheadOf(l).stock.parcels.LapseAll()
		assert.NotNil(t, AheadOf(l).lapsedOp(), "its counter is there, for all that is known")
		AheadOf(l).lapseOld()
	})
}

// What a closed limiter's call puts back, or a debit brings, lapses at once.
func TestNothingIsHeldAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := holding(t, 2)
		r, sent, ok := AheadOf(l).Serve(t.Context(), oneToken, cfg)
		require.True(t, ok)
		store := &takesOff{image: l.Memory.sight.image}
		l.owner.Store = store
		l.owner.Flush(t.Context())
		require.NoError(t, l.owner.Drain(t.Context()))
		AheadOf(l).PutBack(t.Context(), oneToken, plan.Reading{Image: r.Image, Config: cfg}, sent)
		require.NoError(t, l.owner.Drain(t.Context()))
		assert.False(t, AheadOf(l).stock.parcels.HasTokens())
		assert.Nil(t, AheadOf(l).stock.timer)
		assert.Equal(t, 2, store.updates)
	})
}

// takesOff is a store whose every update lands.
type takesOff struct {
	Store
	image   *schema.Image
	updates int
}

func (s *takesOff) Update(context.Context, schema.Item, schema.Statement, *schema.LimitSet, int) Answer {
	s.updates++
	return Answer{Verdict: ddb.Landed, Seen: true, Image: s.image}
}

// What could not be taken off the counter is kept for the bucket it was debited from,
// and no other; of a closed limiter it is in doubt.
func TestWhatIsNotTakenOffIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := holding(t, 2)
		failed := Result{Err: ErrTripped}
		lapse := func() *Op {
			AheadOf(l).stock.parcels.LapseAll()
			o := AheadOf(l).lapsedOp()
			require.NotNil(t, o)
			return o
		}
		o := lapse()
		o.onOutcome(failed)
		assert.True(t, AheadOf(l).stock.parcels.HasLapsed())
		again := lapse()
		AheadOf(l).stock.debited = &schema.Image{Incarnation: []byte("another")}
		again.onOutcome(failed)
		assert.False(t, AheadOf(l).stock.parcels.HasLapsed(), "the counter of another bucket knows nothing of it")
		AheadOf(l).stock.debited = nil
		l.owner.aheads.closed.Store(true)
		o.onOutcome(failed)
		assert.False(t, AheadOf(l).stock.parcels.HasLapsed())
		doubted, _ := l.owner.Uncertain()
		assert.Equal(t, map[string]int64{"rpm": 2}, plan.Tokens(doubted))
		AheadOf(l).lapseAll()
	})
}

// A correction of the counter of which nobody knows whether it landed is not made again:
// what it was to take off stays consumed, and is told as in doubt.
func TestCorrectionInDoubtIsNotMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := holding(t, 2)
		l.mu.Lock()
		AheadOf(l).stock.parcels.LapseAll()
		o := AheadOf(l).lapsedOp()
		l.mu.Unlock()
		require.NotNil(t, o)
		o.onOutcome(Result{Err: ErrTripped, Unconfirmed: true})
		assert.False(t, AheadOf(l).stock.parcels.HasLapsed())
		doubted, _ := l.owner.Uncertain()
		assert.Equal(t, map[string]int64{"rpm": 2}, plan.Tokens(doubted))
		o.onOutcome(Result{Err: ErrTripped})
		assert.True(t, AheadOf(l).stock.parcels.HasLapsed(), "what surely was not taken off is kept for the next write")
		AheadOf(l).lapseAll()
	})
}

// Denies denies where Recall does, but beside those who stand in line, and leaves the lane as
// Recall does.
func TestDeniesAsRecallDoes(t *testing.T) {
	const age, more = 300, 7 * token
	for what, make := range map[string]func(l *Lane, cfg *plan.Config){
		"an image":          func(*Lane, *plan.Config) {},
		"none":              func(l *Lane, _ *plan.Config) { l.Memory.sight.image = nil },
		"unknown":           func(l *Lane, _ *plan.Config) { l.Memory.sight.known = false },
		"an old one":        func(l *Lane, _ *plan.Config) { l.Memory.sight.seenAt -= 1000 },
		"one of the future": func(l *Lane, _ *plan.Config) { l.Memory.sight.seenAt += 1000 },
		"of other limits":   func(l *Lane, cfg *plan.Config) { l.Memory.sight.image = imageOf(rpmOf(99), 0, time.Now().UnixMilli()) },
		"of a ghost":        func(l *Lane, _ *plan.Config) { l.Memory.sight.image.Limits[0].Ghost = true },
		"filled meanwhile":  func(l *Lane, _ *plan.Config) { l.Memory.sight.refilled = true },
		"beside a give-back": func(l *Lane, cfg *plan.Config) {
			l.queue.ops = append(l.queue.ops, NewAdjust(context.Background(), plan.Negated(oneToken), nil, cfg))
		},
		"beside other takes": func(l *Lane, cfg *plan.Config) {
			l.queue.ops = append(l.queue.ops, NewTake(context.Background(), oneToken, cfg))
		},
		"with somebody before": func(l *Lane, _ *plan.Config) { LineOf(l, false).Join(NewWaiter(1, time.Now(), false)) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, cfg := resting(t), rpmOf(60)
				now := time.Now().UnixMilli()
				l.Memory.sight.known, l.Memory.sight.image, l.Memory.sight.seenAt = true, imageOf(cfg, more-300, now), now-age
				make(l, cfg)
				var last plan.Denial
				for _, asked := range []int64{more - 301, more - 300, more - 299, more, 60 * token, 61 * token} {
					l.Memory.sight.scarce = false
					r, ok := l.Memory.Recall([]plan.Signed{{Name: "rpm", Amount: asked}}, cfg, Caller{Rank: LastRank}, now)
					scarce := l.Memory.sight.scarce
					l.Memory.sight.scarce = false
					image, ahead := l.Memory.Denies(&plan.Needs{asked}, cfg, &last, now)
					if what == "with somebody before" {
						require.Nil(t, image)
						continue
					}
					require.Equal(t, ok && r.Denied, image != nil, asked)
					assert.Equal(t, scarce, l.Memory.sight.scarce)
					if image != nil {
						assert.Same(t, r.Image, image)
						assert.Equal(t, image.State(0).Outlook(now, asked), ahead[0])
					}
				}
				l.queue.ops = nil
			})
		})
	}
}

// What is put back after the limits have changed lapses; after the bucket is gone,
// nothing is left of it.
func TestPutBackOfAnotherTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := holding(t, 2)
		r, sent, ok := AheadOf(l).Serve(t.Context(), oneToken, cfg)
		require.True(t, ok)
		AheadOf(l).PutBack(t.Context(), oneToken, plan.Reading{Image: r.Image, Config: rpmOf(50)}, sent)
		assert.EqualValues(t, token, held(l))
		assert.Equal(t, oneToken, AheadOf(l).stock.parcels.TakeLapsed())
		other := *r.Image
		other.Incarnation = []byte("another")
		AheadOf(l).PutBack(t.Context(), oneToken, plan.Reading{Image: &other, Config: cfg}, sent)
		assert.EqualValues(t, token, held(l))
		assert.Empty(t, AheadOf(l).stock.parcels.TakeLapsed())
		AheadOf(l).stock.parcels = prefetch.New(1)
	})
}
