package laws

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

const (
	// SeedVariable names the environment variable with the one seed that each mode plays.
	SeedVariable = "DYNALIMIT_SEED"
	// historiesVariable names the one with the number of histories, over all modes.
	historiesVariable = "DYNALIMIT_HISTORIES"
)

// Report is the result of a history.
type Report struct {
	// Violations are the broken laws, in the order of the writes.
	Violations []string
	// Tally counts the events. A history without events proves nothing.
	Tally map[string]int
}

// First returns the first n violations as text, one a line; all of them if they are fewer.
func (r Report) First(n int) string {
	out := ""
	for _, v := range r.Violations[:min(n, len(r.Violations))] {
		out += "  " + v + "\n"
	}
	return out
}

// Seeds returns the seeds that each of some modes plays: from first, before end. n is the number of histories
// over all modes; DYNALIMIT_HISTORIES replaces it, and DYNALIMIT_SEED selects one seed.
func Seeds(t *testing.T, n uint64, modes int) (first, end uint64) {
	if s := os.Getenv(SeedVariable); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		return seed, seed + 1
	}
	if s := os.Getenv(historiesVariable); s != "" {
		var err error
		n, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	return 0, max(1, n/uint64(modes))
}

// Play plays one history in a bubble of virtual time and returns the violations of its laws, unexpected errors
// included, and the counts of its events. The seed decides the limiters, the workers and their calls.
func Play(t *testing.T, seed uint64, mode Mode, inside Inside) Report {
	var j *judge
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t, seed, mode, inside)
		defer h.endHistory()
		workers := 1 + int(seed%4)
		j = h.runSteps(workers, 48)
		for _, err := range h.errs {
			j.violations = append(j.violations, fmt.Sprintf("unexpected error: %v", err))
		}
		if h.bounds().exact && len(j.violations) == 0 && !h.closed {
			h.checkDenials(j)
		}
	})
	return Report{Violations: j.violations, Tally: j.tally}
}

// runSteps lets concurrent workers share the given number of random steps, and waits until all writes have
// landed. It returns the judge with the violations of its replay and, after a clean replay, of the ledgers.
func (h *history) runSteps(workers, steps int) *judge {
	var group sync.WaitGroup
	luck := make([]*rand.Rand, workers) // before any worker runs, because a crash draws from h.r too
	for i := range luck {
		luck[i] = rand.New(rand.NewPCG(h.r.Uint64(), 2))
	}
	for _, r := range luck {
		group.Go(func() {
			for range steps / workers {
				(&worker{h, r}).makeStep()
			}
		})
	}
	group.Wait()
	h.awaitRest()
	j := newJudge(h.oracle, h.bounds())
	j.tally["raised until a time"] = h.raised
	if len(j.verify()) == 0 {
		j.checkLedgers(h)
	}
	return j
}
