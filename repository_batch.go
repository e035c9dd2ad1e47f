package dynalimit

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
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

// adminBackoff is the wait between the tries of administrative work.
var adminBackoff = ddb.Backoff{First: firstPause, Most: longestPause}

// batchGet reads at most maxBatchGet items consistently. Equal keys are asked
// for once, for DynamoDB refuses them. What an answer leaves unprocessed is
// asked for again; what stays so is an error, never taken for absent. The SDK
// may retry: reads are idempotent.
func (r *Repository) batchGet(ctx context.Context, op string, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	found := make(map[schema.Key]schema.Item, len(keys))
	wanted := distinct(keys)
	pending := map[string]types.KeysAndAttributes{r.table: {Keys: wanted, ConsistentRead: aws.Bool(true)}}
	for attempt := 1; ; attempt++ {
		out, err := r.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: pending})
		if err != nil {
			return nil, r.translate(op, err)
		}
		for _, items := range out.Responses {
			for _, item := range items {
				found[schema.KeyOf(item)] = item
			}
		}
		left := unprocessedKeys(out.UnprocessedKeys)
		if left == 0 {
			return found, nil
		}
		if err := r.pauseUnprocessed(ctx, op, attempt, fmt.Sprintf("%d of %d keys", left, len(wanted))); err != nil {
			return nil, err
		}
		pending = out.UnprocessedKeys
	}
}

// distinct are the keys, each once, in their order.
func distinct(keys []schema.Key) []map[string]types.AttributeValue {
	asked := make(map[schema.Key]bool, len(keys))
	wanted := make([]map[string]types.AttributeValue, 0, len(keys))
	for _, key := range keys {
		if !asked[key] {
			asked[key] = true
			wanted = append(wanted, key.Attributes())
		}
	}
	return wanted
}

// pauseUnprocessed waits before what a batch left out is sent again. It fails
// after the last try, and when ctx ends.
func (r *Repository) pauseUnprocessed(ctx context.Context, op string, attempt int, left string) error {
	if attempt == adminTries {
		return r.unavailable(op, fmt.Errorf("%s still unprocessed after %d tries: %w", left, attempt, ddb.ErrUnprocessed))
	}
	if !adminBackoff.Pause(ctx, attempt) {
		return r.unavailable(op, fmt.Errorf("%s unprocessed: %w", left, ctx.Err()))
	}
	return nil
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
		out, err := r.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: pending})
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
		if err := r.pauseUnprocessed(ctx, op, attempt, fmt.Sprintf("%d of %d writes", left, len(requests))); err != nil {
			return err
		}
		pending = out.UnprocessedItems
	}
}
