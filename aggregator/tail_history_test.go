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

// TestTailsCountWhatWasConsumed: the histories of TestUsageIsWhatWasConsumed, followed by two
// tails while they happen: shards split under them, iterators expire, one or the other is
// killed or stopped and replaced, writes are throttled and answers lost, and clocks jump, so
// that every lease seems to be over.
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

// tailHistory plays one history, and returns how many records were counted and how many
// tails were killed.
func tailHistory(t *testing.T, seed uint64) (counted, killed int) {
	t.Helper()
	w := newWorld(t, seed+1<<32)
	h := &harbor{t, w.db, w.repo, w.limiter}
	var all []*tailer
	began := time.Now()
	clock := func() time.Time { return w.clock().Add(time.Since(began)) } // which jumps, and goes on in between
	start := func() *tailer {
		x := h.tail(aggregator.TailOptions{
			Now: clock, FoldEvery: []time.Duration{-1, 5 * time.Second, time.Minute}[w.rnd.IntN(3)], MaxRecords: []int{0, 7}[w.rnd.IntN(2)],
		})
		all = append(all, x)
		return x
	}
	tails := []*tailer{start(), start()}
	w.drain = func() {
		w.db.SetFaults(busy(seed + w.rnd.Uint64N(100)))
		after(3 * time.Minute)
		w.db.SetFaults(nil)
	}
	for range 60 {
		w.step()
		after(time.Duration(w.rnd.IntN(3000)) * time.Millisecond)
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
