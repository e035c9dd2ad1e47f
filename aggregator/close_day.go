package aggregator

import (
	"cmp"
	"context"
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

// comparePairs puts pairs in the order in which totals are made of them: that of the lists.
func comparePairs(a, b pair) int {
	return cmp.Or(cmp.Compare(a.shard(), b.shard()), strings.Compare(a.entity, b.entity), strings.Compare(a.resource, b.resource))
}

// sumDay writes the sums of a day: those of an entity and a resource from the day's
// snapshots, and those of groups from the same. A shard lists every hour of the pairs that
// it has, so one is looked at after the other.
func (k *closing) sumDay(ctx context.Context, day time.Time) error {
	groups := usage.NewSums(schema.UsageDaily, day)
	denied, err := k.deniedOn(ctx, day)
	if err != nil {
		return err
	}
	for shard := range schema.UsageShards {
		var lists []table.Query
		for hour := day; hour.Before(schema.UsageDaily.Next(day)); hour = hour.Add(time.Hour) {
			lists = append(lists, indexed(opClose, k.keys.UsageHour(hour, shard)))
		}
		snapshots, err := k.listed(ctx, lists...)
		if err != nil {
			return err
		}
		if err := k.sumShard(ctx, day, pairsOf(snapshots, denied[shard]), groups); err != nil {
			return err
		}
	}
	return k.writeTotals(ctx, groups)
}

// deniedOn are the keys of a day's denials, by the shard of their pair.
func (k *closing) deniedOn(ctx context.Context, day time.Time) (map[int][]schema.Key, error) {
	var lists []table.Query
	for hour := day; hour.Before(schema.UsageDaily.Next(day)); hour = hour.Add(time.Hour) {
		lists = append(lists, k.deniedIn(hour))
	}
	keys, err := k.listed(ctx, lists...)
	shards := map[int][]schema.Key{}
	for _, key := range keys {
		if d, ok := schema.DeniedOf(key); ok {
			shard := schema.UsageShard(d.Entity, d.Resource)
			shards[shard] = append(shards[shard], key)
		}
	}
	return shards, err
}

// pairsOf are those of snapshots and denials, with the keys of their denials.
func pairsOf(snapshots, denied []schema.Key) map[pair][]schema.Key {
	pairs := map[pair][]schema.Key{}
	for _, key := range snapshots {
		if _, entity, resource, _, ok := schema.UsageOf(key); ok {
			pairs[pair{entity, resource}] = nil
		}
	}
	for _, key := range denied {
		if d, ok := schema.DeniedOf(key); ok {
			p := pair{d.Entity, d.Resource}
			pairs[p] = append(pairs[p], key)
		}
	}
	return pairs
}

// sumShard writes the daily sums of pairs, and adds what they used to those of groups.
func (k *closing) sumShard(ctx context.Context, day time.Time, pairs map[pair][]schema.Key, groups *usage.Sums) error {
	for chunk := range slices.Chunk(slices.SortedFunc(maps.Keys(pairs), comparePairs), table.PageSize) {
		items, err := gather(ctx, k.options.Writers, chunk, func(ctx context.Context, p pair) ([]schema.Item, error) {
			return k.ofDay(ctx, p, day, pairs[p])
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
			groups.AddGroups(e.Entry)
		}
		if err := k.writeSums(ctx, own.Take()); err != nil {
			return err
		}
	}
	return nil
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

// ofDay are the snapshots of a pair on a day, and its denials.
func (k *closing) ofDay(ctx context.Context, p pair, day time.Time, denied []schema.Key) (items []schema.Item, err error) {
	series := schema.UsageSeries{Kind: schema.UsageOfEntity, ID: p.entity, Resource: p.resource, Window: schema.UsageHourly}
	first, last := series.Key(k.keys, day), series.Key(k.keys, schema.UsageDaily.Next(day).Add(-time.Hour))
	items, err = k.whole(ctx, first, last)
	if err != nil {
		return nil, err
	}
	more, err := k.get(ctx, denied)
	return append(items, more...), err
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
