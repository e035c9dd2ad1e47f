package aggregator

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shards"
	"github.com/dynalimit/dynalimit/internal/table"
)

// requestTimeout bounds one request, so that nothing waits for ever.
const requestTimeout = 5 * time.Second

// memoryPage is how many checkpoints one request asks for: they are small.
const memoryPage = 1000

// tailStorage is a client with what a Tail never asks for.
type tailStorage struct {
	TailDynamoDB
	never
}

// bounded makes a request that does not take for ever.
func bounded[In, Out, Option any](ctx context.Context, request func(context.Context, In, ...Option) (Out, error), in In, o ...Option) (Out, error) {
	ctx, cancel := ddb.Bound(ctx, requestTimeout)
	defer cancel()
	return request(ctx, in, o...)
}

// checkpoints reads how far all shards were read that somebody began.
func (t *Tail) checkpoints(ctx context.Context) (map[shards.ID]schema.TailCheckpoint, error) {
	all := map[shards.ID]schema.TailCheckpoint{}
	q := table.Query{Op: "look at checkpoints", Hash: schema.PK, Value: t.keys.Partition(), Prefix: t.keys.Checkpoints(), Whole: true, Page: memoryPage}
	for item, err := range t.table.Items(ctx, q) {
		if err != nil {
			return nil, err
		}
		all[schema.TailShardOf(schema.KeyOf(item))] = schema.DecodeTailCheckpoint(item)
	}
	return all, nil
}

// checkpoint reads how far a shard was read.
func (t *Tail) checkpoint(ctx context.Context, id shards.ID) (schema.TailCheckpoint, error) {
	item, err := t.table.Get(ctx, "read the checkpoint", t.keys.Checkpoint(id))
	return schema.DecodeTailCheckpoint(item), err
}

// advance stores how far a shard was read, unless somebody has come further.
func (t *Tail) advance(ctx context.Context, id shards.ID, c schema.TailCheckpoint) error {
	return t.table.UpdateIf(ctx, "write the checkpoint", t.keys.Checkpoint(id), c.Advance(t.options.Now().Unix()))
}
