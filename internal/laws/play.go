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
	// SeedVariable is the environment's: the one history that each mode plays.
	SeedVariable = "DYNALIMIT_SEED"
	// historiesVariable says how many histories are played, over all modes.
	historiesVariable = "DYNALIMIT_HISTORIES"
)

// Report is what came of a history.
type Report struct {
	// Violations say what broke a law, in the order of the writes.
	Violations []string
	// Tally counts what happened: a history in which nothing does proves nothing.
	Tally map[string]int
}

// First are the first violations, at most n, a line each.
func (r Report) First(n int) string {
	out := ""
	for _, v := range r.Violations[:min(n, len(r.Violations))] {
		out += "  " + v + "\n"
	}
	return out
}

// Seeds are the histories that each of some modes plays: from first until before end. n is how
// many all modes play, unless the environment says how many, or which one.
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

// Play plays one history in a bubble of virtual time and judges it.
func Play(t *testing.T, seed uint64, mode Mode) Report {
	var j *judge
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t, seed, mode)
		defer h.close()
		workers := 1 + int(seed%4)
		j = h.run(workers, 48)
		for _, err := range h.errs {
			j.violations = append(j.violations, fmt.Sprintf("unexpected error: %v", err))
		}
		if h.bounds().exact && len(j.violations) == 0 && !h.closed {
			h.honest(j)
		}
	})
	return Report{Violations: j.violations, Tally: j.tally}
}

// run plays the history and returns the judge of it.
func (h *history) run(workers, steps int) *judge {
	var group sync.WaitGroup
	luck := make([]*rand.Rand, workers) // before any runs, for a crash draws from h.r too
	for i := range luck {
		luck[i] = rand.New(rand.NewPCG(h.r.Uint64(), 2))
	}
	for _, r := range luck {
		group.Go(func() {
			for range steps / workers {
				(&worker{h, r}).step()
			}
		})
	}
	group.Wait()
	h.rest()
	j := newJudge(h.oracle, h.bounds())
	j.tally["raised until a time"] = h.raised
	if len(j.verify()) == 0 {
		j.ledger(h)
	}
	return j
}
