package backlog

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// What is lowered comes off what was counted first, then off doubt, then off what is held;
// what is gone stays consumed. What is raised is charged, but for what is consumed already.
func TestWhatIsLoweredComesOffCountsFirst(t *testing.T) {
	h := Holding{Held: 10, Counted: 20, Doubt: 3, Gone: 5}
	for target, want := range map[int64]Correction{
		45: {Charge: 7},
		38: {},
		30: {Uncount: 8},
		18: {Uncount: 20},
		16: {Uncount: 20, GiveUp: 2},
		9:  {Uncount: 20, GiveUp: 3, Back: 6},
		0:  {Uncount: 20, GiveUp: 3, Back: 10},
	} {
		assert.Equal(t, want, h.CorrectTo(target), target)
	}
}

// minutely refills its burst in a minute.
var minutely = bucket.Rate{Burst: 60, Amount: 60, Period: 60_000}

// asking asks for an amount of a limit of which this process may admit a share.
func asking(amount int64, share float64) []Ask {
	return []Ask{{Name: "tpm", Amount: amount, Burst: minutely.Burst, Share: Share(minutely, share)}}
}

// What is given back does not make room for more than the burst.
func TestGiveEmptiesAQueueAtMost(t *testing.T) {
	var q Queue
	q.Fill(minutely, 20, 0)
	q.Give(minutely, 50, 0)
	assert.Zero(t, q.Level(minutely, 0))
	q.Fill(minutely, 60, 0)
	wait, fits := q.Fits(minutely, 1, 0)
	assert.False(t, fits)
	assert.Equal(t, int64(1000), wait)
}

// What is settled without the bucket is more than its burst as often as somebody likes: the
// queue is full then, whatever the sum.
func TestQueueDoesNotWrap(t *testing.T) {
	var q Queue
	for range 10_000 {
		q.Fill(minutely, 1e15, 0)
		_, fits := q.Fits(minutely, 1, 0)
		require.False(t, fits)
	}
}

// A share has room for one call up to the limit's own burst, and for none above it.
func TestShareAdmitsNothingAboveTheBurst(t *testing.T) {
	q := NewQueues(10)
	for i, test := range []struct {
		amount   int64
		admitted bool
	}{{61, false}, {60, true}, {1, false}} {
		admitted, room := q.Admit(Bucket{}, asking(test.amount, .1), 0)
		require.True(t, room)
		assert.Equal(t, test.admitted, admitted, i)
	}
}

// A denial shows the queue that denied, whatever others give back at once: a denial by a queue
// that has room would be one for nothing.
func TestDenialShowsTheQueueThatDenied(t *testing.T) {
	q := NewQueues(1)
	asks := asking(30, 1)
	for range 2 {
		q.Admit(Bucket{}, asks, 0)
	}
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		for range 20_000 {
			q.Change(Bucket{}, asking(-30, 1), 0)
			q.Change(Bucket{}, asking(30, 1), 0)
		}
	})
	for range 20_000 {
		admitted, _ := q.Admit(Bucket{}, asks, 0)
		if !admitted {
			require.Greater(t, asks[0].Level, int64(30), "of 60")
			continue
		}
		q.Change(Bucket{}, asking(-30, 1), 0)
	}
}

// Buckets whose queues are empty are forgotten for others; while none is, there is no room.
func TestQueuesForgetWhatIsEmpty(t *testing.T) {
	q := NewQueues(3)
	of := func(i int) Bucket { return Bucket{Entity: strconv.Itoa(i)} }
	for i := range 3 {
		_, room := q.Admit(of(i), asking(int64(10*(3-i)), 1), 0)
		require.True(t, room)
	}
	for now, room := range map[int64]bool{0: false, 9_999: false} {
		_, got := q.Admit(of(3), asking(1, 1), now)
		assert.Equal(t, room, got, now)
	}
	admitted, room := q.Admit(of(3), asking(60, 1), 10_000) // the third is empty
	assert.True(t, admitted && room)
	first := asking(0, 1)
	q.Admit(of(0), first, 10_000)
	assert.Equal(t, int64(20), first[0].Level, "the others are kept")
	_, room = q.Admit(of(4), asking(1, 1), 19_999)
	assert.False(t, room)
	q.Change(of(0), asking(-100, 1), 19_999)
	_, room = q.Admit(of(4), asking(1, 1), 19_999)
	assert.True(t, room, "given back, it is empty")
	assert.Len(t, q.byBucket, 3)
}
