package lane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// What is left to a waiter is left by those who came later, not by those before.
func TestPromisesAreKeptByThoseWhoCameLater(t *testing.T) {
	r := plan.Reading{
		Image: &schema.Image{
			Set: schema.NewLimitSets().Of([]string{"rpm"}), HasRefilled: true,
			Limits: []schema.Stored{{Rate: bucket.Rate{Burst: 60_000, Amount: 60_000, Period: 60_000}}},
		},
	}
	l := &Line{waiters: []*Waiter{
		{Rank: 3, head: true, amounts: []plan.Signed{{Name: "rpm", Amount: 20_000}}},
		{Rank: 5, amounts: []plan.Signed{{Name: "rpm", Amount: 1000}}}, // stands behind: nothing is left to it
		{Rank: 7, head: true, amounts: []plan.Signed{{Name: "rpm", Amount: 30_000}}},
		{Rank: 8, head: true, served: true, amounts: []plan.Signed{{Name: "rpm", Amount: 7000}}},
	}}
	l.waited.Store(true)
	for rank, want := range map[uint64]int64{2: 0, 3: 0, 5: 20_000, 7: 20_000, 9: 50_000, LastRank: 50_000} {
		assert.Equal(t, want, l.LeftTo(rank, r).Of("rpm").Amount, "rank %d", rank)
	}
	all := l.LeftTo(LastRank, r).Of("rpm")
	assert.EqualValues(t, 0, all.After.Tokens)
	assert.EqualValues(t, 50_000, all.After.Refilled, "one after the other")
	assert.EqualValues(t, 60_000, all.Wait(r.Worth("rpm"), 0, 10_000), "10 more after the 50 fit a full bucket of 60")
	assert.EqualValues(t, 50_000+11_000, all.Wait(r.Worth("rpm"), 0, 11_000))
	assert.EqualValues(t, bucket.Never, all.Wait(r.Worth("rpm"), 0, 61_000))
}

// Between a waiter's grant and its return nobody takes what the next waits for.
func TestNextIsAtTheHeadOnceTheFirstIsServed(t *testing.T) {
	cfg := rpmOf(60)
	l := resting(t)
	first, second := NewWaiter(1, time.Now(), false), NewWaiter(2, time.Now(), false)
	for _, w := range []*Waiter{second, first} {
		LineOf(l, false).Join(w)
		LineOf(l, false).RecordDenial(w, []plan.Signed{{Name: "rpm", Amount: 5000}}, []string{"rpm"}, cfg)
	}
	require.Equal(t, []*Waiter{first, second}, LineOf(l, false).waiters, "by their arrival, not by when they changed lines")
	require.False(t, second.head)
	o := NewTake(t.Context(), first.amounts, cfg)
	o.Waiter = first
	endOps(l, Result{}, o)
	require.True(t, second.head)
	require.EqualValues(t, 5000, LineOf(l, false).LeftTo(LastRank, plan.Reading{Config: cfg}).Of("rpm").Amount)
}

// A try calls those behind that fit beside it, and nobody before: two would call each other without end while the bucket
// denies both.
func TestTriesCallThoseBehind(t *testing.T) {
	cfg, l := rpmOf(60), &Line{}
	line := make([]*Waiter, 3)
	for i := range line {
		line[i] = NewWaiter(uint64(i+1), time.Now(), false)
		l.Join(line[i])
		l.RecordDenial(line[i], oneToken, []string{"rpm"}, cfg)
	}
	require.Equal(t, []bool{true, false, false}, []bool{line[0].head, line[1].head, line[2].head})
	now := time.Now().UnixMilli()
	v := plan.View{Image: imageOf(cfg, 10_000, now), Config: cfg, Now: now}
	for i := range line { // tries of the head, and of those that it called
		l.callAlong(line[i], v)
		for k, w := range line {
			_, called := l.MayTry(w)
			assert.Equal(t, k > i, called, "try of %d calls %d", i, k)
		}
	}
}

// Who joins a line looks next of itself; woken, it would take what it was told for stale.
func TestWhoJoinsAtTheHeadIsNotWokenByIt(t *testing.T) {
	l := &Line{}
	first, second := NewWaiter(1, time.Now(), false), NewWaiter(2, time.Now(), false)
	for _, w := range []*Waiter{first, second} {
		l.Join(w)
		l.RecordDenial(w, oneToken, []string{"rpm"}, rpmOf(60))
		assert.Empty(t, w.Wake)
	}
	l.Quit(first)
	assert.Len(t, second.Wake, 1, "it is the head now")
}

// Where other processes compete, a try looks before it writes if its image is old, unless plenty is left: a lost look
// costs no write. It is a lost try of the waiters whom it denies.
func TestTriesThatLoseLookFirst(t *testing.T) {
	cfg, now := rpmOf(100), int64(100_000)
	take := NewTake(t.Context(), oneToken, cfg)
	take.Waiter = &Waiter{}
	for name, c := range map[string]struct {
		tokens, heard, shared, stale int64
		want                         bool
	}{
		"older than that": {0, now - 100, now, 100, true},
		"uncontended":     {0, now - 100, now, 0, false},
		"younger":         {0, now - 99, now, 100, false},
		"plenty is left":  {90 * token, now - 100, now, 100, false},
		"alone":           {0, now - 100, 0, 100, false},
		"an old image":    {0, now - 2*plan.MemoryMS, now, 0, true},
		"old, and plenty": {90 * token, now - 2*plan.MemoryMS, now, 100, false},
	} {
		s := sight{known: true, image: imageOf(cfg, c.tokens, c.heard), seenAt: c.heard, shared: c.shared}
		s.crowding.Heard = c.heard
		assert.Equal(t, c.want, s.isWary([]*Op{take}, c.stale, now), name)
	}
	image := imageOf(cfg, 0, now)
	look := func() *decision {
		return chosen(&decision{batch: batch{takes: []*Op{take}}, view: plan.View{Image: image, Config: cfg, Now: now}, known: sight{known: true, image: image, seenAt: now}, looked: true})
	}
	assert.Equal(t, []*Waiter{take.Waiter}, look().lost)
	take.Waiter = nil
	assert.Empty(t, look().lost, "who does not wait in line has no try")
}

// A call alone needs none of the parts that few buckets need, and leaves none.
func TestCallAloneMakesNoExtra(t *testing.T) {
	l := restingOn(t, slow{})
	call(t, l)
	assert.Nil(t, l.extra.Load())
	assert.Nil(t, l.Waiters(false))
	w := NewWaiter(1, time.Now(), false)
	line := LineOf(l, false)
	line.Join(w)
	assert.Same(t, line, l.Waiters(false))
	line.Quit(w)
	assert.Nil(t, l.Waiters(false))
	assert.Same(t, line, LineOf(l, false))
}

// A head that loses a try competes from then on: its next landed take leaves a note, and before that it raises the age
// if it lost again when it was old. Who comes along loses nothing.
func TestHeadThatLosesCompetes(t *testing.T) {
	cfg, now := rpmOf(60), int64(1_000_000)
	l := &Line{}
	first, second := NewWaiter(1, time.UnixMilli(now-10_000), false), NewWaiter(2, time.UnixMilli(now), false)
	for _, w := range []*Waiter{first, second} {
		l.Join(w)
		l.RecordDenial(w, oneToken, []string{"rpm"}, cfg)
	}
	image := imageOf(cfg, 0, now)
	leaves := func() bool {
		take := NewTake(t.Context(), oneToken, cfg)
		take.Waiter = first
		full := imageOf(cfg, 10*token, now)
		d := chosen(&decision{batch: batch{takes: []*Op{take}}, view: plan.View{Image: full, Config: cfg, Now: now}, known: sight{known: true, image: full, seenAt: now}, waiting: l.claims()})
		return d.write.DropNotes()
	}
	l.recordLoss([]*Waiter{second}, image, float64(now))
	assert.False(t, l.isContended(time.UnixMilli(now)), "it came along")
	assert.False(t, leaves())
	l.recordLoss([]*Waiter{second, first}, image, float64(now))
	assert.True(t, l.isContended(time.UnixMilli(now)))
	assert.Nil(t, l.takeNote(first))
	assert.True(t, leaves())
	l.recordLoss([]*Waiter{first}, image, float64(now))
	raise := l.takeNote(first)
	require.NotNil(t, raise)
	assert.InDelta(t, 10_000, raise.note.Age, 1)
	assert.Nil(t, raise.seen)
	l.recordWin(image, float64(now))
	l.recordLoss([]*Waiter{first}, image, float64(now))
	assert.Nil(t, l.takeNote(first), "the first loss since it won")
	l.muteNotes(float64(now))
	assert.False(t, leaves(), "the role may not write it")
	tries := []*Op{NewTake(t.Context(), oneToken, cfg)}
	assert.Zero(t, l.staleFor(tries, image, now), "it does not wait")
	tries[0].Waiter = second
	assert.EqualValues(t, 10, l.staleFor(tries, image, now), "three tries were lost of late")
}

// A caller goes on before its op ends, and waits in another bucket's line: the first lane's answer does not change it.
func TestWaiterInAnotherLineIsLeftAlone(t *testing.T) {
	cfg := rpmOf(100)
	first, other, w := new(Line), new(Line), NewWaiter(1, time.UnixMilli(0), false)
	for _, l := range []*Line{first, other} {
		l.Join(w)
		l.RecordDenial(w, oneToken, []string{"rpm"}, cfg)
		if l == first {
			l.Quit(w)
		}
	}
	require.True(t, w.head)
	w.try = plan.Try{At: 7}
	first.recordLoss([]*Waiter{w}, imageOf(cfg, 0, 1_000_000), 1_000_000)
	first.markServed(w)
	assert.Equal(t, plan.Try{At: 7}, w.try)
	assert.False(t, w.served)
	other.recordLoss([]*Waiter{w}, imageOf(cfg, 0, 1_000_000), 1_000_000)
	assert.NotEqual(t, plan.Try{At: 7}, w.try)
	other.markServed(w)
	assert.True(t, w.served)
}
