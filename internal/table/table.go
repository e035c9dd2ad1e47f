package table

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Client reads and changes a table.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Table is one table. Its fields are set once, before it is used.
type Table struct {
	Client Client
	// Name is the table's name or ARN.
	Name string
	// RetryAfter returns the time until a table that does not answer is asked again; 0
	// when that is not known. If it is nil, it never is.
	RetryAfter func() time.Duration
	// Readable refuses a table with another meaning of its items. Every read
	// calls it first; nil refuses no table.
	Readable func(context.Context) error
	// Guard is a condition of every Change; nil for none.
	Guard *Guard
}

// checkReadable returns the error of t.Readable, which refuses a table with another meaning of its items. It
// returns nil without that function.
func (t *Table) checkReadable(ctx context.Context) error {
	if t.Readable == nil {
		return nil
	}
	return t.Readable(ctx)
}

// Backoff is the wait between the tries of administrative work.
var Backoff = ddb.Backoff{First: 25 * time.Millisecond, Most: time.Second}

// Get reads one item consistently, and returns nil if it does not exist. It returns the error of t.Readable,
// or one that Failure formulates. The SDK may retry reads: they are idempotent.
func (t *Table) Get(ctx context.Context, op string, key schema.Key) (schema.Item, error) {
	if err := t.checkReadable(ctx); err != nil {
		return nil, err
	}
	out, err := t.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.Name, Key: key.Attributes(), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, t.Failure(op, err)
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	return out.Item, nil
}

// batches returns the reader and deleter of many items of this table. It sends nothing.
func (t *Table) batches() ddb.Batches[schema.Key] {
	return ddb.Batches[schema.Key]{Table: t.Name, Backoff: Backoff, KeyOf: schema.KeyOf}
}

// BatchGet returns a map from the keys to their items, consistently read, 100 with each request. An absent item
// has no entry. op names the operation in errors.
func (t *Table) BatchGet(ctx context.Context, op string, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	if err := t.checkReadable(ctx); err != nil {
		return nil, err
	}
	found, err := t.batches().Get(ctx, t.Client, keys)
	if err != nil {
		return nil, t.Failure(op, err)
	}
	return found, nil
}

// mostBatches is the number of parallel batches of GetMany: together more than a connection or
// two can carry, and too few to crowd out the calls of a limiter that shares the client.
const mostBatches = 8

// GetMany reads items consistently, up to eight batches at once, and returns them in the order of the keys; nil
// for an absent one. Keys may repeat themselves. The first error ends it.
func (t *Table) GetMany(ctx context.Context, op string, keys []schema.Key) ([]schema.Item, error) {
	return t.getMany(ctx, op, t.batches(), keys)
}

// GetManyEventually returns items as GetMany does, but by eventually consistent reads, at half the price. An
// item may lack the changes of the last moment.
func (t *Table) GetManyEventually(ctx context.Context, op string, keys []schema.Key) ([]schema.Item, error) {
	batches := t.batches()
	batches.Eventual = true
	return t.getMany(ctx, op, batches, keys)
}

// getMany reads items by batches of read, up to eight at a time, and returns them in the order of keys, which
// may be repeated. An absent item is nil. op names the operation in errors.
func (t *Table) getMany(ctx context.Context, op string, read ddb.Batches[schema.Key], keys []schema.Key) ([]schema.Item, error) {
	if err := t.checkReadable(ctx); err != nil {
		return nil, err
	}
	places := make(map[schema.Key][]int, len(keys))
	distinct := make([]schema.Key, 0, len(keys))
	for i, key := range keys {
		if places[key] == nil {
			distinct = append(distinct, key)
		}
		places[key] = append(places[key], i)
	}
	items := make([]schema.Item, len(keys))
	batches, ctx := guard.WithContext(ctx)
	batches.SetLimit(mostBatches)
	for chunk := range slices.Chunk(distinct, PageSize) {
		batches.Go(func() error {
			found, err := read.Get(ctx, t.Client, chunk)
			for key, item := range found {
				for _, i := range places[key] {
					items[i] = item
				}
			}
			return t.Failure(op, err)
		})
	}
	if err := batches.Wait(); err != nil {
		return nil, err
	}
	return items, nil
}

// BatchDelete removes items, which need not exist, without a condition, 25 with each request. Deletions are
// idempotent, so the SDK may retry them. An error may leave some of them deleted.
func (t *Table) BatchDelete(ctx context.Context, op string, keys []schema.Key) error {
	return t.Failure(op, t.batches().Delete(ctx, t.Client, keys))
}

// UpdateIf updates an item if the statement's condition holds; otherwise it does nothing and returns nil. It
// returns other errors as Failure words them. The update must be safe to send twice.
func (t *Table) UpdateIf(ctx context.Context, op string, key schema.Key, st schema.Statement) error {
	_, err := t.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &t.Name, Key: key.Attributes(),
		UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
	})
	if VerdictOf(err) == ddb.Refused {
		return nil
	}
	return t.Failure(op, err)
}
