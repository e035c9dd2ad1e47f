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
	// noted says that what was summed is kept where the call ends before the closing.
	noted bool
	// at is how far it came, and from where it began in this call. kept is when that was kept.
	at, from schema.UsageCourse
	kept     time.Time
	// groups are the sums of the window that at is in, but those of entities.
	groups *usage.Sums
	// named are the groups that the window before has sums of: the index may lack them yet.
	named map[schema.UsageSeries]bool
	// ended are the series of entities with a sum of the day that ends with the hour, by the
	// shard that lists them; nil until they are known.
	ended map[int][]schema.UsageSeries
	done  ClosedHour
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

// usageWindows are the windows that may end with an hour, in the order in which they are summed.
var usageWindows = []schema.UsageWindow{schema.UsageHourly, schema.UsageDaily, schema.UsageMonthly}

// closing is work on a namespace that begins to read now.
func (c *Closer) closing(keys schema.Keys) *closing {
	now := c.clock.Now()
	return &closing{
		Closer: c, keys: keys, made: now.UnixMilli(), kept: now, records: map[string]*schema.EntityRecord{},
		done: ClosedHour{Namespace: keys.Name()},
	}
}

// closeHour closes an hour, and the day and month that end with it. What it had to leave out
// is skipped. first is the first hour that was ever closed. With a cursor it goes on where the
// closing of the hour ended that is noted there, and notes how far it comes.
func (c *Closer) closeHour(ctx context.Context, keys schema.Keys, hour time.Time, final bool, first time.Time, cursor *schema.UsageCursor) (done ClosedHour, skipped, err error) {
	k := c.closing(keys)
	k.final, k.first, k.done.Hour, k.done.Final = final, first, hour, final
	if k.noted = cursor != nil; k.noted {
		if err := k.resume(ctx, *cursor); err != nil {
			return k.done, nil, err
		}
	}
	if err = k.sumWindows(ctx, hour); err != nil && k.noted {
		_ = k.keep(ctx) // what was not kept is summed again
	}
	return k.done, errors.Join(k.skipped...), err
}

// sumWindows writes the sums of an hour, and of the day and month that end with it.
func (k *closing) sumWindows(ctx context.Context, hour time.Time) error {
	end := hour.Add(time.Hour)
	for ; k.at.Window < len(usageWindows); k.enter(k.at.Window+1, 0) {
		w := usageWindows[k.at.Window]
		if !end.Equal(w.Floor(end)) {
			return nil
		}
		if k.groups == nil || k.groups.Window != w {
			k.begin(w, w.Floor(hour))
		}
		if err := k.sum(ctx, w, w.Floor(hour)); err != nil {
			return err
		}
		k.named = k.groups.Names()
	}
	return nil
}

// begin begins a window.
func (k *closing) begin(w schema.UsageWindow, start time.Time) {
	k.enter(k.at.Window, 0)
	k.groups = usage.NewSums(w, start)
	if w == schema.UsageMonthly {
		for series := range k.named {
			k.groups.Expect(series)
		}
	}
}

// sumAgain makes the sums of a day or a month anew.
func (c *Closer) sumAgain(ctx context.Context, keys schema.Keys, w schema.UsageWindow, start time.Time, final bool, first time.Time) (sums int, skipped, err error) {
	k := c.closing(keys)
	k.final, k.first = final, first
	k.begin(w, start)
	err = k.sum(ctx, w, start)
	return k.done.Sums, errors.Join(k.skipped...), err
}

// sum writes the sums of a window. Where sums are there that seem to have been read later, it
// reads and writes once more, as one that began after them: their closer's clock may be
// ahead, and lack what was used, or booked, since.
func (k *closing) sum(ctx context.Context, w schema.UsageWindow, start time.Time) error {
	for before := k.done; ; k.done = before {
		err := k.sumOnce(ctx, w, start)
		if err != nil {
			return err
		}
		later := k.later.Swap(0)
		if later == 0 {
			return nil
		}
		k.made = max(k.clock.Now().UnixMilli(), later)
		k.begin(w, start)
	}
}

// sumOnce sums a window shard by shard, and then puts the sums of groups.
func (k *closing) sumOnce(ctx context.Context, w schema.UsageWindow, start time.Time) error {
	sumShard, shards := k.sumDay, schema.UsageShards
	switch w {
	case schema.UsageHourly:
		sumShard, shards = k.sumHour, 1
	case schema.UsageMonthly:
		sumShard = k.sumMonth
	case schema.UsageDaily:
	}
	for ; k.at.Shard < shards; k.enter(k.at.Window, k.at.Shard+1) {
		if err := sumShard(ctx, start, k.at.Shard); err != nil {
			return err
		}
	}
	return steps(ctx, k, k.groups.All(), nameOfSum, k.writeSums)
}

func nameOfSum(s schema.UsageSum) string { return string(s.Kind) + " " + s.ID + " " + s.Resource }

// sumHour closes the snapshots of an hour. All of them are one shard: hours are many, and most
// are small.
func (k *closing) sumHour(ctx context.Context, hour time.Time, _ int) error {
	snapshots, err := k.listed(ctx, k.partitions(hour)...)
	if err != nil {
		return err
	}
	return steps(ctx, k, pairsOf(snapshots), pair.name, func(ctx context.Context, pairs []pair) error {
		keys := make([]schema.Key, len(pairs))
		for i, p := range pairs {
			keys[i] = k.keys.Usage(p.entity, p.resource, hour)
		}
		items, err := k.get(ctx, keys)
		if err != nil {
			return err
		}
		entries, err := k.settle(ctx, items)
		if err != nil {
			return err
		}
		for _, e := range entries {
			k.groups.AddGroups(e.Entry)
			k.done.Gaps = append(k.done.Gaps, e.gaps...)
		}
		k.done.Snapshots += len(pairs)
		return nil
	})
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
	}
	err := group.Wait()
	if err == nil {
		k.done.Sums += len(sums)
	}
	return err
}

// get reads items.
func (k *closing) get(ctx context.Context, keys []schema.Key) (items []schema.Item, err error) {
	err = table.Patiently(ctx, func() (err error) {
		items, err = k.table.GetMany(ctx, opClose, keys)
		return err
	})
	return items, err
}
