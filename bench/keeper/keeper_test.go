package keeper

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/program"
)

func TestMain(m *testing.M) {
	if program.RunChild(work) { // keeper runs itself again
		return
	}
	goleak.VerifyTestMain(m)
}

// answered checks that all that was due was answered, whenever that was.
func answered(t *testing.T, r *report) {
	t.Helper()
	assert.Zero(t, r.values["failed"], r.firstError())
	for k, a := range r.byKind {
		assert.Positive(t, a.done, units[k])
		assert.EqualValues(t, a.done, r.took[k].Count, units[k])
	}
}

func TestLoad(t *testing.T) {
	r, err := measure(t.Context(), settings{
		Processes: 2, Apps: 2, Sweep: 100 * time.Millisecond, Select: 100, Submit: 100, Clients: 8, Shards: 8,
		For: 300 * time.Millisecond, WarmUp: 100 * time.Millisecond, Latency: time.Millisecond,
	})
	require.NoError(t, err)
	answered(t, r)
	assert.GreaterOrEqual(t, r.values["wcu/submission"], 2.0, "a record has an item of its own, and a transaction costs twice")
	assert.Positive(t, r.values["dollars/month"])
	assert.Positive(t, r.values["store-cpu"])
}

// virtual is a load in virtual time, which a busy machine does not change.
func virtual(t *testing.T, set func(*settings)) (r *report) {
	t.Helper()
	s := named{set: set}.settings()
	s.Virtual = true
	synctest.Test(t, func(t *testing.T) {
		var err error
		r, err = measure(t.Context(), s)
		require.NoError(t, err)
	})
	return r
}

// both is a load of both kinds, for 4 s.
func both(s *settings) { s.Select, s.Submit, s.For = 50, 50, 4*time.Second }

func TestAFewRecordsEachHaveATransaction(t *testing.T) {
	r := virtual(t, func(s *settings) { both(s); s.Submit = 5 })
	answered(t, r)
	assert.InDelta(t, 4, r.values["wcu/submission"], .5)
	assert.GreaterOrEqual(t, r.took[submission].P50, 4900*time.Microsecond, "it is the store's latency")
	assert.Less(t, r.took[submission].P50, 6*time.Millisecond)
	assert.Less(t, r.took[selection].P50, time.Millisecond, "from memory")
}

func TestManyRecordsShareTransactions(t *testing.T) {
	long := virtual(t, func(s *settings) { both(s); s.Submit, s.Clients, s.Linger = 500, 500, libraryLinger })
	short := virtual(t, func(s *settings) { both(s); s.Submit, s.Clients = 500, 500 })
	answered(t, long)
	answered(t, short)
	assert.Less(t, long.values["wcu/submission"], 2.3)
	assert.Greater(t, long.values["per-write"], 10.0)
	assert.LessOrEqual(t, short.took[submission].P99, 20*time.Millisecond)
	assert.Less(t, short.took[submission].P99, long.took[submission].P99)
	assert.Greater(t, short.values["wcu/submission"], long.values["wcu/submission"])
}

// TestTimeCountsFromWhenARequestWasDue has one client for more than it can ask: the later
// requests wait for the earlier ones.
func TestTimeCountsFromWhenARequestWasDue(t *testing.T) {
	r := virtual(t, func(s *settings) { both(s); s.Clients, s.Submit, s.For = 1, 400, 2*time.Second })
	assert.Greater(t, r.took[submission].P99, 500*time.Millisecond)
	assert.Less(t, r.values["submits/s"], 250.0)
}

func TestMoreShardsMeetLess(t *testing.T) {
	with := func(shards int) *report {
		return virtual(t, func(s *settings) {
			both(s)
			s.Processes, s.Submit, s.Clients, s.Busy, s.Shards, s.For = 4, 400, 400, 4*time.Millisecond, shards, 2*time.Second
		})
	}
	few, many := with(1), with(64)
	answered(t, few)
	answered(t, many)
	assert.Less(t, many.values["conflicts"], few.values["conflicts"]/4)
}

func TestALoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := measure(ctx, settings{Virtual: true, Processes: 1, Clients: 1, Apps: 1, Shards: 1, Select: 1, For: time.Millisecond})
	require.Error(t, err)
}

func TestReportCountsWhatWasNotAnswered(t *testing.T) {
	came := newOutcome()
	came.byKind[selection] = tally{due: 100, done: 98, failed: 1, unsent: 1, took: latency.New()}
	came.byKind[selection].took.Record(2 * time.Millisecond)
	r := newReport(settings{For: time.Second}, came, used{})
	assert.InDelta(t, 2, r.values["failed"], 0)
	assert.InDelta(t, .98, r.values["kept-up"], 1e-9)
	assert.InDelta(t, 2, r.values["select-p99-ms"], .1)
}

// The time of the last answers is no falling behind, and what is longer is.
func TestTheLastAnswersHaveTheirTime(t *testing.T) {
	for elapsed, want := range map[time.Duration]float64{
		time.Second: 1, 1060 * time.Millisecond: 1, 2060 * time.Millisecond: .5,
	} {
		came := newOutcome()
		came.byKind[submission] = tally{due: 100, done: 100, took: latency.New(), early: 60 * time.Millisecond}
		came.elapsed = elapsed
		r := newReport(settings{For: time.Second}, came, used{})
		assert.InDelta(t, want, r.values["kept-up"], 1e-9, elapsed)
	}
}

// TestMonthOfTheSourcesLoad has the figure of docs/cost.md.
func TestMonthOfTheSourcesLoad(t *testing.T) {
	r := virtual(t, func(s *settings) {
		s.WarmUp = 10 * time.Second
		months()[0].set(s)
	})
	assert.Zero(t, r.values["failed"], r.firstError())
	assert.GreaterOrEqual(t, r.values["kept-up"], .99)
	assert.LessOrEqual(t, r.values["wcu/submission"], 4.1)
	assert.InEpsilon(t, 66.4, r.values["dollars/month"], .02)
}

func TestScheduleKeepsItsRates(t *testing.T) {
	s := newSchedule(1, [kinds]float64{selection: 200, submission: 50}, 100*time.Second)
	var count [kinds]int
	last := time.Duration(0)
	for n := 0; ; n++ {
		a, ok := s.next()
		if !ok {
			break
		}
		require.Equal(t, n, a.number)
		require.GreaterOrEqual(t, a.due, last)
		require.Less(t, a.due, 100*time.Second)
		last = a.due
		count[a.kind]++
	}
	assert.InDelta(t, 20_000, count[selection], 500)
	assert.InDelta(t, 5_000, count[submission], 250)
}

func TestScheduleIsDrawnAgain(t *testing.T) {
	rates := [kinds]float64{selection: 10, submission: 10}
	one, other := newSchedule(7, rates, time.Second), newSchedule(7, rates, time.Second)
	for ok := true; ok; {
		var a, b arrival
		a, ok = one.next()
		b, _ = other.next()
		require.Equal(t, a, b)
	}
	_, ok := newSchedule(7, [kinds]float64{}, time.Second).next()
	require.False(t, ok, "nothing is due")
}

func TestMonthly(t *testing.T) {
	b := monthlyBill(4, 3, 1, 900) // a second
	assert.InDelta(t, 6.48, b.writes, .001)
	assert.InDelta(t, .972, b.reads, .001)
	assert.InDelta(t, .0441, b.storage, .0001, "176,400 items of 1,000 bytes")
	assert.InDelta(t, b.writes+b.reads+b.storage, b.total, 1e-9)
	assert.Zero(t, monthlyBill(0, 0, 0, 0))
}

func TestCountersOfATransaction(t *testing.T) {
	body := []byte(`{"TransactItems":[
		{"Put":{"Item":{"PK":{"S":"DEDUP#o#a#r"},"SK":{"S":"#"}}}},
		{"Update":{"Key":{"PK":{"S":"ORG#o#LABEL#premium"},"SK":{"S":"DAY#20260123#SH#3"}}}},
		{"Update":{"Key":{"PK":{"S":"T#x"},"SK":{"S":"other"}}}}]}`)
	assert.Equal(t, []string{"ORG#o#LABEL#premium DAY#20260123#SH#3"}, countersOf(body))
	assert.Empty(t, countersOf([]byte("{")))
}

func TestQuestionOf(t *testing.T) {
	to := target{org: "o", app: "a", token: "secret"}
	at := time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)
	q := questionOf(2, arrival{kind: submission, number: 17}, to, at)
	assert.JSONEq(t, `{"request_id":"00000002-0000-4000-8000-000000000011","model_label":"premium",
		"model_id":"anthropic.claude-3-5-sonnet-20241022-v2:0","tokens":{"input":1500,"output":800},"status":"OK",
		"timestamp":"2026-01-23T15:30:45Z"}`, string(q.body))
	assert.Equal(t, question{method: "GET", path: "/api/v1/orgs/o/apps/a/model-selection", token: "secret"}, questionOf(2, arrival{}, to, at))
}
