package aggregator

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shards"
	"github.com/dynalimit/dynalimit/internal/table"
)

// requestTimeout bounds one request, so that nothing waits for ever.
const requestTimeout = 5 * time.Second

// memoryPage is how many of what followers remember one request asks for: they are small.
const memoryPage = 1000

// store is the table in which a Tail keeps what it remembers. It has each request bounded.
type store struct {
	table.Client // what is never called
	api          TailDynamoDB
	name         string
	table        *table.Table
}

// GetItem implements table.Client.
func (s store) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return bounded(ctx, s.api.GetItem, in, o...)
}

// Query implements table.Client.
func (s store) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return bounded(ctx, s.api.Query, in, o...)
}

// UpdateItem implements table.Client.
func (s store) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return bounded(ctx, s.api.UpdateItem, in, o...)
}

// TransactWriteItems implements table.Client.
func (s store) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return bounded(ctx, s.api.TransactWriteItems, in, o...)
}

// bounded makes a request that does not take for ever.
func bounded[In, Out, Option any](ctx context.Context, request func(context.Context, In, ...Option) (Out, error), in In, o ...Option) (Out, error) {
	ctx, cancel := ddb.Bound(ctx, requestTimeout)
	defer cancel()
	return request(ctx, in, o...)
}

// leases reads which shards are read, and who is there.
func (t *Tail) leases(ctx context.Context) (schema.TailMemory, error) {
	from, to := t.keys.Leases()
	return t.remembered(ctx, table.Query{Op: "look at leases", From: from, To: to})
}

// checkpoints reads how far all shards were read.
func (t *Tail) checkpoints(ctx context.Context) (map[shards.ID]schema.TailCheckpoint, error) {
	m, err := t.remembered(ctx, table.Query{Op: "look at checkpoints", Prefix: t.keys.Checkpoints()})
	return m.Checkpoints, err
}

// remembered reads what the followers of the stream remember.
func (t *Tail) remembered(ctx context.Context, q table.Query) (schema.TailMemory, error) {
	q.Hash, q.Value, q.Whole, q.Page = schema.PK, t.keys.Partition(), true, memoryPage
	var items []schema.Item
	for item, err := range t.store.table.Items(ctx, q) {
		if err != nil {
			return schema.TailMemory{}, err
		}
		items = append(items, item)
	}
	return schema.DecodeTail(items), nil
}

// checkpoint reads how far a shard was read.
func (t *Tail) checkpoint(ctx context.Context, id shards.ID) (schema.TailCheckpoint, error) {
	item, err := t.store.table.Get(ctx, "read the checkpoint", t.keys.Checkpoint(id))
	return schema.DecodeTailCheckpoint(item), err
}

// advance stores how far a shard was read, unless somebody has come further.
func (t *Tail) advance(ctx context.Context, id shards.ID, c schema.TailCheckpoint) error {
	return t.store.table.UpdateIf(ctx, "write the checkpoint", t.keys.Checkpoint(id), c.Advance(t.options.Now().Unix()))
}

// forget deletes a lease that nobody needs any more, unless somebody holds it. It expires if
// that fails.
func (t *Tail) forget(ctx context.Context, key schema.Key) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	_, _ = t.store.table.Transact(ctx, []types.TransactWriteItem{t.store.table.Delete(key, schema.LeaseIsFree())})
}
