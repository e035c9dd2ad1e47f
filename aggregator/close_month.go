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

// sumMonth writes the sums of a month from those of its days. A shard lists every day of the
// series that it has.
func (k *closing) sumMonth(ctx context.Context, month time.Time) error {
	groups := usage.NewSums(schema.UsageMonthly, month)
	for shard := range schema.UsageShards {
		series, err := k.seriesOf(ctx, month, shard)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(series, table.PageSize) {
			if err := k.sumSeries(ctx, month, chunk, groups); err != nil {
				return err
			}
		}
	}
	return k.writeSums(ctx, groups.Take())
}

// seriesOf are the series with a sum of a day in a month that a shard lists. The index may
// lack those that were written just now.
func (k *closing) seriesOf(ctx context.Context, month time.Time, shard int) ([]schema.UsageSeries, error) {
	var lists []table.Query
	for day := month; day.Before(schema.UsageMonthly.Next(month)); day = schema.UsageDaily.Next(day) {
		lists = append(lists, indexed(opClose, k.keys.UsageDay(day, shard)))
	}
	keys, err := k.listed(ctx, lists...)
	found := maps.Clone(k.days[shard])
	if found == nil {
		found = map[schema.UsageSeries]bool{}
	}
	for _, key := range keys {
		if s, ok := k.keys.SeriesOf(key); ok {
			found[s] = true
		}
	}
	return slices.Collect(maps.Keys(found)), err
}

// sumSeries writes the monthly sums of entities, and adds those of groups up.
func (k *closing) sumSeries(ctx context.Context, month time.Time, series []schema.UsageSeries, groups *usage.Sums) error {
	items, err := gather(ctx, k.options.Writers, series, func(ctx context.Context, s schema.UsageSeries) ([]schema.Item, error) {
		last := schema.UsageDaily.Floor(schema.UsageMonthly.Next(month).Add(-time.Hour))
		return k.whole(ctx, s.Key(k.keys, month), s.Key(k.keys, last))
	})
	if err != nil {
		return err
	}
	own := usage.NewSums(schema.UsageMonthly, month)
	for _, item := range items {
		sum, err := schema.DecodeUsageSum(item)
		switch {
		case err != nil:
			k.skip(err)
		case sum.Kind == schema.UsageOfEntity:
			own.AddSum(sum)
			groups.CountPlace(sum)
		default:
			groups.AddSum(sum)
		}
	}
	return k.writeSums(ctx, own.Take())
}
