package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// few is a simulation of a few processes that offer half as much again as the
// limit.
func few(call string) settings {
	return settings{
		Processes: 20, Each: 0.75, Rate: 10, Burst: 10, Call: call, Patience: time.Second,
		WarmUp: 5 * time.Second, For: 20 * time.Second, Latency: 5 * time.Millisecond, Partition: 1000,
	}
}

func TestSimulate(t *testing.T) {
	for _, call := range []string{"acquire", "retry", "wait"} {
		t.Run(call, func(t *testing.T) {
			r, err := inVirtualTime(t, few(call))
			require.NoError(t, err)
			require.Empty(t, r.Errors)
			require.Equal(t, r.Offered, r.Granted+r.Denied)
			require.GreaterOrEqual(t, r.Ledger.Lost, int64(0), "over-admitted")
			require.Greater(t, r.OfLimit, 0.9)
			require.Positive(t, r.GrantedAfter.P50)
			require.Positive(t, r.WriteUnits)
			require.Zero(t, r.Throttled)
		})
	}
}

// Processes that contend for the refill of a round trip must not refuse each
// other for as long as they outnumber it: a call costs two writes at most.
func TestProcessesDoNotRefuseEachOtherForEver(t *testing.T) {
	s := few("acquire")
	s.Processes, s.Each, s.Rate, s.Burst = 200, 1.5, 200, 200
	r, err := inVirtualTime(t, s)
	require.NoError(t, err)
	require.Empty(t, r.Errors)
	require.GreaterOrEqual(t, r.Ledger.Lost, int64(0), "over-admitted")
	require.Greater(t, r.OfLimit, 0.99)
	require.Less(t, r.WriteUnits, 2*float64(r.Offered)/r.For.Seconds())
}

// Heads of different processes that wait for the same tokens do not meet again and
// again: each used to write at the instant of each token.
func TestWaitersOfManyProcessesAreNoHerd(t *testing.T) {
	s := few("wait")
	s.Processes, s.Each, s.Rate, s.Burst = 100, 0.3, 20, 20
	r, err := inVirtualTime(t, s)
	require.NoError(t, err)
	require.Empty(t, r.Errors)
	require.GreaterOrEqual(t, r.Ledger.Lost, int64(0), "over-admitted")
	require.Greater(t, r.OfLimit, 0.97)
	require.Less(t, r.Attempts, 6*float64(s.Rate))
}

// With Prefetch nearly all calls of busy processes are granted from memory. What is
// neither admitted nor left in a bucket that never gets full has lapsed.
func TestPrefetchSparesThePartition(t *testing.T) {
	s := few("acquire")
	s.Processes, s.Each, s.Rate, s.Burst, s.Start = 10, 50, 1000, 60_000, "part"
	without, err := inVirtualTime(t, s)
	require.NoError(t, err)
	require.Zero(t, without.Served)
	require.Zero(t, without.LapsedShare)

	s.Prefetch = time.Second
	r, err := inVirtualTime(t, s)
	require.NoError(t, err)
	require.Empty(t, r.Errors)
	require.Greater(t, r.ServedShare, 0.99)
	require.Less(t, r.MeanLoad, without.MeanLoad/10)
	require.Positive(t, r.Ledger.Lost)
	require.Less(t, r.LapsedShare, 0.05)
	require.Positive(t, r.Excess)
	require.LessOrEqual(t, r.tooMuch(), r.Excess)
}

func TestAPartitionThatIsTooSmallThrottles(t *testing.T) {
	s := few("acquire")
	s.Partition = 5
	r, err := inVirtualTime(t, s)
	require.NoError(t, err)
	require.Positive(t, r.Throttled)
	require.GreaterOrEqual(t, r.Ledger.Lost, int64(0), "over-admitted")
}

func TestParse(t *testing.T) {
	s, err := parse([]string{"-processes", "10", "-call", "wait"}, t.Output())
	require.NoError(t, err)
	require.Equal(t, 10, s.Processes)
	for _, args := range [][]string{{"-processes", "0"}, {"-each", "0"}, {"-call", "ask"}, {"-latency", "-1s"}, {"more"}} {
		_, err := parse(args, t.Output())
		require.Error(t, err, args)
	}
}

func TestScenariosHaveGoals(t *testing.T) {
	for name := range scenarios {
		s, err := parse([]string{"-scenario", name, "-holds", "300"}, t.Output())
		require.NoError(t, err)
		for _, run := range s.runs() {
			require.NoError(t, run.check(), run.fleet)
			require.NotEmpty(t, run.goals, run.fleet)
			require.InDelta(t, 300, run.Holds, 0, run.fleet)
		}
	}
	_, err := parse([]string{"-scenario", "Z"}, t.Output())
	require.ErrorContains(t, err, "A, A-1s, A-250ms, A2, B, B-real, C, D, F, F-real")
}

func TestGoalsAreJudged(t *testing.T) {
	r := &report{FailedShare: 0.02, OfLimit: 0.97}
	require.False(t, failed(0.01).judge(r).Holds)
	require.True(t, failed(0.02).judge(r).Holds)
	require.True(t, admitted(0.97).judge(r).Holds)
	require.True(t, within().judge(r).Holds)
	r.Excess, r.Ledger.Lost = 1, -1500
	require.False(t, within().judge(r).Holds)
	require.InDelta(t, 0.5, within().judge(r).Value, 1e-9)
	require.False(t, admitted(0.98).judge(r).Holds)
	require.Equal(t, "admitted ÷ limit 0.97 ≥ 0.98: DOES NOT HOLD", admitted(0.98).judge(r).text())
}
