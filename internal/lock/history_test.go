package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// plot is what one holder does, and what happens to its requests, in their order.
type plot struct {
	Off    time.Duration // of its clock
	Begins time.Duration
	Works  []time.Duration
	Dies   time.Duration // from then on nothing is heard of it; 0: never
	Faults []string
}

func plots(rt *rapid.T) []plot {
	seconds := func(most int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(0, most*10), func(n int) time.Duration { return time.Duration(n) * 100 * time.Millisecond })
	}
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) plot {
		return plot{
			Off:    seconds(5).Draw(rt, "off") - Margin/2,
			Begins: seconds(20).Draw(rt, "begins"),
			Works:  rapid.SliceOfN(seconds(30), 1, 3).Draw(rt, "works"),
			Dies:   rapid.SampledFrom([]time.Duration{0, 0, 7 * time.Second, 25 * time.Second}).Draw(rt, "dies"),
			Faults: rapid.SliceOfN(rapid.SampledFrom([]string{"", "", "", "drop", "lose", "late", "before", "after", "hang"}), 1, 25).Draw(rt, "faults"),
		}
	}), 2, 4).Draw(rt, "holders")
}

// fault is what happens to the nth request.
func (p plot) fault(n int, age time.Duration) ddbmem.Fault {
	if p.Dies > 0 && age > p.Dies {
		return ddbmem.Fault{Drop: true}
	}
	switch p.Faults[n%len(p.Faults)] {
	case "drop":
		return ddbmem.Fault{Drop: true}
	case "lose":
		return ddbmem.Fault{Lose: true}
	case "late":
		late := make(chan struct{})
		time.AfterFunc(time.Duration(n%13)*time.Second, func() { close(late) })
		return ddbmem.Fault{Late: late}
	case "before":
		return ddbmem.Fault{Before: time.Duration(n%7) * time.Second}
	case "after":
		return ddbmem.Fault{After: time.Duration(n%7) * time.Second}
	case "hang":
		return ddbmem.Fault{Before: time.Duration(n%5) * 5 * time.Second, After: time.Duration(n%3) * 5 * time.Second}
	}
	return ddbmem.Fault{}
}

// alone is when somebody was alone, by true time.
type alone struct {
	who      int
	from, to time.Time
}

// play lets all of them try, and returns when each was alone.
func play(t *testing.T, holders []plot) (seen []alone) {
	t.Helper()
	inBubble(t, func(t *testing.T, r *room) {
		began := time.Now()
		var mu sync.Mutex
		count := map[any]int{}
		r.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			who, ok := q.Context.Value(caller{}).(int)
			if !ok {
				return ddbmem.Fault{}
			}
			mu.Lock()
			defer mu.Unlock()
			count[who]++
			return holders[who].fault(count[who], time.Since(began))
		})
		var all sync.WaitGroup
		for who, p := range holders {
			all.Go(func() {
				<-time.After(p.Begins)
				for _, work := range p.Works {
					ctx := context.WithValue(t.Context(), caller{}, who)
					l := r.lock(fmt.Sprint("holder ", who), p.Off)
					l.Hold = 10 * time.Second
					_ = l.Do(ctx, time.Minute, nil, func(ctx context.Context) error {
						from := time.Now()
						err := works(work)(ctx)
						mu.Lock()
						seen = append(seen, alone{who, from, time.Now()})
						mu.Unlock()
						return err
					})
				}
			})
		}
		all.Wait()
		r.db.SetFaults(nil)
		synctest.Wait()
	})
	return seen
}

// Whatever becomes of requests, and with clocks that differ by the margin, there are never
// two at once by true time.
func TestNeverTwoAtOnce(t *testing.T) {
	histories, times := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		histories++
		seen := play(t, plots(rt))
		times += len(seen)
		slices.SortFunc(seen, func(a, b alone) int { return a.from.Compare(b.from) })
		for i := 1; i < len(seen); i++ {
			before, after := seen[i-1], seen[i]
			require.False(rt, after.from.Before(before.to), "%v and %v", before, after)
		}
	})
	t.Logf("%d histories, %d times somebody was alone", histories, times)
	require.Positive(t, times)
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestALeaseIsFreeOnceItsEndHasPassedByAMargin(t *testing.T) {
	stored := schema.Lease{Holder: "ann", Token: "a", Fence: 7, Until: noon.UnixMilli()}
	for name, test := range map[string]struct {
		stored schema.Lease
		now    time.Time
		free   bool
	}{
		"nobody ever":  {schema.Lease{}, noon, true},
		"before":       {stored, noon.Add(-time.Hour), false},
		"at its end":   {stored, noon, false},
		"just before":  {stored, noon.Add(Margin - time.Millisecond), false},
		"at last":      {stored, noon.Add(Margin), true},
		"released":     {schema.Lease{Holder: "ann", Fence: 7, Until: noon.Add(time.Hour).UnixMilli()}, noon, true},
		"years before": {stored, noon.AddDate(-50, 0, 0), false},
	} {
		next, free := nextLease(test.stored, "ben", "b", test.now, time.Minute)
		assert.Equal(t, test.free, free, name)
		if free {
			assert.Equal(t, schema.Lease{Holder: "ben", Token: "b", Fence: test.now.UnixMilli(), Until: test.now.Add(time.Minute).UnixMilli()}, next, name)
		}
	}
	ahead := schema.Lease{Fence: noon.Add(time.Hour).UnixMilli()}
	next, _ := nextLease(ahead, "ben", "b", noon, time.Minute)
	assert.Equal(t, ahead.Fence+1, next.Fence, "a fence rises, whatever the clock says")
}

// Whoever holds a lease stops before its end, and has time for another try before.
func TestAHoldEndsBeforeTheLease(t *testing.T) {
	for _, hold := range []time.Duration{ShortestHold, time.Minute, LongestHold} {
		assert.Less(t, renewAfter(hold)+2*retryAfter(hold), endsAfter(hold))
		assert.Less(t, endsAfter(hold), hold)
	}
}

func TestErrorsSayWhoAndUntilWhen(t *testing.T) {
	held := &fault.LockedError{Name: "manifest", Holder: "ann", Until: noon}
	assert.EqualError(t, held, `dynalimit: "manifest" is held by ann until 2026-01-02 12:00:00 UTC, unless it is renewed; try again then, or wait for it`)
	assert.ErrorIs(t, held, fault.ErrLocked)
	assert.NotErrorIs(t, held, fault.ErrLost)
	assert.ErrorContains(t, &fault.LockedError{}, "held by somebody")
	why := errors.New("down")
	lost := &fault.LostError{Name: "manifest", Err: why}
	assert.EqualError(t, lost, `dynalimit: no longer alone at "manifest": the hold could not be renewed in time: down; look at what was done, and begin again`)
	assert.ErrorIs(t, lost, fault.ErrLost)
	assert.ErrorIs(t, lost, why)
	assert.ErrorContains(t, &fault.LostError{Holder: "ann"}, ": ann took it;")
	assert.ErrorContains(t, &fault.LostError{}, ": somebody else took it;")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
