package scale

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inVirtualTime simulates in a bubble.
func inVirtualTime(t *testing.T, s settings) (r *report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		r, err = simulate(t.Context(), s)
		require.NoError(t, err)
	})
	return r
}

// few is a simulation of a few processes that offer half as much again as the
// limit.
func few(call string) settings {
	return settings{
		processes: 20, each: 0.75, rate: 10, burst: 10, call: call, patience: time.Second,
		warmUp: 5 * time.Second, lasting: 20 * time.Second, latency: 5 * time.Millisecond, partition: 1000,
	}
}

func TestSimulate(t *testing.T) {
	for _, call := range []string{"acquire", "retry", "wait"} {
		t.Run(call, func(t *testing.T) {
			r := inVirtualTime(t, few(call))
			require.Empty(t, r.errors)
			require.Equal(t, r.offered, r.granted+r.denied)
			require.Zero(t, r.values["above-limit"], "over-admitted")
			require.Greater(t, r.values["of-limit"], 0.9)
			require.Positive(t, r.values["p50-ms"])
			require.Positive(t, r.values["landed/s"])
			require.Zero(t, r.values["throttled/s"])
		})
	}
}

// Processes that contend for the refill of a round trip must not refuse each
// other for as long as they outnumber it: a call costs two writes at most.
func TestProcessesDoNotRefuseEachOtherForEver(t *testing.T) {
	s := few("acquire")
	s.processes, s.each, s.rate, s.burst = 200, 1.5, 200, 200
	r := inVirtualTime(t, s)
	require.Empty(t, r.errors)
	require.Zero(t, r.values["above-limit"], "over-admitted")
	require.Greater(t, r.values["of-limit"], 0.99)
	require.Less(t, r.values["writes/s"], 2*float64(r.offered)/s.lasting.Seconds())
}

// Heads of different processes that wait for the same tokens do not meet again and
// again: each used to write at the instant of each token.
func TestWaitersOfManyProcessesAreNoHerd(t *testing.T) {
	s := few("wait")
	s.processes, s.each, s.rate, s.burst = 100, 0.3, 20, 20
	r := inVirtualTime(t, s)
	require.Empty(t, r.errors)
	require.Zero(t, r.values["above-limit"], "over-admitted")
	require.Greater(t, r.values["of-limit"], 0.97)
	require.Less(t, r.values["writes/s"], 6*float64(s.rate))
}

// With Prefetch nearly all calls of busy processes are granted from memory. What is
// neither admitted nor left in a bucket that never gets full has lapsed.
func TestPrefetchSparesThePartition(t *testing.T) {
	s := few("acquire")
	s.processes, s.each, s.rate, s.burst, s.start = 10, 50, 1000, 60_000, "part"
	without := inVirtualTime(t, s)
	require.Zero(t, without.served)

	s.prefetch = time.Second
	r := inVirtualTime(t, s)
	require.Empty(t, r.errors)
	require.Greater(t, r.values["from-memory"], 0.99)
	require.Less(t, r.values["load"], without.values["load"]/10)
	require.Positive(t, r.ledger.Lost)
	require.Less(t, r.values["lapsed"], 0.05)
	require.Zero(t, r.values["above-limit"])
}

func TestAPartitionThatIsTooSmallThrottles(t *testing.T) {
	s := few("acquire")
	s.partition = 5
	r := inVirtualTime(t, s)
	require.Positive(t, r.values["throttled/s"])
	require.Zero(t, r.values["above-limit"], "over-admitted")
}
