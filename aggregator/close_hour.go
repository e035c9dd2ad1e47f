package aggregator

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// closing is one hour of a namespace that is being closed.
type closing struct {
	*Closer
	keys  schema.Keys
	final bool
	// first is the first hour that was ever closed: what began before it is never final. It is
	// zero where that is not known.
	first time.Time
	// made is when reading began, in milliseconds since 1970.
	made int64
	// later is when sums seem to have been read that were not replaced, at most.
	later atomic.Int64
	// records are the entities that were read; nil for one that is not there.
	records map[string]*schema.EntityRecord
	// days are the series whose daily sum was written, by the shard that lists them.
	days map[int]map[schema.UsageSeries]bool
	done ClosedHour
	// skipped are why items were left out that cannot be read.
	skipped []error
}

// skip leaves an item out that cannot be read, and tells of it once.
func (k *closing) skip(err error) {
	told := func(e error) bool { return e.Error() == err.Error() }
	if !slices.ContainsFunc(k.skipped, told) {
		k.skipped = append(k.skipped, err)
	}
}

// closing is work on a namespace that begins to read now.
func (c *Closer) closing(keys schema.Keys) *closing {
	return &closing{
		Closer: c, keys: keys, made: c.clock.Now().UnixMilli(), records: map[string]*schema.EntityRecord{},
		days: map[int]map[schema.UsageSeries]bool{}, done: ClosedHour{Namespace: keys.Name()},
	}
}

// closeHour closes an hour, and the day and month that end with it. What it had to leave out
// is skipped. first is the first hour that was ever closed.
func (c *Closer) closeHour(ctx context.Context, keys schema.Keys, hour time.Time, final bool, first time.Time) (done ClosedHour, skipped, err error) {
	k := c.closing(keys)
	k.final, k.first, k.done.Hour, k.done.Final = final, first, hour, final
	end := hour.Add(time.Hour)
	for _, w := range []schema.UsageWindow{schema.UsageHourly, schema.UsageDaily, schema.UsageMonthly} {
		if err == nil && end.Equal(w.Floor(end)) {
			err = k.sum(ctx, w, w.Floor(hour))
		}
	}
	return k.done, errors.Join(k.skipped...), err
}

// sumAgain makes the sums of a day or a month anew.
func (c *Closer) sumAgain(ctx context.Context, keys schema.Keys, w schema.UsageWindow, start time.Time, final bool, first time.Time) (sums int, skipped, err error) {
	k := c.closing(keys)
	k.final, k.first = final, first
	err = k.sum(ctx, w, start)
	return k.done.Sums, errors.Join(k.skipped...), err
}

// sum writes the sums of a window. Where sums are there that seem to have been read later, it
// reads and writes once more, as one that began after them: their closer's clock may be
// ahead, and lack what was used, or booked, since.
func (k *closing) sum(ctx context.Context, w schema.UsageWindow, start time.Time) error {
	for before := k.done; ; k.done = before {
		err := k.sumOnce(ctx, w, start)
		later := k.later.Swap(0)
		if err != nil || later == 0 {
			return err
		}
		k.made = max(k.clock.Now().UnixMilli(), later)
	}
}

func (k *closing) sumOnce(ctx context.Context, w schema.UsageWindow, start time.Time) error {
	switch w {
	case schema.UsageDaily:
		return k.sumDay(ctx, start)
	case schema.UsageMonthly:
		return k.sumMonth(ctx, start)
	default:
		return k.sumHour(ctx, start)
	}
}

// sumHour closes the snapshots of an hour and writes its sums.
func (k *closing) sumHour(ctx context.Context, hour time.Time) error {
	sums := usage.NewSums(schema.UsageHourly, hour)
	snapshots, err := k.listed(ctx, k.partitions(hour)...)
	if err != nil {
		return err
	}
	k.done.Snapshots = len(snapshots)
	for chunk := range slices.Chunk(snapshots, table.PageSize) {
		items, err := k.get(ctx, chunk)
		if err != nil {
			return err
		}
		entries, err := k.settle(ctx, items)
		if err != nil {
			return err
		}
		for _, e := range entries {
			sums.AddGroups(e.Entry)
			k.done.Gaps = append(k.done.Gaps, e.gaps...)
		}
	}
	return k.writeSums(ctx, sums.Take())
}

// partitions are the lists of an hour's snapshots.
func (k *closing) partitions(hour time.Time) []table.Query {
	all := make([]table.Query, schema.UsageShards)
	for shard := range all {
		all[shard] = indexed(opClose, k.keys.UsageHour(hour, shard))
	}
	return all
}

// indexed is a list in the index of entity configurations.
func indexed(op, partition string) table.Query {
	return table.Query{Op: op, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: partition}
}

// listed are the keys of several lists, one list after the other.
func (k *closing) listed(ctx context.Context, lists ...table.Query) ([]schema.Key, error) {
	return gather(ctx, k.options.Writers, lists, func(ctx context.Context, q table.Query) (keys []schema.Key, err error) {
		err = table.Patiently(ctx, func() (err error) {
			keys, err = k.table.Keys(ctx, q)
			return err
		})
		return keys, err
	})
}

// writeSums puts sums.
func (k *closing) writeSums(ctx context.Context, sums []schema.UsageSum) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(k.options.Writers)
	for _, sum := range sums {
		sum.Final, sum.Made = k.final && (sum.Window != schema.UsageMonthly || !sum.Start.Before(k.first)), k.made
		sum.Expires = k.options.Retention.expires(sum.Window, sum.Start)
		if err := usage.CheckSum(&sum); err != nil {
			k.skip(err)
		}
		group.Go(func() error {
			later, err := k.put(ctx, k.keys, sum)
			if later > 0 {
				k.later.Store(later) // any of them: the next one is told of those that are later still
			}
			return err
		})
		if sum.Window == schema.UsageDaily {
			k.wrote(sum)
		}
	}
	k.done.Sums += len(sums)
	return group.Wait()
}

// wrote remembers that the sum of a day was written.
func (k *closing) wrote(sum schema.UsageSum) {
	shard := sum.Shard(k.keys)
	if k.days[shard] == nil {
		k.days[shard] = map[schema.UsageSeries]bool{}
	}
	k.days[shard][sum.UsageSeries] = true
}

// get reads items.
func (k *closing) get(ctx context.Context, keys []schema.Key) (items []schema.Item, err error) {
	err = table.Patiently(ctx, func() (err error) {
		items, err = k.table.GetMany(ctx, opClose, keys)
		return err
	})
	return items, err
}
