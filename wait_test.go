package dynalimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// A waiter whose turn is due when its deadline has passed is not told to come
// back after no time at all.
func TestWaiterIsDueAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memLimiter(t, &Options{Limits: []Limit{PerMinute("rpm", 60)}})
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 1})
		require.NoError(t, err)
		w := waiting{limiter: l, request: &lease.charge.request, at: position{waiter: lane.NewWaiter(1), lane: l.desk.lanes.Of("u", "m")}}
		at := &w.at
		defer at.quit()
		at.lane.Line.Join(at.waiter)
		at.lane.Line.Lacks(at.waiter, lease.charge.levels[0].asked, []string{"rpm"}, lease.charge.levels[0].cfg)
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		_, err = w.awaitTurn(ctx, &LimitExceededError{})
		require.NotErrorIs(t, err, ErrLimitExceeded)
	})
}

// A head tries at its exact time, and so far behind as its lane says; what it learns
// meanwhile moves the time, and what comes earlier than foreseen keeps away no herd.
func TestWhenAHeadTries(t *testing.T) {
	const ms = time.Millisecond
	at := func(n int) time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * ms) }
	head := func(n int) turn { return turn{head: true, known: true, left: time.Duration(n) * ms} }
	next := try{behind: 50 * ms}
	assert.Equal(t, 150*ms, next.left(head(100), at(0)))
	assert.Equal(t, 110*ms, next.left(head(60), at(40)), "the same image")
	assert.Equal(t, 30*ms, next.left(head(0), at(120)), "behind its exact time, also when it is woken then")
	assert.Equal(t, 80*ms, next.left(head(30), at(120)), "others took")
	assert.Equal(t, 10*ms, next.left(head(10), at(125)), "something was given back")
	assert.Zero(t, next.left(head(0), at(130)))

	next = try{behind: 50 * ms}
	assert.Equal(t, never, next.left(turn{known: true, left: 100 * ms}, at(0)), "not at the head")
	assert.Equal(t, 60*ms, next.left(head(10), at(0)), "who comes to the head keeps behind the others' heads")
}

// A Wait that has less time than the pause after contention ends at once.
func TestContentionOutlastsACallersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memLimiter(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began, busy := time.Now(), contended("u", "m")
		require.Same(t, busy, (&waiting{limiter: l}).waitOut(ctx, busy.RetryAfter, busy))
		require.Zero(t, time.Since(began))
	})
}

// memLimiter is a limiter on a new table.
func memLimiter(t *testing.T, opts *Options) *RateLimiter {
	t.Helper()
	l, err := New(memRepository(t, testworld.Mem(t)), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(context.WithoutCancel(t.Context()))) })
	return l
}

// memRepository is a repository on a new table of db.
func memRepository(t *testing.T, db *ddbmem.DB) *Repository {
	t.Helper()
	r, err := NewRepository(db.Client(), "limits", &RepositoryOptions{Now: time.Now})
	require.NoError(t, err)
	require.NoError(t, r.CreateTable(t.Context()))
	return r
}
