package aggregator_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
)

// oddStreams is a client whose second read of a shard goes wrong.
type oddStreams struct {
	*dynamodbstreams.Client
	reads atomic.Int32
	odd   func() (*dynamodbstreams.GetRecordsOutput, error)
}

func (o *oddStreams) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, opts ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	if o.reads.Add(1) == 2 {
		return o.odd()
	}
	return o.Client.GetRecords(ctx, in, opts...)
}

// A read of a shard that does not return, or that something else than DynamoDB answers, is
// told and made again. It is not the end of the shard, nor of the process.
func TestOddReadOfAShardIsMadeAgain(t *testing.T) {
	for name, odd := range map[string]func() (*dynamodbstreams.GetRecordsOutput, error){
		"panic":          func() (*dynamodbstreams.GetRecordsOutput, error) { panic("boom") },
		"Goexit":         func() (*dynamodbstreams.GetRecordsOutput, error) { runtime.Goexit(); return nil, nil },
		"foreign answer": func() (*dynamodbstreams.GetRecordsOutput, error) { return &dynamodbstreams.GetRecordsOutput{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			db, p := newTable(t, nil)
			streams := &oddStreams{Client: db.StreamsClient(), odd: odd}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var retried, finished atomic.Int32
			tail, err := aggregator.NewTail(streams, db.Client(), "limits", p.Process, &aggregator.TailOptions{
				Poll: 20 * time.Millisecond,
				Observer: aggregator.TailObserver{
					Retrying: func(r aggregator.TailRetry) {
						if r.Op == "read the shard" {
							retried.Add(1)
						}
					},
					ShardChanged: func(c aggregator.ShardChange) {
						if c.State == aggregator.ShardFinished {
							finished.Add(1)
						}
					},
					Lagged: func(aggregator.ShardLag) {
						if streams.reads.Load() > 3 {
							cancel()
						}
					},
				},
			})
			require.NoError(t, err)
			require.NoError(t, tail.Run(ctx))
			assert.EqualValues(t, 1, retried.Load())
			assert.Zero(t, finished.Load())
		})
	}
}
