package aggregator_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestEveryRequestHasABound: whatever follows, counts, closes or reads usage gives each request at
// most 5 s, so that none that is never answered is waited for.
func TestEveryRequestHasABound(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		var requests atomic.Int64
		bound := func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("bound", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				requests.Add(1)
				deadline, bounded := ctx.Deadline()
				assert.True(t, bounded && time.Until(deadline) <= 5*time.Second, "%s has no bound", middleware.GetOperationName(ctx))
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
		}
		client := h.db.Client(func(o *dynamodb.Options) { o.APIOptions = append(o.APIOptions, bound) })
		streams := h.db.StreamsClient(func(o *dynamodbstreams.Options) { o.APIOptions = append(o.APIOptions, bound) })
		h.spend(1, 2, 3)
		p, err := aggregator.New(client, "limits", nil)
		require.NoError(t, err)
		tail, err := aggregator.NewTail(streams, client, "limits", p.Process, &aggregator.TailOptions{FoldEvery: -1})
		require.NoError(t, err)
		following, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- tail.Run(following) }()
		after(2 * time.Hour)
		cancel()
		require.NoError(t, <-done)
		closer, err := aggregator.NewCloser(client, "limits", nil)
		require.NoError(t, err)
		for range 2 {
			_, err = closer.CloseDue(t.Context())
			require.NoError(t, err)
			after(40 * 24 * time.Hour)
		}
		reader, err := aggregator.NewReader(client, "limits", nil)
		require.NoError(t, err)
		for _, window := range []aggregator.Window{aggregator.Hour, aggregator.Day, aggregator.Month} {
			for _, list := range []func(context.Context, string, aggregator.Query) iter.Seq2[aggregator.Usage, error]{reader.Entity, reader.Resource, reader.Plan, reader.Children} {
				for _, err := range list(t.Context(), "gpt-4", aggregator.Query{Window: window}) {
					require.NoError(t, err)
				}
			}
		}
		assert.Greater(t, requests.Load(), int64(100))
	})
}

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
