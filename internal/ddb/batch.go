package ddb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	// MaxBatchGet and MaxBatchWrite are DynamoDB's bounds of one batch.
	MaxBatchGet, MaxBatchWrite = 100, 25
	// MaxTransact is DynamoDB's bound of one transaction.
	MaxTransact = 100
	// batchTries bounds the tries of a batch with unprocessed items.
	batchTries = 8
)

// ErrUnprocessed is the error of a batch that DynamoDB leaves partly undone after the last try: it lacks
// capacity.
var ErrUnprocessed = errors.New("too little capacity, or more than one answer can hold")

// BatchKey is a primary key.
type BatchKey interface {
	comparable
	Attributes() Item // the key as an item
}

// Batches reads and deletes items of one table, many with each request. DynamoDB may process only a part of a
// batch. The rest is sent again after a pause. A rest that stays unprocessed is an error that wraps
// ErrUnprocessed, and never counts as absent or done. Other errors are the client's.
//
// Reading and deleting are idempotent, so the SDK may retry.
type Batches[K BatchKey] struct {
	// Table is the name of the table.
	Table string
	// Backoff is the wait before the rest of a batch is sent again.
	Backoff Backoff
	// KeyOf returns the key of an item that was read. Delete does not use it.
	KeyOf func(Item) K
	// Eventual makes Get read eventually consistent items, at half the price.
	Eventual bool
}

// BatchReader is the client of Get.
type BatchReader interface {
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
}

// BatchWriter is the client of Delete.
type BatchWriter interface {
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
}

// Get returns a map from the keys to their items, consistently read unless Eventual is set. An absent item has
// no entry, and equal keys are sent once. It returns no map with an error: ErrUnprocessed if DynamoDB leaves
// keys unread after the last try, or the client's.
func (b Batches[K]) Get(ctx context.Context, client BatchReader, keys []K) (map[K]Item, error) {
	found := make(map[K]Item, len(keys))
	for wanted := distinctKeys(keys); len(wanted) > 0; {
		all := min(len(wanted), MaxBatchGet)
		left := wanted[:all]
		wanted = wanted[all:]
		for n := 0; len(left) > 0; n++ {
			if n > 0 {
				if err := b.awaitRetry(ctx, "keys", len(left), all, n); err != nil {
					return nil, err
				}
			}
			out, err := client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
				RequestItems: map[string]types.KeysAndAttributes{b.Table: {Keys: left, ConsistentRead: aws.Bool(!b.Eventual)}},
			})
			if err != nil {
				return nil, err
			}
			for _, items := range out.Responses {
				for _, item := range items {
					found[b.KeyOf(item)] = item
				}
			}
			left = nil
			for _, unprocessed := range out.UnprocessedKeys { // of the one table
				left = unprocessed.Keys
			}
		}
	}
	return found, nil
}

// Delete removes the items of any number of keys, 25 with each request; they need not exist, and equal keys are
// sent once. It fails with ErrUnprocessed if some remain after the last try, or with the client's error. Some
// items may be gone then.
func (b Batches[K]) Delete(ctx context.Context, client BatchWriter, keys []K) error {
	for chunk := range slices.Chunk(distinctKeys(keys), MaxBatchWrite) {
		left := make([]types.WriteRequest, len(chunk))
		for i, key := range chunk {
			left[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}}
		}
		for n := 0; len(left) > 0; n++ {
			if n > 0 {
				if err := b.awaitRetry(ctx, "writes", len(left), len(chunk), n); err != nil {
					return err
				}
			}
			out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
				RequestItems: map[string][]types.WriteRequest{b.Table: left},
			})
			if err != nil {
				return err
			}
			left = nil
			for _, unprocessed := range out.UnprocessedItems { // of the one table
				left = unprocessed
			}
		}
	}
	return nil
}

// distinctKeys returns the keys as DynamoDB attribute maps, in order and without repetitions.
func distinctKeys[K BatchKey](keys []K) []Item {
	asked := make(map[K]bool, len(keys))
	wanted := make([]Item, 0, len(keys))
	for _, key := range keys {
		if !asked[key] {
			asked[key] = true
			wanted = append(wanted, key.Attributes())
		}
	}
	return wanted
}

// awaitRetry waits before the next try of a batch, of whose all parts left remain after n tries. It fails after the
// last try or if ctx ends. The error calls the parts by the text parts.
func (b Batches[K]) awaitRetry(ctx context.Context, parts string, left, all, n int) error {
	if n == batchTries {
		return fmt.Errorf("%d of %d %s still unprocessed after %d tries: %w", left, all, parts, n, ErrUnprocessed)
	}
	if !b.Backoff.Pause(ctx, n) {
		return fmt.Errorf("%d of %d %s unprocessed: %w: %w", left, all, parts, ErrUnprocessed, ctx.Err())
	}
	return nil
}
