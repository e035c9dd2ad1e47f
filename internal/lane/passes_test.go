package lane

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// The lane with the shortest rest is admitted first, others in the order of their arrival. A lane that is due goes
// before any later one.
func TestPassesGoToTheLaneThatRestedLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ran, holder := NewPasses(1), make(chan string, 10), "first"
		require.True(t, p.takePass(holder))
		park := func(name string, rest time.Duration) {
			granted := p.parkLane(name, time.Now().Add(-rest))
			go func() {
				<-granted
				ran <- name
			}()
		}
		next := func() string {
			p.returnPass(holder, true)
			holder = <-ran
			return holder
		}
		for _, c := range []struct {
			name string
			rest time.Duration
		}{{"long 1", time.Hour}, {"long 2", mostDue}, {"60 ms", 60 * time.Millisecond}, {"5 ms", 5 * time.Millisecond}, {"1 ms", time.Millisecond}} {
			park(c.name, c.rest)
			<-time.After(time.Millisecond)
		}
		order := []string{next(), next(), next(), next(), next()}
		assert.Equal(t, []string{"1 ms", "5 ms", "60 ms", "long 1", "long 2"}, order)

		park("long 3", time.Hour)
		for busy := range mostDue / (10 * time.Millisecond) {
			park(fmt.Sprint("busy ", busy), 0)
			assert.Equal(t, fmt.Sprint("busy ", busy), next())
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(time.Millisecond)
		park("last", 0)
		assert.Equal(t, []string{"long 3", "last"}, []string{next(), next()})

		park("a", 0)
		park("b", 0)
		park("c", 0)
		assert.Equal(t, []string{"a", "b", "c"}, []string{next(), next(), next()})
	})
}

// A new caller does not take the pass that a parked lane waits for.
func TestParkedLanesGoBeforeNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPasses(1)
		require.True(t, p.takePass("hung"))
		granted := p.parkLane("parked", time.Time{})
		p.timer.Stop() // a busy machine is late
		<-time.After(heldFor)
		require.False(t, p.takePass("new"))
		p.parkLane("new", time.Now().Add(-time.Second))
		<-granted
	})
}

// A turn that lasts longer than heldFor does not keep others waiting.
func TestLateTurnsKeepNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPasses(2)
		require.True(t, p.takePass("hung"))
		<-time.After(heldFor / 2)
		require.True(t, p.takePass("other"))
		began := time.Now()
		one, two := p.parkLane("one", time.Time{}), p.parkLane("two", time.Time{})
		<-one
		assert.Equal(t, heldFor/2, time.Since(began))
		<-two
		assert.Equal(t, heldFor, time.Since(began))
		for _, l := range []string{"hung", "other", "one", "two"} {
			p.returnPass(l, true)
		}
		assert.True(t, p.takePass("one"))
		assert.Len(t, p.held, 1)
		assert.Zero(t, p.late)
	})
}

// The bound rises while turns take their usual time, and falls to the fewest while they are slower.
func TestBoundFollowsTheTimeOfTurns(t *testing.T) {
	const usual = 5 * time.Millisecond
	b := bound{fewest: 8}
	for _, c := range []struct {
		turns int
		took  time.Duration
		among int
		most  int
	}{
		{320, usual, 8, 18},
		{320, usual, 18, 28},
		{40, 2 * usual, 28, 23}, // a turn among many does not change the usual time
		{160, 2 * usual, 23, 8},
		{10, 2 * usual, 8, 8}, // still slower than usual
		{320, 2 * usual, 8, 18},
	} {
		for range c.turns {
			b.learnTurn(c.took, c.among)
		}
		assert.Equal(t, c.most, b.most(), "%+v", c)
	}
}

// plannedTurn is a turn of a history: its pause after the one before, the rest of its lane, and its length.
type plannedTurn struct{ pause, rest, took time.Duration }

func drawTurn(r *rapid.T) plannedTurn {
	ms := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(r, name)) * time.Millisecond
	}
	return plannedTurn{ms("pause", 10), ms("rest", 100), ms("took", 80)}
}

// In any history every lane runs in the end, and no pass is lost or held twice.
func TestEveryLaneGetsAPass(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		fewest := rapid.IntRange(1, 4).Draw(r, "fewest")
		turns := rapid.SliceOfN(rapid.Custom(drawTurn), 1, 30).Draw(r, "turns")
		synctest.Test(t, func(t *testing.T) {
			p := NewPasses(fewest)
			var all sync.WaitGroup
			for _, next := range turns {
				<-time.After(next.pause)
				all.Go(func() {
					l := new(Lane)
					if !p.takePass(l) {
						<-p.parkLane(l, time.Now().Add(-next.rest))
					}
					p.mu.Lock()
					assert.LessOrEqual(t, len(p.held)-p.late, fewest+int(boundStep*float64(len(turns))))
					p.mu.Unlock()
					<-time.After(next.took)
					p.returnPass(l, true)
				})
			}
			all.Wait()
			require.Empty(t, p.held)
			require.Empty(t, p.parked)
			require.Zero(t, p.late)
		})
	})
}

// Callers of parked lanes gather, and ride in one write. Others leave when their contexts end. The time without a
// request is no silence of the bucket.
func TestCallersOfParkedLanesGatherOrLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := restingOn(t, slow{})
		l.owner.Passes = NewPasses(1)
		l.owner.Table = answering{last: time.Now().Add(trip)} // it answers the other lane
		other, left := l.owner.Of("user-2", "gpt-4"), l.owner.Of("user-3", "gpt-4")
		var all sync.WaitGroup
		began := time.Now()
		all.Go(func() { call(t, other) }) // a read and a write
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), trip)
		defer cancel()
		o := NewTake(ctx, oneToken, rpmOf(100))
		all.Go(func() { left.Ask(ctx, o) })
		for range 3 {
			all.Go(func() { call(t, l) })
		}
		<-ctx.Done()
		_, answered := left.Leave(o)
		assert.False(t, answered)
		assert.Equal(t, trip, time.Since(began))
		assert.Zero(t, l.Contact.Quiet(began))
		all.Wait()
		assert.Equal(t, 4*trip, time.Since(began), "the lane that was left uses no pass")
		synctest.Wait()
		assert.Empty(t, l.owner.Passes.held)
	})
}

// A caller of a parked lane comes back to look at its time, although the lane has no pass yet.
func TestCallersAwaitPassesForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := restingOn(t, slow{})
		l.owner.Passes = NewPasses(1)
		p := l.owner.Passes
		require.True(t, p.takePass("0"))
		var others []<-chan struct{}
		for i := range 10 {
			others = append(others, p.parkLane(fmt.Sprint(i+1), time.Time{}))
		}
		began, o := time.Now(), NewTake(t.Context(), oneToken, rpmOf(100))
		returned := make(chan time.Duration, 1)
		go func() {
			l.Ask(t.Context(), o)
			returned <- time.Since(began)
		}()
		for i, granted := range others {
			<-time.After(heldFor - 1)
			p.returnPass(fmt.Sprint(i), true)
			<-granted
		}
		p.returnPass(fmt.Sprint(len(others)), true)
		<-o.Done
		require.NoError(t, o.Result.Err)
		assert.Equal(t, mostDue, <-returned)
	})
}

// The caller of a parked lane comes back at the end of its time for the store, and when the table is known not to answer.
func TestCallersAwaitPassesUntilTheirTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := restingOn(t, slow{})
		p := NewPasses(1)
		l.owner.Passes = p
		require.True(t, p.takePass("0"))
		p.parkLane("1", time.Time{})
		p.parkLane("2", time.Time{})
		began, o := time.Now(), NewTake(t.Context(), oneToken, rpmOf(100))
		o.Until = began.Add(heldFor + 1)
		l.Ask(t.Context(), o)
		assert.Equal(t, heldFor+1, time.Since(began))

		opened := make(chan struct{})
		l.owner.Table = answering{opened: opened}
		other := l.owner.Of("user-2", "gpt-4")
		time.AfterFunc(1, func() { close(opened) })
		began, next := time.Now(), NewTake(t.Context(), oneToken, rpmOf(100))
		other.Ask(t.Context(), next)
		assert.Equal(t, time.Duration(1), time.Since(began))
		<-o.Done
		<-next.Done
	})
}

// A turn that sends no write says nothing about the time of writes.
func TestDenialsTeachNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := restingOn(t, slow{})
		l.owner.Passes = NewPasses(1)
		denied := NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 101 * token}}, rpmOf(100))
		go l.Ask(t.Context(), denied)
		synctest.Wait()
		call(t, l.owner.Of("user-2", "gpt-4"))
		assert.True(t, denied.Result.Denied)
		assert.Equal(t, bound{fewest: 1}, l.owner.Passes.bound)
	})
}

// A turn that ends its goroutine returns its pass.
func TestTurnsThatDoNotReturnHoldNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := restingOn(t, slow{})
		l.owner.OnSend = func(*Lane, uint64, plan.Rows) { runtime.Goexit() }
		o := NewTake(t.Context(), oneToken, rpmOf(100))
		go l.Ask(t.Context(), o)
		<-o.Done
		require.Error(t, o.Result.Err)
		synctest.Wait()
		assert.Empty(t, l.owner.Passes.held)
	})
}
