package dynalimit

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
	"github.com/dynalimit/dynalimit/sources"
)

func TestMain(m *testing.M) {
	if os.Getenv(testworld.Endpoint) == "" {
		fmt.Fprintln(os.Stderr, "NOTE: "+testworld.Endpoint+" is not set: these tests run on ddbmem alone, on no third-party engine (make test-engine runs them on one)")
	}
	goleak.VerifyTestMain(m)
}

// The wait of a denial counts from when the last level had decided, however long
// before it the others did.
func TestDenialWaitsFromTheLastDecision(t *testing.T) {
	of := func(name string, now, used int64) level {
		cfg := config.Compile(storedLimits([]Limit{PerSecond(name, 10)}), sources.Entity, false, 0, 0)
		image := &schema.Image{
			HasRefilled: true, Refilled: now, Set: schema.NewLimitSets().Of([]string{name}),
			Limits: []schema.Stored{{Rate: cfg.Limits[0].Rate, Capacity: 10 * milli, Tokens: 10*milli - used}},
		}
		l := &lane.Lane{}
		l.Entity, l.Resource = name, "gpt-4"
		return level{lane: l, cfg: cfg, asked: []plan.Signed{{Name: name, Amount: 10 * milli}}, answered: true, last: levelReading{entity: name, resource: "gpt-4", Reading: plan.Reading{Image: image, Config: cfg, Now: now}}}
	}
	charged := &charge{levels: []level{of("a", 1000, 5*milli), of("b", 1450, milli/2), of("c", 1200, milli)}}
	denied := charged.denial()
	assert.Equal(t, 50*time.Millisecond, denied.RetryAfter, "of which 450 ms of the longest are over")
	waits := []time.Duration{denied.Statuses[0].RetryAfter, denied.Statuses[1].RetryAfter, denied.Statuses[2].RetryAfter}
	assert.Equal(t, []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, time.Millisecond}, waits, "a level that denied waits for something")
}

// A take that fits the bucket but not beside those before it is denied, so its
// status must say so: also on a bucket long full, whose refill since counts for
// nothing.
func TestStatusLeavesToOthersFromTheLevel(t *testing.T) {
	limit := PerSecond("calls", 10)
	cfg := config.Compile(storedLimits([]Limit{limit}), sources.Resource, false, 0, 1)
	rate := bucket.Rate{Burst: 10 * milli, Amount: 10 * milli, Period: 1000}
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"calls"}), Limits: []schema.Stored{{Rate: rate, Tokens: 10 * milli}}, HasRefilled: true}
	r := levelReading{Reading: plan.Reading{Image: image, Config: cfg, Now: time.Hour.Milliseconds()}, precedence: plan.Precedence{Taken: plan.Rows{{Name: "calls", Amounts: bucket.Amounts{Take: 8 * milli}}}}}

	require.False(t, r.status("calls", 2*milli, 0).Exceeded)
	s := r.status("calls", 3*milli, 0)
	require.True(t, s.Exceeded)
	require.EqualValues(t, 2, s.Remaining)
	require.Equal(t, 100*time.Millisecond, s.RetryAfter)
}

// What is given back beside a take does not lift the bucket above its burst, for
// the status as for the decision.
func TestStatusOfABucketThatIsGivenBackTo(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 100 * milli, Period: 60_000}
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"rpm"}), Limits: []schema.Stored{{Rate: rate, Tokens: 90 * milli}}, HasRefilled: true}
	cfg := config.Compile(storedLimits([]Limit{PerMinute("rpm", 100)}), sources.Resource, false, 0, 1)
	carried := plan.Rows{{Name: "rpm", Amounts: bucket.Amounts{Back: 90 * milli, Take: 80 * milli}}}
	carried = plan.View{Image: image, Config: cfg}.Rows(carried, nil)
	require.False(t, carried.Fit([]plan.Signed{{Name: "rpm", Amount: 33 * milli}}, nil))
	shown := levelReading{Reading: plan.Reading{Image: image, Config: cfg}, precedence: plan.Precedence{Taken: carried.Taken()}}
	s := shown.status("rpm", 33*milli, 0)
	require.True(t, s.Exceeded)
	require.EqualValues(t, 20, s.Remaining)
	require.Equal(t, 7800*time.Millisecond, s.RetryAfter)
}

// What is left is rounded down, in debt too: half a token of debt is shown as one.
func TestRemainingIsRoundedDown(t *testing.T) {
	for millitokens, tokens := range map[int64]int64{-1001: -2, -1000: -1, -500: -1, -1: -1, 0: 0, 999: 0, 1000: 1} {
		assert.Equal(t, tokens, floorDiv(millitokens, milli), "%d", millitokens)
	}
}

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

// A SettleSoon that fails in line calls nobody back, though somebody else ends the lease at the
// moment when it gives up: the caller has the error, and may call again.
func TestSettleSoonThatFailsCallsNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memLimiter(t, &Options{Limits: []Limit{PerMinute("rpm", 60)}})
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 1})
		require.NoError(t, err)
		s := settling{lease: lease, ctx: t.Context(), settled: func(err error) { t.Error("called back", err) }}
		err = s.inLine(correction{ends: true, target: func([]plan.Signed) []plan.Signed {
			lease.soon = true // by another, before this one looks again
			return []plan.Signed{{Name: "rpm", Amount: -1}}
		}})
		require.ErrorAs(t, err, new(*ValidationError))
	})
}
