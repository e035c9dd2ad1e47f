package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
)

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" { // keeper runs itself again
		if err := work(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// outcomeOf is what a load prints with -json.
func outcomeOf(t *testing.T, args ...string) report {
	t.Helper()
	var out, progress bytes.Buffer
	require.NoError(t, run(t.Context(), append(args, "-json"), &out, &progress), progress.String())
	var r report
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	return r
}

// answered checks that all that was due was answered, whenever that was.
func answered(t *testing.T, r report) {
	t.Helper()
	require.Len(t, r.Routes, int(kinds))
	for _, a := range r.Routes {
		assert.Zero(t, a.Failed, a.Error)
		assert.Zero(t, a.Unsent)
		assert.Positive(t, a.Answered, a.Route)
		assert.EqualValues(t, a.Answered, a.Took.Count, a.Route)
	}
}

func TestLoad(t *testing.T) {
	for name, args := range map[string][]string{
		"one process":       {"-processes=0"},
		"several processes": {"-processes=2", "-apps=2", "-sweep=100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			r := outcomeOf(t, append(args, "-select=100", "-submit=100", "-clients=8", "-for=300ms", "-warm-up=100ms", "-latency=1ms")...)
			answered(t, r)
			assert.Positive(t, r.Requests)
			assert.GreaterOrEqual(t, r.UnitsPerSubmission, 2.0, "a record has an item of its own, and a transaction costs twice")
			assert.Positive(t, r.BytesPerSubmission)
			assert.Positive(t, r.Month.Total)
		})
	}
}

// virtual is a load in virtual time, which a busy machine does not change.
func virtual(t *testing.T, adapt func(*settings)) *report {
	t.Helper()
	s, err := parse([]string{"-virtual", "-select=50", "-submit=50", "-for=4s"}, t.Output())
	require.NoError(t, err)
	adapt(&s)
	require.NoError(t, s.check())
	r, err := inVirtualTime(t, s)
	require.NoError(t, err)
	return r
}

func TestAFewRecordsEachHaveATransaction(t *testing.T) {
	r := virtual(t, func(s *settings) { s.Submit = 5 })
	answered(t, *r)
	assert.InDelta(t, 4, r.UnitsPerSubmission, .5)
	a := r.route(submission)
	assert.GreaterOrEqual(t, a.Took.P50, 4900*time.Microsecond, "it is the store's latency")
	assert.Less(t, a.Took.P50, 6*time.Millisecond)
	assert.Less(t, r.route(selection).Took.P50, time.Millisecond, "from memory")
}

func TestManyRecordsShareTransactions(t *testing.T) {
	long := virtual(t, func(s *settings) { s.Submit, s.Clients, s.Linger = 500, 500, libraryLinger })
	short := virtual(t, func(s *settings) { s.Submit, s.Clients = 500, 500 })
	answered(t, *long)
	answered(t, *short)
	assert.Less(t, long.UnitsPerSubmission, 2.3)
	assert.Greater(t, long.PerTransaction, 10.0)
	assert.LessOrEqual(t, short.route(submission).Took.P99, 4*short.Latency)
	assert.Less(t, short.route(submission).Took.P99, long.route(submission).Took.P99)
	assert.Greater(t, short.UnitsPerSubmission, long.UnitsPerSubmission)
}

// TestTimeCountsFromWhenARequestWasDue has one client for more than it can ask: the later
// requests wait for the earlier ones.
func TestTimeCountsFromWhenARequestWasDue(t *testing.T) {
	r := virtual(t, func(s *settings) { s.Clients, s.Submit, s.For = 1, 400, 2*time.Second })
	assert.Greater(t, r.route(submission).Took.P99, 500*time.Millisecond)
	assert.Less(t, r.route(submission).PerSecond, 250.0)
}

func TestMoreShardsMeetLess(t *testing.T) {
	with := func(shards int) *report {
		return virtual(t, func(s *settings) {
			s.Processes, s.Submit, s.Clients, s.Busy, s.Shards, s.For = 4, 400, 400, 4*time.Millisecond, shards, 2*time.Second
		})
	}
	few, many := with(1), with(64)
	answered(t, *few)
	answered(t, *many)
	assert.Less(t, many.ConflictShare, few.ConflictShare/4)
}

func TestALoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := measure(ctx, settings{Processes: 0, Clients: 1, Apps: 1, Shards: 1, Select: 1, For: time.Millisecond})
	require.Error(t, err)
}

func TestGoals(t *testing.T) {
	s := settings{For: time.Second, goals: inTime(p99(selection, time.Millisecond), perSubmission(3), fromCache)}
	r := newReport(s, newOutcome(), used{})
	assert.Equal(t, []string{"answered a second ÷ due: 0 for 0.99"}, r.Missed, "nothing was asked")
	assert.Len(t, r.Goals, 5)

	came := newOutcome()
	*came.byKind[selection] = tally{due: 100, done: 98, failed: 1, unsent: 1, took: latency.New()}
	came.byKind[selection].took.Record(2 * time.Millisecond)
	r = newReport(s, came, used{})
	require.Len(t, r.Missed, 3)
	for i, what := range []string{"requests failed or not sent: 2", "answered a second ÷ due: 0.98", "p99 of selectModel, ms: 2"} {
		assert.Contains(t, r.Missed[i], what)
	}
}

// The time of the last answers is no falling behind, and what is longer is.
func TestTheLastAnswersHaveTheirTime(t *testing.T) {
	for elapsed, want := range map[time.Duration]float64{
		time.Second: 100, 1060 * time.Millisecond: 100, 2060 * time.Millisecond: 50,
	} {
		came := newOutcome()
		*came.byKind[submission] = tally{due: 100, done: 100, took: latency.New()}
		came.elapsed = elapsed
		r := newReport(settings{For: time.Second, Linger: 40 * time.Millisecond, Latency: 5 * time.Millisecond}, came, used{})
		assert.InDelta(t, want, r.route(submission).PerSecond, 1e-9, elapsed)
	}
}

func TestParse(t *testing.T) {
	s, err := parse([]string{"-select=1", "-metering=batch"}, t.Output())
	require.NoError(t, err)
	require.Equal(t, "batch", s.Metering.String())
	for name := range scenarios {
		s, err := parse([]string{"-scenario=" + name}, t.Output())
		require.NoError(t, err)
		all := s.runs()
		for _, one := range all {
			require.Equal(t, all[0].Virtual, one.Virtual, "a scenario is in one time")
			one.scenario = ""
			require.NoError(t, one.check(), one.name)
		}
	}
	for _, args := range [][]string{
		nil,
		{"-select=-1"},
		{"-select=1", "-clients=0"},
		{"-select=1", "-for=0"},
		{"-select=1", "-for=2h"},
		{"-select=1", "-shards=257"},
		{"-select=1", "-busy=-1s"},
		{"-scenario=none"},
		{"-select=1", "more"},
	} {
		_, err := parse(args, t.Output())
		require.Error(t, err, args)
		require.NotErrorIs(t, err, errMissed)
	}
}

func TestEachReportsWhatWasMissed(t *testing.T) {
	var out bytes.Buffer
	missing := func(missed ...string) func(settings) (*report, error) {
		return func(s settings) (*report, error) {
			r := newReport(s, newOutcome(), used{})
			r.Missed = missed
			return r, nil
		}
	}
	require.NoError(t, each([]settings{{For: time.Second}}, &out, missing()))
	require.ErrorIs(t, each([]settings{{For: time.Second}}, &out, missing("a goal")), errMissed)
	broken := errors.New("no store")
	require.ErrorIs(t, each([]settings{{}}, &out, func(settings) (*report, error) { return nil, broken }), broken)
}

// TestMonthOfTheSourcesLoad has the figures of docs/cost.md.
func TestMonthOfTheSourcesLoad(t *testing.T) {
	want := map[string]float64{"the source's month: strict": 65.9}
	for _, s := range (settings{scenario: "month", For: time.Minute, WarmUp: 10 * time.Second, Seed: 1}).runs() {
		dollars, ok := want[s.name]
		if !ok {
			continue
		}
		delete(want, s.name)
		r, err := inVirtualTime(t, s)
		require.NoError(t, err)
		assert.Empty(t, r.Missed, s.name)
		assert.InEpsilon(t, dollars, r.Month.Total, .05, s.name)
	}
	assert.Empty(t, want)
}
