package aggregator

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// sumDay closes the day's snapshots of a shard of the index, and stores the daily sum of each entity and
// resource in it. It adds their usage to k.groups. It does not add their gaps to k.done.
func (k *closing) sumDay(ctx context.Context, day time.Time, shard int) error {
	pairs, err := k.pairsOfDay(ctx, day, shard)
	if err != nil {
		return err
	}
	return sumSteps(ctx, k, pairs, func(ctx context.Context, pairs []pair) error {
		items, err := gatherAll(ctx, k.store.atOnce, pairs, func(ctx context.Context, p pair) ([]schema.Item, error) {
			return k.readDay(ctx, p, day)
		})
		if err != nil {
			return err
		}
		entries, err := k.settler.settleSnapshots(ctx, items)
		if err != nil {
			return err
		}
		own := usage.NewSums(schema.UsageDaily, day)
		for _, e := range entries {
			own.AddEntity(e.Entry)
		}
		if err := k.writeSums(ctx, own.All()); err != nil {
			return err
		}
		for _, e := range entries {
			k.groups.AddGroups(e.Entry)
		}
		return nil
	})
}

// pairsOfDay returns the pairs of entity and resource with a snapshot on the day, from one shard of the index.
func (k *closing) pairsOfDay(ctx context.Context, day time.Time, shard int) ([]pair, error) {
	var lists []table.Query
	for hour := day; hour.Before(schema.UsageDaily.Next(day)); hour = hour.Add(time.Hour) {
		lists = append(lists, indexQuery(opClose, k.store.keys.UsageHour(hour, shard)))
	}
	snapshots, err := k.store.listKeys(ctx, lists...)
	return pairsOf(snapshots), err
}

// readDay reads the hourly snapshots of a pair on a day, undecoded, in the order of the hours.
func (k *closing) readDay(ctx context.Context, p pair, day time.Time) ([]schema.Item, error) {
	series := schema.UsageSeries{Kind: schema.UsageOfEntity, ID: p.entity, Resource: p.resource, Window: schema.UsageHourly}
	return k.store.itemsInRange(ctx, series.Key(k.store.keys, day), series.Key(k.store.keys, schema.UsageDaily.Next(day).Add(-time.Hour)))
}
