package lane

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// trip is what a write takes.
const trip = 5 * time.Millisecond

// slow is a store that takes a trip to answer, and whose bucket is full each time.
type slow struct{ Store }

func (slow) Read(context.Context, schema.Item, *schema.LimitSet, int) (*schema.Image, error) {
	<-time.After(trip)
	return imageOf(rpmOf(100), 100*token, time.Now().UnixMilli()), nil
}

func (s slow) Update(ctx context.Context, k schema.Item, _ schema.Statement, set *schema.LimitSet, slot int) Answer {
	image, _ := s.Read(ctx, k, set, slot)
	return Answer{Verdict: ddb.Landed, Seen: true, Image: image}
}

// call makes a call of one token.
func call(t *testing.T, l *Lane) {
	t.Helper()
	o := NewTake(t.Context(), oneToken, rpmOf(100))
	l.Ask(t.Context(), o)
	<-o.Done
	assert.NoError(t, o.Result.Err)
}

// Callers who come back at once after an answer ride in one write, and wait for one round
// trip and not for two. They all stop at one instant: the lane waits for callers that stop before the others.
func TestCallersOfAClosedLoopRideTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, learnt = 8, 8
		l, start := restingOn(t, slow{}), time.Now()
		var carried []int
		l.owner.OnSend = func(_ *Lane, _ uint64, s plan.Rows) { carried = append(carried, int(s.At("rpm").Take/token)) }
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for began := start; began.Sub(start) < 20*trip; began = time.Now() {
					if call(t, l); began.Sub(start) > learnt*trip {
						assert.Equal(t, trip, time.Since(began), "a call after %v", began.Sub(start))
					}
					<-time.After(100 * time.Microsecond)
				}
			})
		}
		all.Wait()
		require.Greater(t, len(carried), 2*learnt)
		for i, n := range carried[learnt:] {
			assert.Equal(t, callers, n, "write %d", i+learnt)
		}
	})
}

// Callers who do not come back are not waited for: a write starts when the one before has
// been answered.
func TestNobodyIsWaitedForInAnOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := restingOn(t, slow{})
		var sent []time.Time
		l.owner.OnSend = func(*Lane, uint64, plan.Rows) { sent = append(sent, time.Now()) }
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() { call(t, l) })
			<-time.After(trip / 8)
		}
		all.Wait()
		require.Greater(t, len(sent), 20)
		for i := range sent[1:] {
			assert.Equal(t, trip, sent[i+1].Sub(sent[i]), "write %d", i+1)
		}
	})
}

// plays has answers given to writes that took a trip each and granted so many takes. After each
// but the last so many come as it says, and late so many more once they do not come at once.
func plays(g *gather, granted, late int, came ...int) {
	const atOnce = trip / atOncePart
	for i := range len(came) + 1 {
		g.noteStart(granted, time.Now())
		<-time.After(trip)
		for range granted {
			g.noteGrant()
		}
		if i == len(came) {
			return
		}
		<-time.After(atOnce - 1)
		for range came[i] {
			g.noteArrival(take())
		}
		<-time.After(1)
		for range late {
			g.noteArrival(take())
		}
	}
}

// It takes two answers whose callers came back at once, most of them, to wait for callers, and one
// or two whose did not to wait no more.
func TestTrustInCallersWhoComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		granted, late int
		came          []int
		waits         bool
	}{
		"nothing seen yet":                {8, 0, nil, false},
		"once":                            {8, 0, []int{8}, false},
		"twice":                           {8, 0, []int{8, 8}, true},
		"more than half":                  {8, 0, []int{5, 5}, true},
		"half":                            {8, 0, []int{4, 4}, false},
		"half, others late":               {8, 4, []int{4, 4}, false},
		"of two one":                      {2, 0, []int{1, 1, 1}, false},
		"single takes":                    {1, 0, []int{1, 1, 1}, false},
		"few, once":                       {8, 0, []int{8, 8, 8, 8, 8, 8, 1}, true},
		"few, twice":                      {8, 0, []int{8, 8, 8, 8, 8, 8, 1, 1}, false},
		"few, before there is much trust": {8, 0, []int{8, 8, 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g gather
				plays(&g, c.granted, c.late, c.came...)
				assert.Equal(t, c.waits, g.startWait(nil, time.Now()) != nil)
			})
		})
	}
}

// In an open loop as many takes are queued during a slow write as the quick one before it has
// granted: that shows nothing.
func TestSlowWriteAfterAQuickOneShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gather
		for range 3 {
			g.noteStart(2, time.Now())
			<-time.After(trip / 10)
			g.noteStart(2, time.Now())
			<-time.After(trip)
			g.noteGrant()
			g.noteGrant()
			<-time.After(trip / 10)
			g.noteArrival(take())
			g.noteArrival(take())
		}
		assert.Zero(t, g.trust)
	})
}

// trusting is a gather whose callers come back at once, after an answer of two grants.
func trusting() *gather {
	var g gather
	plays(&g, 2, 0, 2, 2)
	return &g
}

// take is a take of nothing.
func take() *Op { return NewTake(context.Background(), nil, nil) }

// One waits for as many takes as were granted, but holds up neither an adjust nor a take that
// was refused before or has little time left.
func TestWhoEndsTheWait(t *testing.T) {
	within := func(left time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), left)
		context.AfterFunc(ctx, cancel)
		return ctx
	}
	for name, c := range map[string]struct {
		op   func(o *Op)
		ends bool
	}{
		"a take":                   {func(*Op) {}, false},
		"in time for the store":    {func(o *Op) { o.Until = time.Now().Add(hurryTimes * trip) }, false},
		"late for the store":       {func(o *Op) { o.Until = time.Now().Add(hurryTimes*trip - 1) }, true},
		"a caller who has time":    {func(o *Op) { o.ctx = within(hurryTimes * trip) }, false},
		"a caller who has no time": {func(o *Op) { o.ctx = within(hurryTimes*trip - 1) }, true},
		"refused before":           {func(o *Op) { o.Refusals = 1 }, true},
		"an adjust":                {func(o *Op) { o.Take = false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, during, o := trusting(), trusting(), take()
				c.op(o)
				assert.Equal(t, c.ends, before.startWait([]*Op{o}, time.Now()) == nil, "one is there")
				all := during.startWait(nil, time.Now())
				during.noteArrival(o)
				assert.Equal(t, c.ends, closed(all), "one comes")
			})
		})
	}
}

// Once as many have come as were granted nobody is waited for.
func TestAllWhoWereGrantedAreBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := trusting()
		all := g.startWait(nil, time.Now())
		g.noteArrival(take())
		assert.False(t, closed(all))
		g.noteArrival(take())
		assert.True(t, closed(all))
		assert.True(t, closed(g.startWait(nil, time.Now())), "before one waited")
	})
}

// A wait ends once nobody comes, or it has lasted long enough. The processor is free meanwhile:
// time goes on only while every goroutine waits.
func TestWaitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		took, every, lasts time.Duration
	}{
		"nobody comes":       {trip, time.Hour, trip / quietPart},
		"one after another":  {trip, trip / quietPart / 2, trip / atOncePart},
		"one comes too late": {trip, trip/quietPart + 1, trip / quietPart},
		"a slow store":       {20 * time.Millisecond, time.Millisecond / 2, mostGather},
		"a slower one":       {time.Second, time.Hour, mostGather},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				g := gather{answered: now, watchEnds: now.Add(c.took / atOncePart), watched: true, took: c.took, granted: 100, trust: mostTrust}
				var mu sync.Mutex
				all := g.startWait(nil, now)
				var others sync.WaitGroup
				others.Go(func() {
					for range 20 {
						<-time.After(c.every)
						mu.Lock()
						g.noteArrival(take())
						mu.Unlock()
					}
				})
				g.wait(&mu, all)
				assert.Equal(t, c.lasts, time.Since(now))
				assert.True(t, closed(all))
				others.Wait()
			})
		})
	}
}

// A write that is paced starts in its turn, and a refused one at once.
func TestNobodyIsWaitedForAfterARefusalOrWhilePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := restingOn(t, slow{})
		x := l.extra.loadOrMake()
		x.gather = *trusting()
		waits := func() time.Duration {
			began := time.Now()
			x.gather.awaitCallers(&l.mu, &l.queue, x.pacer.Load() != nil)
			return time.Since(began)
		}
		assert.Equal(t, trip/quietPart, waits())
		x.pacer.Store(&pacer{})
		assert.Zero(t, waits(), "paced")
		x.pacer.Store(nil)
		x.gather.noteStart(2, time.Now())
		assert.Zero(t, waits(), "refused")
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A lane that is paced takes all that fits, although it was refused: it has few writes.
func TestPacedLaneTakesAllThatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cfg := resting(t), rpmOf(100)
		carried := func() int {
			l.queue.ops = []*Op{NewTake(t.Context(), rpm(20), cfg), NewTake(t.Context(), rpm(20), cfg)}
			l.Memory.learnt.halvings = 2
			turn := l.nextTurn(nil)
			turn.view = plan.View{Image: imageOf(cfg, 50*token, l.owner.NowMS()), Config: cfg, Now: l.owner.NowMS()}
			turn.chooseWrite()
			return len(turn.carried)
		}
		assert.Equal(t, 1, carried())
		throttle(l, false, time.Millisecond)
		assert.Equal(t, 2, carried())
		<-time.After(3 * time.Minute)
		assert.Equal(t, 1, carried(), "as ever when that is over")
		assert.Nil(t, l.extra.loadOrMake().pacer.Load())
	})
}

// Nothing leaves the queue before the lane's turn, whoever comes as the lane comes to rest.
func TestNothingIsTakenBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		throttle(l, false, time.Millisecond)
		l.queue.running = true
		l.owner.Started()
		turn, wait, _ := l.beginTurn(nil, false)
		assert.Zero(t, wait)
		assert.Nil(t, turn)
		assert.False(t, l.queue.running, "at rest at once: who comes next finds no goroutine that has seen no queue")

		o := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, rpmOf(100))
		l.queue.ops = []*Op{o}
		turn, wait, _ = l.beginTurn(nil, false)
		assert.Positive(t, wait)
		assert.Nil(t, turn)
		assert.EqualValues(t, opQueued, o.state.Load())
		<-time.After(wait)
		turn, wait, _ = l.beginTurn(nil, false)
		assert.Zero(t, wait)
		assert.Equal(t, []*Op{o}, turn.takes)
	})
}

// A process lists the hottest buckets, and those that are not paced any more no longer.
func TestHottest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resting(t).owner
		for i, trip := range []time.Duration{3 * time.Millisecond, 9 * time.Millisecond, time.Millisecond, 9 * time.Millisecond} {
			l := s.Of(string(rune('a'+i)), "m")
			throttle(l, false, trip)
		}
		read := s.Of("r", "m")
		throttle(read, true, 0)
		var names []string
		for _, p := range s.PacedBuckets(4) {
			names = append(names, p.Entity)
		}
		assert.Equal(t, []string{"b", "d", "a", "c"}, names, "the longest interval first, then by name")
		assert.True(t, s.PacedBuckets(5)[4].Reads)
		<-time.After(3 * time.Minute)
		assert.Empty(t, s.PacedBuckets(4))
		assert.Empty(t, s.paced.all(), "nothing is kept of them")
	})
}
