package dynalimit

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The histories: several limiters on one table, in virtual time, judged against
// docs/design/protocol.md by who sees every write in the order of commits.
//
//	laws_test.go           the modes, and the test that plays them
//	laws_history_test.go   one history: limiters, configuration, run and rest
//	laws_step_test.go      what workers do: acquire, wait, what errors may come
//	laws_amend_test.go     what they do with leases: adjust, consume, end, end twice
//	laws_operator_test.go  what happens around them: reconfigure, delete, crash, throttle
//	laws_faults_test.go    what goes wrong with requests
//	laws_oracle_test.go    what is heard: what limiters send, what the store commits
//	laws_judge_test.go     the replay of the writes, and the laws of a whole write
//	laws_limits_test.go    the laws of one limit: the leaky queue
//	laws_stake_test.go     the laws of one lease: no more back than was debited for it
//	laws_ledger_test.go    the laws of the end: what callers were told and hold
//	laws_rule*_test.go     the protocol less a rule, which must break a law
//	laws_{once,denial,dropped}_test.go  single scenarios that histories seldom meet
//	laws_endpoint_test.go  concurrent callers on every engine, in real time

// historiesVariable says how many histories each mode plays.
const historiesVariable = "DYNALIMIT_HISTORIES"

// seedVariable plays one history alone.
const seedVariable = "DYNALIMIT_SEED"

var lawModes = []lawMode{
	{name: "exact"},
	{name: "latency", latency: 40},
	{name: "skew", skew: 5000, overrides: true},
	{name: "faults", faults: true, latency: 60},
	{name: "everything", faults: true, latency: 60, skew: 5000, overrides: true},
}

func histories(t *testing.T) (first, n uint64) {
	if s := os.Getenv(seedVariable); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		return seed, 1
	}
	n = 500
	if s := os.Getenv(historiesVariable); s != "" {
		var err error
		n, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	return 0, n
}

// TestLaws plays generated histories of several limiters on one table and holds
// what was committed against the laws of docs/design/protocol.md.
func TestLaws(t *testing.T) {
	for _, mode := range lawModes {
		t.Run(mode.name, func(t *testing.T) {
			first, n := histories(t)
			tally, began := map[string]int{}, time.Now()
			for seed := first; seed < first+max(1, n/uint64(len(lawModes))); seed++ {
				j := playHistory(t, seed, mode)
				if len(j.violations) > 0 {
					t.Fatalf("seed %d (replay with %s=%d): %d violations, the first:\n%s", seed, seedVariable, seed, len(j.violations), firstLines(j.violations, 5))
				}
				for what, n := range j.tally {
					tally[what] += n
				}
			}
			t.Logf("%v each, %v", time.Since(began)/time.Duration(max(1, n/uint64(len(lawModes)))), tally)
		})
	}
}

// playHistory plays one history in a bubble of virtual time.
func playHistory(t *testing.T, seed uint64, mode lawMode) *lawJudge {
	var j *lawJudge
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t, seed, mode)
		defer h.close()
		workers := 1 + int(seed%4)
		j = h.run(workers, 48)
		for _, err := range h.errs {
			j.violations = append(j.violations, fmt.Sprintf("unexpected error: %v", err))
		}
		if h.rules().exact && len(j.violations) == 0 {
			h.honest(j)
		}
	})
	return j
}

func firstLines(lines []string, n int) string {
	out := ""
	for _, l := range lines[:min(n, len(lines))] {
		out += "  " + l + "\n"
	}
	return out
}
