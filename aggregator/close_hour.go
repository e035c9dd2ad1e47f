package aggregator

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// closing sums an hour of a namespace, and the day and the month that end with it. It holds its
// sums in memory until a window is complete: one that ends early begins the hour anew.
type closing struct {
	store     *usageStore
	clock     *ddb.Clock
	settler   *settler
	retention schema.UsageRetention
	// first is the first hour that was ever closed: earlier windows are never final. It is
	// zero if unknown.
	first time.Time
	// made is when reading began, in milliseconds since 1970.
	made int64
	// later is the latest time of stored sums that seem to have been read after made. These were
	// not replaced.
	later atomic.Int64
	// groups are the sums of the current window, but those of entities.
	groups *usage.Sums
	// ranking ranks the entities of the hour.
	ranking *usage.Ranking
	// named are the groups that the window before has sums of: the index may lack them yet.
	named map[schema.UsageSeries]bool
	// ended are the series with a sum of the day that ends with the hour, by the shard that lists
	// them; nil until they are known.
	ended map[int][]schema.UsageSeries
	// at is the progress. report publishes it as Closer.Status.
	at      CloseStatus
	report  func(CloseStatus)
	done    ClosedHour
	skipped skipped
}

// sumWindows closes the hour, and the day and the month if they end with it, in this order. It sets k.named
// to the resources, plans and parents with usage in the last closed window.
func (k *closing) sumWindows(ctx context.Context) error {
	end := k.done.Hour.Add(time.Hour)
	for _, w := range []Window{Hour, Day, Month} {
		if !end.Equal(stored[w].Floor(end)) {
			return nil
		}
		if err := k.sumWindow(ctx, w, stored[w].Floor(k.done.Hour)); err != nil {
			return err
		}
		k.named = k.groups.Names()
	}
	return nil
}

// sumWindow computes and stores the sums of a window, for entities too. If stored sums are newer than k.made,
// it repeats with a later k.made: the clock of their closer may be ahead, and they may lack usage.
func (k *closing) sumWindow(ctx context.Context, w Window, start time.Time) error {
	for before := k.done; ; k.done = before {
		k.groups, k.ranking = usage.NewSums(stored[w], start), usage.NewRanking()
		if err := k.sumOnce(ctx, w, start); err != nil {
			return fmt.Errorf("%s: %w", k.at, err)
		}
		later := k.later.Swap(0)
		if later == 0 {
			return nil
		}
		k.made = max(k.clock.Now().UnixMilli(), later)
	}
}

// sumOnce closes a window shard by shard, and then stores the sums of resources, plans and parents, and an
// hour's rankings. It reports the progress in k.at.
func (k *closing) sumOnce(ctx context.Context, w Window, start time.Time) error {
	sumShard, shards := k.sumDay, schema.UsageShards
	switch w {
	case Hour:
		sumShard, shards = k.sumHour, 1
	case Month:
		sumShard = k.sumMonth
	case Day:
	}
	k.at.Window, k.at.Start, k.at.Parts = w, start, shards+1
	for shard := range shards {
		k.at.Part, k.at.Done, k.at.Units = shard+1, 0, 0
		if err := sumShard(ctx, start, shard); err != nil {
			return err
		}
	}
	k.at.Part = shards + 1
	if err := sumSteps(ctx, k, k.groups.All(), k.writeSums); err != nil {
		return err
	}
	return k.writeRankings(ctx, start)
}

// writeRankings stores the rankings of an hour, one item for each resource. Longer windows have none.
func (k *closing) writeRankings(ctx context.Context, hour time.Time) error {
	group, ctx := guard.WithContext(ctx)
	group.SetLimit(k.store.atOnce)
	for _, ranking := range k.ranking.All(hour) {
		ranking.Made, ranking.Expires = k.made, expiryOf(k.retention, schema.UsageHourly, hour)
		group.Go(func() error { return k.store.putRanking(ctx, ranking) })
	}
	return group.Wait()
}

// sumSteps passes units to sum, a page at a time. It sets k.at.Done and calls k.report after each page, and
// stops at the first error.
func sumSteps[T any](ctx context.Context, k *closing, units []T, sum func(context.Context, []T) error) error {
	k.at.Done, k.at.Units = 0, len(units)
	k.report(k.at)
	for chunk := range slices.Chunk(units, table.PageSize) {
		if err := sum(ctx, chunk); err != nil {
			return err
		}
		k.at.Done += len(chunk)
		k.report(k.at)
	}
	return nil
}

// sumHour closes all snapshots of an hour, adds them to k.groups and k.ranking, and records their number and
// gaps in k.done. It ignores the shard and handles all at once, because most hours are small.
func (k *closing) sumHour(ctx context.Context, hour time.Time, _ int) error {
	snapshots, err := k.store.listKeys(ctx, k.store.hourPartitions(hour)...)
	if err != nil {
		return err
	}
	return sumSteps(ctx, k, pairsOf(snapshots), func(ctx context.Context, pairs []pair) error {
		keys := make([]schema.Key, len(pairs))
		for i, p := range pairs {
			keys[i] = k.store.keys.Usage(p.entity, p.resource, hour)
		}
		items, err := k.store.getItems(ctx, keys)
		if err != nil {
			return err
		}
		entries, err := k.settler.settleSnapshots(ctx, items)
		if err != nil {
			return err
		}
		for _, e := range entries {
			k.groups.AddGroups(e.Entry)
			k.ranking.AddEntry(e.Entry)
			k.done.Gaps = append(k.done.Gaps, e.gaps...)
		}
		k.done.Snapshots += len(pairs)
		return nil
	})
}

// writeSums stores sums, atOnce at a time, with their expiry and Final, and adds their number to k.done.Sums
// unless one fails. It stores sums that do not fit in 64 bits too, and records them as skipped. It sets k.later
// to the time of a stored sum that is newer than k.made.
func (k *closing) writeSums(ctx context.Context, sums []schema.UsageSum) error {
	group, ctx := guard.WithContext(ctx)
	group.SetLimit(k.store.atOnce)
	for _, sum := range sums {
		sum.Final, sum.Made = k.at.Final && (sum.Window != schema.UsageMonthly || !sum.Start.Before(k.first)), k.made
		sum.Expires = expiryOf(k.retention, sum.Window, sum.Start)
		if err := usage.CheckSum(&sum); err != nil {
			k.skipped.skipItem(err)
		}
		group.Go(func() error {
			later, err := k.store.putSum(ctx, sum)
			if later > 0 {
				k.later.Store(later) // any of them: the next try sees still later ones
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
