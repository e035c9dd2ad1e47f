package aggregator_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
)

// TestTailsCountWhatWasConsumed: the histories of TestUsageIsWhatWasConsumed, followed by one of
// two tails while they happen: shards split under them, iterators expire, one or the other is
// killed or stopped and replaced, writes are throttled and answers lost, and clocks jump, so
// that the lease seems to be over and both read.
func TestTailsCountWhatWasConsumed(t *testing.T) {
	t.Parallel()
	counted, killed := 0, 0
	n := (histories(t) + 19) / 20 // each follows for minutes
	for seed := range uint64(n) {
		synctest.Test(t, func(t *testing.T) {
			c, k := tailHistory(t, seed)
			counted, killed = counted+c, killed+k
		})
	}
	t.Logf("%d histories, %d records, %d tails killed", n, counted, killed)
	assert.Greater(t, counted, 10*n)
	assert.Greater(t, killed, n/2)
}

// after lets so much time pass, by the clock of the table too.
func (w *world) after(d time.Duration) {
	for ; d > 0; d -= time.Second {
		after(min(d, time.Second))
		w.now.Add(int64(min(d, time.Second)))
	}
}

// tailHistory plays one history, and returns how many records were counted and how many
// tails were killed.
func tailHistory(t *testing.T, seed uint64) (counted, killed int) {
	t.Helper()
	w := newWorld(t, seed+1<<32)
	h := &harbor{t, w.db, w.repo, w.limiter}
	var all []*tailer
	start := func() *tailer {
		x := h.tail(aggregator.TailOptions{
			Now: w.clock, FoldEvery: []time.Duration{-1, 5 * time.Second, time.Minute}[w.rnd.IntN(3)], MaxRecords: []int{0, 7}[w.rnd.IntN(2)],
		})
		all = append(all, x)
		return x
	}
	tails := []*tailer{start(), start()}
	w.drain = func() {
		w.db.SetFaults(busy(seed + w.rnd.Uint64N(100)))
		w.after(3 * time.Minute)
		w.db.SetFaults(nil)
	}
	for range 60 {
		w.step()
		w.after(time.Duration(w.rnd.IntN(3000)) * time.Millisecond)
		switch i := w.rnd.IntN(2); w.rnd.IntN(25) {
		case 0:
			tails[i].kill()
			killed++
			tails[i] = start()
		case 1:
			tails[i].end(t)
			tails[i] = start()
		}
	}
	require.NoError(t, w.limiter.Close(t.Context())) // what it owes is written
	w.drain()
	for _, x := range tails {
		x.end(t)
	}
	got, missing := usage(t, w.db)
	maps.DeleteFunc(w.ledger, func(_ spent, n int64) bool { return n == 0 })
	require.Equal(t, w.ledger, got, "seed %d", seed)
	require.Empty(t, missing, "seed %d", seed)
	for _, x := range all {
		counted += x.counted
		require.Empty(t, x.disordered, "seed %d", seed)
		require.Empty(t, x.skipped, "seed %d", seed)
		require.Empty(t, x.gaps, "seed %d", seed)
	}
	return counted, killed
}
