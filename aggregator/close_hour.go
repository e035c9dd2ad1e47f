package aggregator

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// summing sums an hour of a namespace, and the day and the month that end with it.
type summing struct {
	store     *usageStore
	settler   *settler
	course    *course
	retention Retention
	// first is the first hour that was ever closed: what began before it is never final. It is
	// zero where that is not known.
	first time.Time
	// ended are the series of entities with a sum of the day that ends with the hour, by the
	// shard that lists them; nil until they are known.
	ended   map[int][]schema.UsageSeries
	done    ClosedHour
	skipped skipped
}

// sumWindows writes the sums of an hour, and of the day and month that end with it.
func (k *summing) sumWindows(ctx context.Context) error {
	hour := k.course.hour
	end := hour.Add(time.Hour)
	for ; k.course.at.Window < len(usageWindows); k.course.enter(k.course.at.Window+1, 0) {
		w := usageWindows[k.course.at.Window]
		if !end.Equal(w.Floor(end)) {
			return nil
		}
		if k.course.groups == nil || k.course.groups.Window != w {
			k.course.begin(w, w.Floor(hour))
		}
		if err := k.sum(ctx, w, w.Floor(hour)); err != nil {
			return err
		}
		k.course.named = k.course.groups.Names()
	}
	return nil
}

// sum writes the sums of a window. Where sums are there that seem to have been read later, it
// reads and writes once more, as one that began after them: their closer's clock may be
// ahead, and lack what was used, or booked, since.
func (k *summing) sum(ctx context.Context, w schema.UsageWindow, start time.Time) error {
	for before := k.done; ; k.done = before {
		err := k.sumOnce(ctx, w, start)
		if err != nil {
			return err
		}
		later := k.course.later.Swap(0)
		if later == 0 {
			return nil
		}
		k.course.made = max(k.course.clock.Now().UnixMilli(), later)
		k.course.begin(w, start)
	}
}

// sumOnce sums a window shard by shard, and then puts the sums of groups.
func (k *summing) sumOnce(ctx context.Context, w schema.UsageWindow, start time.Time) error {
	sumShard, shards := k.sumDay, schema.UsageShards
	switch w {
	case schema.UsageHourly:
		sumShard, shards = k.sumHour, 1
	case schema.UsageMonthly:
		sumShard = k.sumMonth
	case schema.UsageDaily:
	}
	for ; k.course.at.Shard < shards; k.course.enter(k.course.at.Window, k.course.at.Shard+1) {
		if err := sumShard(ctx, start, k.course.at.Shard); err != nil {
			return err
		}
	}
	return steps(ctx, k.course, k.course.groups.All(), nameOfSum, k.writeSums)
}

func nameOfSum(s schema.UsageSum) string { return string(s.Kind) + " " + s.ID + " " + s.Resource }

// sumHour closes the snapshots of an hour. All of them are one shard: hours are many, and most
// are small.
func (k *summing) sumHour(ctx context.Context, hour time.Time, _ int) error {
	snapshots, err := k.store.listed(ctx, k.store.partitions(hour)...)
	if err != nil {
		return err
	}
	return steps(ctx, k.course, pairsOf(snapshots), pair.name, func(ctx context.Context, pairs []pair) error {
		keys := make([]schema.Key, len(pairs))
		for i, p := range pairs {
			keys[i] = k.store.keys.Usage(p.entity, p.resource, hour)
		}
		items, err := k.store.get(ctx, keys)
		if err != nil {
			return err
		}
		entries, err := k.settler.settle(ctx, items)
		if err != nil {
			return err
		}
		for _, e := range entries {
			k.course.groups.AddGroups(e.Entry)
			k.done.Gaps = append(k.done.Gaps, e.gaps...)
		}
		k.done.Snapshots += len(pairs)
		return nil
	})
}

// writeSums puts sums.
func (k *summing) writeSums(ctx context.Context, sums []schema.UsageSum) error {
	group, ctx := guard.WithContext(ctx)
	group.SetLimit(k.store.atOnce)
	for _, sum := range sums {
		sum.Final, sum.Made = k.course.final && (sum.Window != schema.UsageMonthly || !sum.Start.Before(k.first)), k.course.made
		sum.Expires = k.retention.expires(sum.Window, sum.Start)
		if err := usage.CheckSum(&sum); err != nil {
			k.skipped.note(err)
		}
		group.Go(func() error {
			later, err := k.store.put(ctx, sum)
			if later > 0 {
				k.course.later.Store(later) // any of them: the next one is told of those that are later still
			}
			return err
		})
	}
	err := group.Wait()
	if err == nil {
		k.done.Sums += len(sums)
	}
	return err
}
