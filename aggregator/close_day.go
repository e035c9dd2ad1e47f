package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// pair is what an entity used of a resource.
type pair struct{ entity, resource string }

// shard is the partition that lists it in every hour.
func (p pair) shard() int { return schema.UsageShard(p.entity, p.resource) }

// name is that of a pair among all, in the order of shards.
func (p pair) name() string { return fmt.Sprintf("%02d#%s#%s", p.shard(), p.entity, p.resource) }

// comparePairs puts pairs in the order in which totals are made of them: that of the lists.
func comparePairs(a, b pair) int {
	return cmp.Or(cmp.Compare(a.shard(), b.shard()), strings.Compare(a.entity, b.entity), strings.Compare(a.resource, b.resource))
}

// sumDay writes the sums of a day: those of an entity and a resource from the day's
// snapshots, and adds the same to those of groups.
func (k *closing) sumDay(ctx context.Context, day time.Time, shard int) error {
	pairs, err := k.pairsOfDay(ctx, day, shard)
	if err != nil {
		return err
	}
	return steps(ctx, k, pairs, pair.name, func(ctx context.Context, pairs []pair) error {
		items, err := gather(ctx, k.options.Writers, pairs, func(ctx context.Context, p pair) ([]schema.Item, error) {
			return k.ofDay(ctx, p, day)
		})
		if err != nil {
			return err
		}
		entries, err := k.settle(ctx, items)
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

// pairsOfDay are the pairs of a shard on a day: it lists every hour of those that it has.
func (k *closing) pairsOfDay(ctx context.Context, day time.Time, shard int) ([]pair, error) {
	var lists []table.Query
	for hour := day; hour.Before(schema.UsageDaily.Next(day)); hour = hour.Add(time.Hour) {
		lists = append(lists, indexed(opClose, k.keys.UsageHour(hour, shard)))
	}
	snapshots, err := k.listed(ctx, lists...)
	return pairsOf(snapshots), err
}

// pairsOf are those of snapshots, each once.
func pairsOf(snapshots []schema.Key) []pair {
	found := map[pair]bool{}
	for _, key := range snapshots {
		if _, entity, resource, _, ok := schema.UsageOf(key); ok {
			found[pair{entity, resource}] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// gather reads something of each of several, so many at once, and returns all of it.
func gather[A, B any](ctx context.Context, atOnce int, of []A, read func(context.Context, A) ([]B, error)) ([]B, error) {
	found := make([][]B, len(of))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, one := range of {
		group.Go(func() (err error) {
			found[i], err = read(ctx, one)
			return err
		})
	}
	err := group.Wait()
	return slices.Concat(found...), err
}

// ofDay are the snapshots of a pair on a day.
func (k *closing) ofDay(ctx context.Context, p pair, day time.Time) ([]schema.Item, error) {
	series := schema.UsageSeries{Kind: schema.UsageOfEntity, ID: p.entity, Resource: p.resource, Window: schema.UsageHourly}
	return k.whole(ctx, series.Key(k.keys, day), series.Key(k.keys, schema.UsageDaily.Next(day).Add(-time.Hour)))
}

// whole are the items of a range of keys.
func (k *closing) whole(ctx context.Context, first, last schema.Key) (items []schema.Item, err error) {
	q := keyRange(opClose, first.PK, first, last)
	err = table.Patiently(ctx, func() error {
		items = nil
		for item, err := range k.table.Items(ctx, q) {
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		return nil
	})
	return items, err
}
