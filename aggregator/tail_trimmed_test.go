package aggregator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
)

// TestShardWhoseRestWasTrimmed: a shard that has ended, and whose last records were trimmed
// before they were read, is read to its end once, and told once.
func TestShardWhoseRestWasTrimmed(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		h.spend(1)
		x := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(5 * time.Second)
		x.end(t)
		h.spend(1, 1)
		after(time.Second)
		kept := time.Now()
		after(time.Second)
		require.NoError(t, h.db.SplitStream("limits", 1))
		require.NoError(t, h.db.TrimStream("limits", kept))
		h.spend(1)
		y := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(30 * time.Second)
		require.Len(t, y.trimmed, 1)
		y.end(t)
		z := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(30 * time.Second)
		assert.Empty(t, z.trimmed, "it is known to be at its end")
		z.end(t)
		finished := 0
		for _, c := range h.remembered("#CHECKPOINT#") {
			if c["finished"] != nil {
				finished++
			}
		}
		assert.Equal(t, 1, finished)
	})
}
