package aggregator

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// skipped are why items were left out that cannot be read.
type skipped []error

// skipItem records the error of an item that is left out of the sums, unless one with the same text is
// recorded.
func (s *skipped) skipItem(err error) {
	told := func(e error) bool { return e.Error() == err.Error() }
	if !slices.ContainsFunc(*s, told) {
		*s = append(*s, err)
	}
}

// settler closes snapshots: it stores their entities' plans and parents, and the growth of their
// counters since the hours before.
type settler struct {
	store   *usageStore
	places  *places
	skipped *skipped
}

// settled is the usage of an entity in a closed hour.
type settled struct {
	usage.Entry
	gaps []Gap
}

// settleSnapshots closes snapshots: it stores in each, once, the plan and parents of its entity and the gaps
// since the hours before. It returns their usage, ordered by shard, entity, resource and hour, without deleted
// items; unreadable ones are recorded as skipped. items must be all snapshots of an entity and resource between
// the first and the last.
func (s *settler) settleSnapshots(ctx context.Context, items []schema.Item) ([]settled, error) {
	var open []hourly
	for _, item := range items {
		if !s.store.isOurs(item) {
			continue
		}
		h, err := decodeHourly(item)
		if err != nil {
			s.skipped.skipItem(err)
			continue
		}
		open = append(open, h)
	}
	slices.SortFunc(open, func(a, b hourly) int {
		return cmp.Or(comparePairs(a.pair, b.pair), a.hour.Compare(b.hour))
	})
	if err := s.places.readPlaces(ctx, open); err != nil {
		return nil, err
	}
	all := make([]settled, len(open))
	group, ctx := guard.WithContext(ctx)
	group.SetLimit(s.store.atOnce)
	for from := 0; from < len(open); {
		to := from + 1
		for to < len(open) && open[to].pair == open[from].pair {
			to++
		}
		of, out := open[from:to], all[from:to]
		group.Go(func() error { return s.settlePair(ctx, of, out) })
		from = to
	}
	return all, group.Wait()
}

// settlePair closes the snapshots of one entity and resource, given in the order of their hours: it stores
// place and gaps in each. It sets the elements of out to their usage.
func (s *settler) settlePair(ctx context.Context, of []hourly, out []settled) error {
	past := &past{ends: usage.Ends{}}
	for i, h := range of {
		if err := past.lookBack(ctx, s.store, h, s.places.hasRecord(h.entity) || h.closed); err != nil {
			return err
		}
		breaks := usage.Breaks(h.snapshot, past.ends)
		if err := s.stampPlace(ctx, &h, past.place, usage.Gaps(breaks)); err != nil {
			return err
		}
		past.place = &h.place
		past.ends.AddSnapshot(h.snapshot)
		out[i] = settled{usage.EntryOf(h.entity, h.resource, h.snapshot, h.place, breaks), hourGaps(s.store.keys.Name(), h, breaks)}
	}
	return nil
}

// stampPlace stores the entity's plan and parents, and gaps, in a snapshot, and sets h.place to the plan and
// parents that are then stored. A closed snapshot gets only the gaps. An entity without a record gets before,
// its plan and parents in the earlier hour, unless that is nil.
func (s *settler) stampPlace(ctx context.Context, h *hourly, before *schema.UsagePlace, gaps map[string]int64) error {
	if h.closed {
		return s.updateGaps(ctx, h, gaps)
	}
	place := s.places.placeOf(h.entity)
	if !s.places.hasRecord(h.entity) && before != nil {
		place = *before
	}
	noted, err := s.store.updateItem(ctx, h.key, place.CloseSnapshot(gaps))
	if err != nil {
		return err
	}
	if h.place = place; noted {
		return nil
	}
	item, err := s.store.table.Get(ctx, opClose, h.key) // another closer did, or this one did and no answer came
	if stored, closed := schema.ClosedPlace(item); err == nil && closed {
		h.place = stored
	}
	return err
}

// updateGaps stores gaps, by limit, in the closed snapshot h if they differ from its own, because earlier hours
// got further records since. A limit without a gap now gets 0. For equal gaps it writes nothing.
func (s *settler) updateGaps(ctx context.Context, h *hourly, gaps map[string]int64) error {
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
	_, err := s.store.updateItem(ctx, h.key, schema.SetGaps(other))
	return err
}
