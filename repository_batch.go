package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// adminTries bounds how often a batch is asked for what DynamoDB left out of
	// its answer, and a change made anew when another was in its way.
	adminTries = 8
	// firstPause and longestPause bound the jittered wait between tries.
	firstPause, longestPause = 25 * time.Millisecond, time.Second
	// maxBatchGet and maxBatchWrite are DynamoDB's bounds of one batch.
	maxBatchGet, maxBatchWrite = 100, 25
)

// errUnprocessed is the cause when DynamoDB leaves part of a batch undone: it
// lacks capacity.
var errUnprocessed = errors.New("too little capacity, or more than one answer can hold")

// retryPause waits before the next try of administrative work, attempt counting
// those made: half of an exponential delay and up to half at random. It returns
// ctx's error once that ends.
func retryPause(ctx context.Context, attempt int) error {
	delay := min(firstPause<<min(attempt-1, 16), longestPause)
	if !sleep(ctx, delay/2+rand.N(delay/2+1)) {
		return ctx.Err()
	}
	return nil
}

// batchGet reads at most maxBatchGet items consistently. Equal keys are asked
// for once, for DynamoDB refuses them. What an answer leaves unprocessed is
// asked for again; what stays so is an error, never taken for absent. The SDK
// may retry: reads are idempotent.
func (r *Repository) batchGet(ctx context.Context, op string, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	found := make(map[schema.Key]schema.Item, len(keys))
	asked := make(map[schema.Key]bool, len(keys))
	wanted := make([]map[string]types.AttributeValue, 0, len(keys))
	for _, key := range keys {
		if !asked[key] {
			asked[key] = true
			wanted = append(wanted, key.Attributes())
		}
	}
	pending := map[string]types.KeysAndAttributes{r.table: {Keys: wanted, ConsistentRead: aws.Bool(true)}}
	for attempt := 1; ; attempt++ {
		at := r.clock.source()
		out, err := r.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: pending}, quickRetries...)
		if err != nil {
			r.observeErrorDate(err, at)
			return nil, r.translate(op, err)
		}
		r.observeDate(out.ResultMetadata, at)
		for _, items := range out.Responses {
			for _, item := range items {
				found[schema.KeyOf(item)] = item
			}
		}
		left := unprocessedKeys(out.UnprocessedKeys)
		if left == 0 {
			return found, nil
		}
		if attempt == adminTries {
			return nil, &UnavailableError{Op: op, Err: fmt.Errorf("%d of %d keys still unprocessed after %d tries: %w", left, len(wanted), attempt, errUnprocessed)}
		}
		if err := retryPause(ctx, attempt); err != nil {
			return nil, &UnavailableError{Op: op, Err: fmt.Errorf("%d of %d keys unprocessed: %w", left, len(wanted), err)}
		}
		pending = out.UnprocessedKeys
	}
}

func unprocessedKeys(pending map[string]types.KeysAndAttributes) int {
	n := 0
	for _, p := range pending {
		n += len(p.Keys)
	}
	return n
}

// batchDelete removes items, however many. Deleting is idempotent, so the SDK
// may retry, and what an answer leaves unprocessed is sent again; what stays so
// is an error.
func (r *Repository) batchDelete(ctx context.Context, op string, keys []schema.Key) error {
	for len(keys) > 0 {
		n := min(len(keys), maxBatchWrite)
		requests := make([]types.WriteRequest, n)
		for i, key := range keys[:n] {
			requests[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key.Attributes()}}
		}
		if err := r.batchWrite(ctx, op, requests); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

func (r *Repository) batchWrite(ctx context.Context, op string, requests []types.WriteRequest) error {
	pending := map[string][]types.WriteRequest{r.table: requests}
	for attempt := 1; ; attempt++ {
		out, err := bounded(ctx, r, func(ctx context.Context) (*dynamodb.BatchWriteItemOutput, error) {
			return r.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: pending})
		})
		if err != nil {
			return r.translate(op, err)
		}
		left := 0
		for _, p := range out.UnprocessedItems {
			left += len(p)
		}
		if left == 0 {
			return nil
		}
		if attempt == adminTries {
			return &UnavailableError{Op: op, Err: fmt.Errorf("%d of %d writes still unprocessed after %d tries: %w", left, len(requests), attempt, errUnprocessed)}
		}
		if err := retryPause(ctx, attempt); err != nil {
			return &UnavailableError{Op: op, Err: fmt.Errorf("%d of %d writes unprocessed: %w", left, len(requests), err)}
		}
		pending = out.UnprocessedItems
	}
}
