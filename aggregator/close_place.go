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
	"github.com/dynalimit/dynalimit/internal/usage"
)

// settled is what an entity used in an hour that is closed.
type settled struct {
	usage.Entry
	gaps []Gap
}

// settle notes in snapshots, and in items of denials, where their entities stand, unless
// they say so already. Of a pair they are all there are between the first and the last. An
// item that is gone meanwhile is left out.
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
		return cmp.Or(comparePairs(a.pair, b.pair), a.hour.Compare(b.hour), strings.Compare(a.key.SK, b.key.SK))
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

// ours reports whether an item is a snapshot, or denials, of the namespace.
func (k *closing) ours(item schema.Item) bool {
	if len(item) == 0 {
		return false
	}
	key := schema.KeyOf(item)
	if d, denied := schema.DeniedOf(key); denied {
		return d.Keys == k.keys
	}
	keys, _, _, _, ok := schema.UsageOf(key)
	return ok && keys == k.keys && !schema.OthersUsage(item)
}

// settlePair closes items of a pair, one after the other.
func (k *closing) settlePair(ctx context.Context, of []hourly, out []settled) error {
	past := &past{ends: usage.Ends{}}
	for i, h := range of {
		if err := k.look(ctx, h, past); err != nil {
			return err
		}
		if err := k.stamp(ctx, &h, past.place); err != nil {
			return err
		}
		past.place = &h.place
		if h.snapshot == nil {
			out[i].Entry = usage.Entry{Entity: h.entity, Resource: h.resource, Hour: h.hour, Place: h.place, Denied: h.denied}
			continue
		}
		breaks := usage.Breaks(*h.snapshot, past.ends)
		past.ends.Note(*h.snapshot)
		out[i] = settled{usage.EntryOf(h.entity, h.resource, *h.snapshot, h.place, breaks), k.gaps(h, breaks)}
	}
	return nil
}

// hourly is a snapshot, or an item of denials.
type hourly struct {
	pair
	key      schema.Key
	hour     time.Time
	place    schema.UsagePlace
	closed   bool
	snapshot *schema.UsageSnapshot
	denied   map[string]int64
}

func decodeHourly(item schema.Item) (h hourly, err error) {
	h.key = schema.KeyOf(item)
	h.place, h.closed = schema.ClosedPlace(item)
	if d, isDenied := schema.DeniedOf(h.key); isDenied {
		h.entity, h.resource, h.hour = d.Entity, d.Resource, d.Hour
		d, err = schema.DecodeDenied(item)
		h.denied = d.Limits
		return h, err
	}
	_, h.entity, h.resource, h.hour, _ = schema.UsageOf(h.key)
	u, err := schema.DecodeUsage(item)
	h.snapshot = &u
	return h, err
}

// stamp notes where the entity of an item stands, unless that was noted before. One that
// has no record any more stands where it stood before.
func (k *closing) stamp(ctx context.Context, h *hourly, before *schema.UsagePlace) error {
	if h.closed {
		return nil
	}
	place, known := usage.Place(h.entity, k.record)
	if !known && before != nil {
		place = *before
	}
	noted, err := k.update(ctx, h.key, place.Close())
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

func (k *closing) record(entity string) (schema.EntityRecord, bool) {
	if r := k.records[entity]; r != nil {
		return *r, true
	}
	return schema.EntityRecord{}, false
}

// read reads the records of the entities that are to be closed, and of those above them.
func (k *closing) read(ctx context.Context, open []hourly) error {
	for {
		entities := k.unread(open)
		if len(entities) == 0 {
			return nil
		}
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
	}
}

// unread are the entities that say where others stand, as far as what was read shows, and
// were not read.
func (k *closing) unread(open []hourly) []string {
	wanted := map[string]bool{}
	for _, h := range open {
		if h.closed {
			continue
		}
		usage.Place(h.entity, func(entity string) (schema.EntityRecord, bool) {
			if _, have := k.records[entity]; !have {
				wanted[entity] = true
			}
			return k.record(entity)
		})
	}
	return slices.Sorted(maps.Keys(wanted))
}
