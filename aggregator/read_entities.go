package aggregator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// found is an item that an index lists: the usage of an entity of a resource in a window.
type found struct {
	pair
	key schema.Key
}

// readEntities yields the usage of every entity, window after window, up to the current one. An error is the
// last element. It stops when yield returns false.
func (s *usageSource) readEntities(ctx context.Context, a ask, yield func(Usage, error) bool) {
	err := s.checkKept(ctx, &a)
	if err == nil {
		err = s.readClosed(ctx, &a)
	}
	for start := a.from; err == nil && start.Before(a.to) && !start.After(a.now); {
		end := s.calendar.Next(stored[a.window], start)
		w := &listing{source: s, ask: a, start: start, more: true, yield: yield}
		err = w.yieldAll(ctx, s.listWindow(ctx, a, start, end))
		if start = end; err == nil && !w.more {
			return
		}
	}
	if err != nil {
		yield(Usage{}, err)
	}
}

// listWindow lists the items with usage in a window, ordered by entity and resource, by an index: the daily
// sums of closed days of UTC, and the snapshots of the other hours.
func (s *usageSource) listWindow(ctx context.Context, a ask, start, end time.Time) list[found] {
	var lists []list[found]
	add := func(q table.Query) { lists = append(lists, s.foundBy(ctx, a, q)) }
	hour, after := s.calendar.Hours(start, earlierOf(end, a.openHour().Add(time.Hour)))
	for hour.Before(after) {
		if day := schema.UsageDaily.Next(hour); a.window != Hour && a.utc && hour.Equal(schema.UsageDaily.Floor(hour)) && !day.After(a.closed) {
			for shard := range schema.UsageShards {
				q := indexQuery(opUsage, s.keys.UsageDay(hour, shard))
				q.Sort, q.Prefix = schema.GSI3SK, s.keys.Entity("")
				add(q)
			}
			hour = day
			continue
		}
		for shard := range schema.UsageShards {
			add(indexQuery(opUsage, s.keys.UsageHour(hour, shard)))
		}
		hour = hour.Add(time.Hour)
	}
	return mergeLists(func(a, b found) int {
		return cmp.Or(strings.Compare(a.entity, b.entity), strings.Compare(a.resource, b.resource))
	}, lists...)
}

// foundBy lists the items of entities that the query q of an index finds. It leaves out other resources if a
// names one.
func (s *usageSource) foundBy(ctx context.Context, a ask, q table.Query) list[found] {
	return func(yield func(found, error) bool) {
		for item, err := range s.table.Items(ctx, q) {
			f, ok := s.foundAs(schema.KeyOf(item))
			if err == nil && (!ok || a.Resource != "" && f.resource != a.Resource) {
				continue
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// foundAs returns the entity and resource in the key of a snapshot or of an entity's daily sum; false for any
// other key.
func (s *usageSource) foundAs(key schema.Key) (found, bool) {
	if _, entity, resource, _, ok := schema.UsageOf(key); ok {
		return found{pair{entity, resource}, key}, true
	}
	of, ok := s.keys.SeriesOf(key)
	return found{pair{of.ID, of.Resource}, key}, ok && of.Kind == schema.UsageOfEntity
}

// listing is a window in the reading of every entity's usage.
type listing struct {
	source *usageSource
	ask    ask
	start  time.Time
	// batch are items that are read at once: all items of some entities and
	// resources.
	batch []found
	more  bool
	yield func(Usage, error) bool
}

// yieldAll reads the items that the list all found and yields their usage, in order. It reads about a page at a
// time, and the items of one entity and resource together. It ends without an error when the caller stops.
func (l *listing) yieldAll(ctx context.Context, all list[found]) error {
	var failed error
	err := forEach(all, func(f found) bool {
		if n := len(l.batch); n >= table.PageSize && l.batch[n-1].pair != f.pair {
			failed = l.yieldBatch(ctx)
		}
		l.batch = append(l.batch, f)
		return failed == nil && l.more
	})
	if err = cmp.Or(err, failed); err != nil || !l.more {
		return err
	}
	return l.yieldBatch(ctx)
}

// yieldBatch reads the items of the batch, yields their usage for each entity and resource, and empties the
// batch. It stops when the caller does, with l.more = false.
func (l *listing) yieldBatch(ctx context.Context) error {
	keys := make([]schema.Key, len(l.batch))
	for i, f := range l.batch {
		keys[i] = f.key
	}
	items, err := l.source.table.GetMany(ctx, opUsage, keys)
	if err != nil {
		return err
	}
	for from := 0; from < len(items) && l.more; {
		to := from + 1
		for to < len(items) && l.batch[to].pair == l.batch[from].pair {
			to++
		}
		if err := l.yieldSum(ctx, l.batch[from].pair, items[from:to]); err != nil {
			return err
		}
		from = to
	}
	l.batch = l.batch[:0]
	return nil
}

// yieldSum yields the usage of one entity and resource in the window: the sum of its items and, in the current
// hour, the bucket's growth since. It yields nothing if all items are gone. It sets l.more to false if the
// caller stops.
func (l *listing) yieldSum(ctx context.Context, of pair, items []schema.Item) error {
	h := l.source.openHourOf(&l.ask, of)
	var pieces []piece
	for _, item := range items {
		if len(item) == 0 {
			continue // gone since the index was read
		}
		p, err := l.decodePiece(h, item)
		if err != nil {
			return err
		}
		pieces = append(pieces, p)
	}
	if len(pieces) == 0 {
		return nil
	}
	w := l.source.newWindow(l.ask.window, l.start)
	if open := l.ask.openHour(); !open.Before(w.start) && open.Before(w.end) {
		if err := h.addPending(ctx); err != nil {
			return err
		}
		if h.now.sum.Net != nil {
			pieces = append(pieces, h.now)
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return a.start.Compare(b.start) })
	for i := range pieces {
		w.addPiece(&pieces[i])
	}
	l.more = w.yieldTo(h.ask, l.yield)
	return nil
}

// decodePiece decodes an item, a snapshot or a stored sum, as a piece of usage. It adds the last values of a
// snapshot's counters to h.ends.
func (l *listing) decodePiece(h *hours, item schema.Item) (piece, error) {
	if _, _, _, _, hourly := schema.UsageOf(schema.KeyOf(item)); !hourly {
		return pieceOfSum(item)
	}
	p, u, err := pieceOfSnapshot(l.ask, item)
	h.ends.AddSnapshot(u)
	return p, err
}
