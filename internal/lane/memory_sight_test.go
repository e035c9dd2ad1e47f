package lane

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// What a lane notes of an answer: when it came, and how long it was under way.
func TestALaneHears(t *testing.T) {
	now := int64(1000)
	lanes, err := New(Options{Size: 10, Access: Access{NowMS: func() int64 { return now }, SureMS: func() int64 { return now }, Tick: func() int64 { return 1 }}})
	require.NoError(t, err)
	l := lanes.Of("shared", "gpt-4")
	l.Memory.learnRead(nil, Asked{At: 993})
	assert.Equal(t, plan.Crowding{Heard: 1000, Trip: 7}, l.Memory.sight.crowding)
	now = 1100
	l.Memory.Assume(nil, nil) // asked nobody
	assert.Equal(t, plan.Crowding{Heard: 1100, Trip: 7}, l.Memory.sight.crowding)
	l.Memory.sight.crowding.Refused = 9
	known := l.Memory.sight
	assert.Equal(t, plan.Crowding{Heard: 1100, Trip: 7, Refused: 9}, known.crowding)
}

// An answer to a request sent earlier does not replace a later one, whatever the clock said
// when they were sent.
func TestOlderAnswerDoesNotCorrect(t *testing.T) {
	now, tick := int64(100), int64(0)
	lanes, err := New(Options{Size: 1, Access: Access{Tick: func() int64 { tick++; return tick }, NowMS: func() int64 { return now }, SureMS: func() int64 { return now }}})
	require.NoError(t, err)
	l := lanes.Of("user-1", "gpt-4")
	newer, older := &schema.Image{Refilled: 2}, &schema.Image{Refilled: 1}
	early, late := l.owner.Ask(), l.owner.Ask()
	l.Memory.learnRead(newer, late)
	l.Memory.Observe(older, early)
	require.Same(t, newer, l.Memory.sight.image)
	now = 50 // the clock steps back
	l.Memory.Observe(older, l.owner.Ask())
	require.Same(t, older, l.Memory.sight.image)
	later := l.owner.Ask()
	now = 500
	l.Memory.Assume(older, newer)
	l.Memory.Observe(older, early)
	require.Same(t, newer, l.Memory.sight.image, "what a transaction left is later than what was seen before it")
	l.Memory.Observe(older, later)
	require.Same(t, older, l.Memory.sight.image)
}

// What others see does not change what a running lane decides from.
func TestRunningLaneSeesByItself(t *testing.T) {
	l := resting(t)
	seen := func() *schema.Image { return &schema.Image{Refilled: 1} }
	l.queue.running = true
	l.Memory.Seed(seen(), l.owner.Ask())
	assert.False(t, l.Memory.sight.known)
	l.Memory.learnRead(nil, l.owner.Ask())
	l.Memory.Observe(seen(), l.owner.Ask())
	l.Memory.Assume(nil, seen())
	l.Memory.Drop()
	assert.Nil(t, l.Memory.sight.image)
	assert.True(t, l.Memory.sight.known)
	l.queue.running = false
	l.Memory.Observe(seen(), l.owner.Ask())
	assert.NotNil(t, l.Memory.sight.image)
}

// An image that was forgotten, because a write got no answer or the bucket may be another,
// decides nothing, and nobody is taken for another writer who is not one.
func TestForgottenImageDecidesNothing(t *testing.T) {
	l, cfg := resting(t), rpmOf(100)
	now := l.owner.NowMS()
	before := imageOf(cfg, 0, now)
	l.Memory.learnRead(before, l.owner.Ask())
	l.Memory.sight.shared, l.Memory.sight.scarce = now, true
	first := l.Memory.sight.seenTick
	require.True(t, l.Memory.sight.isCurrent(cfg))
	require.True(t, l.Memory.sight.isWary([]*Op{NewTake(t.Context(), oneToken, cfg)}, 0, now+2*plan.MemoryMS))
	l.Memory.Drop()
	assert.False(t, l.Memory.sight.isCurrent(cfg))
	assert.False(t, l.Memory.sight.isWary([]*Op{NewTake(t.Context(), oneToken, cfg)}, 0, now+2*plan.MemoryMS))
	l.Memory.sight.shared = 0
	after := imageOf(cfg, 50*token, now)
	after.Set, after.Limits[0].Consumed = before.Set, 5*token
	l.Memory.learnRead(after, l.owner.Ask())
	assert.Zero(t, l.Memory.sight.shared)
	assert.NotEqual(t, first, l.Memory.sight.seenTick, "since when its limits stand there is not known")
}

// What a landed write took was taken by this process; what a refused one would have taken
// was taken by another, even if the amounts are the same.
func TestRefusedWriteTookNothing(t *testing.T) {
	for _, verdict := range []ddb.Verdict{ddb.Landed, ddb.Refused} {
		l, cfg := resting(t), rpmOf(100)
		before := imageOf(cfg, 50*token, l.owner.NowMS())
		l.Memory.learnRead(before, l.owner.Ask())
		after := imageOf(cfg, 49*token, l.owner.NowMS())
		after.Set, after.Limits[0].Consumed = before.Set, token
		take := NewTake(t.Context(), oneToken, cfg)
		ours := plan.Rows(nil).With(&take.Ask)
		take.AddTo(ours)
		w := turnOf(l, plan.View{Config: cfg}, NewTake(t.Context(), oneToken, cfg))
		w.write.Kind, w.rows = plan.GiveBack, ours
		l.recordAnswer(w, Answer{Verdict: verdict, Seen: true, Image: after})
		assert.Equal(t, verdict == ddb.Refused, l.Memory.sight.shared != 0, verdict)
	}
}

// A bucket of which nobody refused anything costs a write no garbage.
func TestLearningOfNobodyMakesNoGarbage(t *testing.T) {
	cfg := rpmOf(100)
	image := imageOf(cfg, 50*token, 0)
	v := plan.View{Image: image, Config: cfg}
	take := NewTake(t.Context(), oneToken, cfg)
	ours := plan.Rows(nil).With(&take.Ask)
	take.AddTo(ours)
	w, s := v.Plan(ours, plan.Rules{}), sight{}
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.learnCrowding(&w, true, image, 0) }))
}

// A read that was sent before the bucket was filled by hand shows it as it was: it denies
// nobody afterwards.
func TestReadFromBeforeARefillIsLate(t *testing.T) {
	l, cfg := resting(t), rpmOf(60)
	before := l.owner.Ask()
	l.Memory.MarkRefilled()
	l.Memory.Observe(imageOf(cfg, 0, l.owner.NowMS()), before)
	assert.False(t, l.Memory.sight.known && l.Memory.sight.fresh(l.owner.NowMS()))
	l.Memory.Observe(imageOf(cfg, 60_000, l.owner.NowMS()), l.owner.Ask())
	assert.True(t, l.Memory.sight.fresh(l.owner.NowMS()))
}

// Whoever disowns a take whose outcome has come already has it given back.
func TestOutcomeThatCameFirstIsLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		take := NewTake(t.Context(), oneToken, rpmOf(100))
		setState(opCarried, take)
		l.queue.ops = []*Op{take}
		l.GiveUp(take, silence(ErrTripped))
		require.True(t, take.Result.Pending)
		endOps(l, Result{Unconfirmed: true, Err: ErrTripped}, take)
		l.Follow(take)
		doubted, _ := l.owner.Uncertain()
		assert.Equal(t, oneToken, doubted)
		_, waiting := l.owner.SumPendingUpdates()
		assert.Empty(t, waiting)
	})
}

// An op of which the write under way carries nothing is surely not written.
func TestGivingUpWhatAWriteDoesNotCarryLeavesNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resting(t)
		take := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: token}}, rpmOf(100))
		setState(opCarried, take)
		l.queue.ops = []*Op{take}
		take.notCarried.Store(true)
		l.GiveUp(take, silence(ErrTripped))
		assert.False(t, take.Result.Pending)
		assert.False(t, take.Result.Unconfirmed)
		assert.ErrorIs(t, take.Result.Err, fault.ErrUnavailable)
		l.finishOps(&fates{again: []*Op{take}})
		assert.Empty(t, l.queue.ops)
	})
}

// A bucket is quiet since it was last heard, and not while nothing is asked of it.
func TestContactIsQuietWhileItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := Contact{table: &answers}, time.Now()
		<-time.After(time.Second)
		assert.Equal(t, time.Second, c.Quiet(began))
		c.NoteAnswer()
		<-time.After(300 * time.Millisecond)
		assert.Equal(t, 300*time.Millisecond, c.Quiet(began))
		c.Suspect()
		c.pause(paced)
		<-time.After(time.Second)
		assert.Zero(t, c.Quiet(began), "it waits for its turn")
		c.pause(parked)
		assert.Equal(t, 1300*time.Millisecond, c.Quiet(began), "the table is silent too")
		var heard Table = answering{last: time.Now().Add(-200 * time.Millisecond)}
		c.table = &heard
		assert.Equal(t, 200*time.Millisecond, c.Quiet(began))
		c.resume()
		assert.Equal(t, 200*time.Millisecond, c.Quiet(began))
		c.pause(paced)
		c.resume()
		<-time.After(100 * time.Millisecond)
		assert.Equal(t, 100*time.Millisecond, c.Quiet(began))
		assert.True(t, c.Suspected(), "a turn is no answer")
	})
}

// Who waits for a silent bucket goes on when it answers again, or the limiter is closed.
func TestContactIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Contact{table: &answers}
		assert.True(t, c.await(t.Context()), "it answers")
		assert.Nil(t, c.Back())
		c.Suspect()
		c.lose()
		assert.True(t, c.Away())
		assert.False(t, c.Suspected(), "it is known now")
		back := c.Back()
		go func() { <-time.After(time.Second); c.regain() }()
		assert.True(t, c.await(t.Context()))
		<-back
		assert.False(t, c.Away())
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
