package aggregator

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shards"
	"github.com/dynalimit/dynalimit/internal/table"
)

// memoryPage is how many checkpoints one request asks for: they are small.
const memoryPage = 1000

// checkpoints are how far each shard was read, as the table remembers it.
type checkpoints struct {
	table *table.Table
	keys  schema.TailKeys
	now   func() time.Time
}

// readAll reads the stored checkpoints, by shard: one for each shard that a Tail of this name has begun to
// read.
func (c checkpoints) readAll(ctx context.Context) (map[shards.ID]schema.TailCheckpoint, error) {
	all := map[shards.ID]schema.TailCheckpoint{}
	q := table.Query{Op: "read the checkpoints", Hash: schema.PK, Value: c.keys.Partition(), Prefix: c.keys.Checkpoints(), Whole: true, Page: memoryPage}
	for item, err := range c.table.Items(ctx, q) {
		if err != nil {
			return nil, err
		}
		all[schema.TailShardOf(schema.KeyOf(item))] = schema.DecodeTailCheckpoint(item)
	}
	return all, nil
}

// readCheckpoint reads the checkpoint of a shard. It is zero for a shard that no Tail has begun.
func (c checkpoints) readCheckpoint(ctx context.Context, id shards.ID) (schema.TailCheckpoint, error) {
	item, err := c.table.Get(ctx, "read the checkpoint", c.keys.Checkpoint(id))
	return schema.DecodeTailCheckpoint(item), err
}

// storeCheckpoint stores a shard's checkpoint. It writes nothing, without an error, if the stored one is as far
// or further.
func (c checkpoints) storeCheckpoint(ctx context.Context, id shards.ID, to schema.TailCheckpoint) error {
	return c.table.UpdateIf(ctx, "write the checkpoint", c.keys.Checkpoint(id), to.Advance(c.now().Unix()))
}
