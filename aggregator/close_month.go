package aggregator

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// sumMonth adds up the days of a month for each series in a shard, which lists every day of its series. It
// stores the sums of entities, and adds those of resources, plans and parents to k.groups.
func (k *closing) sumMonth(ctx context.Context, month time.Time, shard int) error {
	series, err := k.seriesOf(ctx, month, shard)
	if err != nil {
		return err
	}
	return sumSteps(ctx, k, series, func(ctx context.Context, series []schema.UsageSeries) error {
		return k.sumSeries(ctx, month, series)
	})
}

// seriesOf returns the series of a shard with a sum on any day of a month, sorted. It adds those of the day
// that just ended, which the index may not show yet.
func (k *closing) seriesOf(ctx context.Context, month time.Time, shard int) ([]schema.UsageSeries, error) {
	if err := k.loadEndedSeries(ctx); err != nil {
		return nil, err
	}
	var lists []table.Query
	for day := month; day.Before(schema.UsageMonthly.Next(month)); day = schema.UsageDaily.Next(day) {
		lists = append(lists, indexQuery(opClose, k.store.keys.UsageDay(day, shard)))
	}
	keys, err := k.store.listKeys(ctx, lists...)
	found := map[schema.UsageSeries]bool{}
	for _, s := range k.ended[shard] {
		found[s] = true
	}
	for _, key := range keys {
		if s, ok := k.store.keys.SeriesOf(key); ok {
			found[s] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), usage.CompareSeries), err
}

// loadEndedSeries sets k.ended: the series with a sum of the day that ends with the hour, by shard. It lists
// the day's snapshots and adds the groups of k.named. It does nothing if no hour is being closed, or if k.ended
// is set.
func (k *closing) loadEndedSeries(ctx context.Context) error {
	if k.done.Hour.IsZero() || k.ended != nil {
		return nil
	}
	ended := map[int][]schema.UsageSeries{}
	add := func(s schema.UsageSeries) {
		s.Window = schema.UsageDaily
		shard := s.Shard(k.store.keys)
		ended[shard] = append(ended[shard], s)
	}
	for shard := range schema.UsageShards {
		pairs, err := k.pairsOfDay(ctx, schema.UsageDaily.Floor(k.done.Hour), shard)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			add(schema.UsageSeries{Kind: schema.UsageOfEntity, ID: p.entity, Resource: p.resource})
		}
	}
	for series := range k.named {
		add(series)
	}
	k.ended = ended
	return nil
}

// sumSeries reads the daily sums of several series and stores the monthly sums of entities. It adds those of
// resources, plans and parents to k.groups, which the caller stores. An unreadable sum is recorded as skipped.
func (k *closing) sumSeries(ctx context.Context, month time.Time, series []schema.UsageSeries) error {
	items, err := gatherAll(ctx, k.store.atOnce, series, func(ctx context.Context, s schema.UsageSeries) ([]schema.Item, error) {
		last := schema.UsageDaily.Floor(schema.UsageMonthly.Next(month).Add(-time.Hour))
		return k.store.itemsInRange(ctx, s.Key(k.store.keys, month), s.Key(k.store.keys, last))
	})
	if err != nil {
		return err
	}
	own := usage.NewSums(schema.UsageMonthly, month)
	var ofGroups, ofEntities []schema.UsageSum
	for _, item := range items {
		sum, err := schema.DecodeUsageSum(item)
		switch {
		case err != nil:
			k.skipped.skipItem(err)
		case sum.Kind == schema.UsageOfEntity:
			own.AddSum(sum)
			ofEntities = append(ofEntities, sum)
		default:
			ofGroups = append(ofGroups, sum)
		}
	}
	if err := k.writeSums(ctx, own.All()); err != nil {
		return err
	}
	for _, sum := range ofEntities {
		k.groups.CountEntity(sum)
	}
	for _, sum := range ofGroups {
		k.groups.AddSum(sum)
	}
	return nil
}
