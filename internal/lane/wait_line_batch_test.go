package lane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// A batch waiter is due when its amounts are there above the reserve, after those of all interactive waiters.
func TestBatchWaitersAreDueBehindOthers(t *testing.T) {
	cfg := rpmOf(60) // a token a second, a reserve of 12
	const now = 1_000_000
	first := &Line{}
	batches := &Line{first: first}
	join := func(l *Line, rank uint64, tokens int64) *Waiter {
		w := NewWaiter(rank, time.UnixMilli(now), l == batches)
		l.Join(w)
		l.RecordDenial(w, []plan.Signed{{Name: "rpm", Amount: tokens * token}}, []string{"rpm"}, cfg)
		return w
	}
	w := join(batches, 1, 5)
	due := func() int64 {
		wait, known := batches.due(w, imageOf(cfg, 10*token, now), now, now)
		assert.True(t, known)
		return wait / 1000
	}
	assert.EqualValues(t, 5+12-10, due())
	interactive := join(first, 2, 20)
	assert.EqualValues(t, 5+12-10+20, due())
	c := first.claims()
	left := c.leftTo(LastRank, nil, plan.Reading{Image: imageOf(cfg, 10*token, now), Config: cfg, Now: now, Batch: true}, nil)
	assert.EqualValues(t, 20*token, left.Of("rpm").Amount, "what interactive waiters need")
	wait, _ := first.due(interactive, imageOf(cfg, 10*token, now), now, now)
	assert.EqualValues(t, 10, wait/1000)
	first.Quit(interactive)
	assert.EqualValues(t, 5+12-10, due())
}
