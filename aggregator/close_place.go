package aggregator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// settled is what an entity used in an hour that is closed.
type settled struct {
	usage.Entry
	gaps []Gap
}

// settle notes in snapshots where their entities stand, unless they say so already, and what
// their counters grew by since the hours before. Of a pair they are all there are between
// the first and the last. An item that is gone meanwhile is left out.
func (k *closing) settle(ctx context.Context, items []schema.Item) ([]settled, error) {
	var open []hourly
	for _, item := range items {
		if !k.ours(item) {
			continue
		}
		h, err := decodeHourly(item)
		if err != nil {
			k.skip(err)
			continue
		}
		open = append(open, h)
	}
	slices.SortFunc(open, func(a, b hourly) int {
		return cmp.Or(comparePairs(a.pair, b.pair), a.hour.Compare(b.hour))
	})
	if err := k.read(ctx, open); err != nil {
		return nil, err
	}
	all := make([]settled, len(open))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(k.options.Writers)
	for from := 0; from < len(open); {
		to := from + 1
		for to < len(open) && open[to].pair == open[from].pair {
			to++
		}
		of, out := open[from:to], all[from:to]
		group.Go(func() error { return k.settlePair(ctx, of, out) })
		from = to
	}
	return all, group.Wait()
}

// ours reports whether an item is a snapshot of the namespace.
func (k *closing) ours(item schema.Item) bool {
	if len(item) == 0 {
		return false
	}
	keys, _, _, _, ok := schema.UsageOf(schema.KeyOf(item))
	return ok && keys == k.keys && !schema.OthersUsage(item)
}

// settlePair closes snapshots of a pair, one after the other.
func (k *closing) settlePair(ctx context.Context, of []hourly, out []settled) error {
	past := &past{ends: usage.Ends{}}
	for i, h := range of {
		if err := k.look(ctx, h, past); err != nil {
			return err
		}
		breaks := usage.Breaks(h.snapshot, past.ends)
		if err := k.stamp(ctx, &h, past.place, usage.Gaps(breaks)); err != nil {
			return err
		}
		past.place = &h.place
		past.ends.Note(h.snapshot)
		out[i] = settled{usage.EntryOf(h.entity, h.resource, h.snapshot, h.place, breaks), k.gaps(h, breaks)}
	}
	return nil
}

// hourly is a snapshot.
type hourly struct {
	pair
	key      schema.Key
	hour     time.Time
	place    schema.UsagePlace
	closed   bool
	snapshot schema.UsageSnapshot
}

func decodeHourly(item schema.Item) (h hourly, err error) {
	h.key = schema.KeyOf(item)
	h.place, h.closed = schema.ClosedPlace(item)
	_, h.entity, h.resource, h.hour, _ = schema.UsageOf(h.key)
	h.snapshot, err = schema.DecodeUsage(item)
	return h, err
}

// stamp notes where the entity of a snapshot stands, unless that was noted before, and what
// its counters grew by since the hours before. An entity that has no record any more stands
// where it stood before.
func (k *closing) stamp(ctx context.Context, h *hourly, before *schema.UsagePlace, gaps map[string]int64) error {
	if h.closed {
		return k.regap(ctx, h, gaps)
	}
	place := usage.Place(k.records[h.entity])
	if k.records[h.entity] == nil && before != nil {
		place = *before
	}
	noted, err := k.update(ctx, h.key, place.Close(gaps))
	if err != nil {
		return err
	}
	if h.place = place; noted {
		return nil
	}
	item, err := k.table.Get(ctx, opClose, h.key) // another closer did, or this one did and no answer came
	if stored, closed := schema.ClosedPlace(item); err == nil && closed {
		h.place = stored
	}
	return err
}

// regap notes what counters grew by since the hours before, where a snapshot that was closed
// says something else: these had more records since.
func (k *closing) regap(ctx context.Context, h *hourly, gaps map[string]int64) error {
	other := maps.Clone(gaps)
	for name, n := range h.snapshot.Gaps {
		if other[name] == n {
			delete(other, name)
		} else if _, there := other[name]; !there {
			other[name] = 0
		}
	}
	if len(other) == 0 {
		return nil
	}
	_, err := k.update(ctx, h.key, schema.Reclose(other))
	return err
}

// read reads the records of the entities of snapshots that are to be closed.
func (k *closing) read(ctx context.Context, open []hourly) error {
	wanted := map[string]bool{}
	for _, h := range open {
		if _, have := k.records[h.entity]; !h.closed && !have {
			wanted[h.entity] = true
		}
	}
	entities := slices.Sorted(maps.Keys(wanted))
	keys := make([]schema.Key, len(entities))
	for i, entity := range entities {
		keys[i] = k.keys.Meta(entity)
	}
	items, err := k.get(ctx, keys)
	if err != nil {
		return err
	}
	for i, item := range items {
		k.records[entities[i]] = nil
		if item != nil {
			r := schema.DecodeEntity(item)
			k.records[entities[i]] = &r
		}
	}
	return nil
}
