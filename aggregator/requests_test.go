package aggregator_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestUnansweredWritesOfACloser: a write that is never answered is made again.
func TestUnansweredWritesOfACloser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := busyDay(t)
		whole.close(whole.now)
		o := busyDay(t)
		var writes atomic.Int64
		o.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if (q.Operation == "UpdateItem" || q.Operation == "PutItem") && writes.Add(1)%2 == 1 {
				return ddbmem.Fault{Before: 1000 * time.Hour}
			}
			return ddbmem.Fault{}
		})
		began := time.Now()
		_, err := o.closer.CloseDue(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(began), time.Hour)
		assert.Equal(t, whole.everything(), o.everything())
	})
}

// TestLagIsToldWhileRecordsAreProcessed: a ProcessFunc that does not return does not hide how far
// behind its shard is.
func TestLagIsToldWhileRecordsAreProcessed(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		h.spend(1)
		x := h.tail(aggregator.TailOptions{FoldEvery: -1, Drain: time.Second}, func(ctx context.Context, _ []aggregator.Record) (aggregator.Result, error) {
			<-ctx.Done()
			return aggregator.Result{}, ctx.Err()
		})
		after(time.Hour)
		x.log.mu.Lock()
		behind := time.Duration(0)
		for _, lag := range x.log.lag {
			behind = max(behind, lag.Behind)
		}
		assert.Greater(t, behind, 59*time.Minute)
		x.log.mu.Unlock()
		x.stop()
		require.Error(t, <-x.done, "the record is left")
	})
}
