package aggregator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

const (
	// mostLive is how many hours that are not closed a query sums at most.
	mostLive = 100
	// idle is the age of its refill instant at which a bucket without a snapshot
	// of the current hour counts as unused.
	idle = 2 * time.Hour
	// readers bounds how many requests one query makes at once.
	readers = 16
)

// sumLive sets a.closed, and a.live to the sums of the query's hours that no Closer has closed, up to the
// current hour. It writes nothing to the table, and fails for more than 100 such hours.
func (s *usageSource) sumLive(ctx context.Context, a *ask) error {
	if err := s.readClosed(ctx, a); err != nil {
		return err
	}
	first, after := s.calendar.Hours(a.from, a.to)
	if first.Before(a.closed) {
		first = a.closed
	}
	after = earlierOf(after, a.openHour().Add(time.Hour))
	if after.Sub(first) > mostLive*time.Hour {
		return fmt.Errorf("aggregator: usage is closed until %s only; run a Closer, or ask for an earlier time", a.closed.Format(time.RFC3339))
	}
	a.live = map[string][]piece{}
	for hour := first; hour.Before(after); hour = hour.Add(time.Hour) {
		if err := s.sumHour(ctx, a, hour); err != nil {
			return err
		}
	}
	return nil
}

// liveHour is an hour that is summed as a Closer does, but stored nowhere.
type liveHour struct {
	store  *usageStore
	places *places
	source *usageSource
	ask    *ask
	hour   time.Time
	sums   *usage.Sums
	// seen are the buckets in the sums.
	seen map[schema.Key]bool
}

// sumHour sums an hour that no Closer has closed, from its snapshots, and appends the sums for the query to
// a.live. For the current hour it also counts buckets without a snapshot. It writes nothing to the table.
func (s *usageSource) sumHour(ctx context.Context, a *ask, hour time.Time) error {
	store := &usageStore{table: s.table, keys: s.keys, atOnce: readers}
	l := &liveHour{
		store: store, places: newPlaces(store), source: s, ask: a, hour: hour,
		sums: usage.NewSums(schema.UsageHourly, hour), seen: map[schema.Key]bool{},
	}
	keys, err := store.listKeys(ctx, store.hourPartitions(hour)...)
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(key schema.Key) bool { return !l.isWanted(key) })
	for chunk := range slices.Chunk(keys, table.PageSize) {
		if err := l.addListed(ctx, chunk); err != nil {
			return err
		}
	}
	if l.isCurrent() {
		if err := l.addUnlisted(ctx); err != nil {
			return err
		}
	}
	for _, sum := range l.sums.All() {
		if sum.Kind == a.Kind && sum.ID == a.ID {
			a.live[sum.Resource] = append(a.live[sum.Resource], piece{start: hour, sum: sum, pending: sum.Pending, open: true})
		}
	}
	return nil
}

// isCurrent reports whether the hour is the current one. Its buckets are ahead of its snapshots.
func (l *liveHour) isCurrent() bool { return l.hour.Equal(l.ask.openHour()) }

// isWanted reports whether a snapshot belongs to the query's resource. A query without a resource
// wants every one.
func (l *liveHour) isWanted(key schema.Key) bool {
	_, _, resource, _, ok := schema.UsageOf(key)
	return ok && (l.ask.Resource == "" || l.ask.Resource == resource)
}

// addListed adds the usage in the snapshots with these keys to the sums, for entities that the query counts,
// and marks their buckets as seen. In the current hour it also adds the growth of the buckets' counters since.
func (l *liveHour) addListed(ctx context.Context, keys []schema.Key) error {
	items, err := l.store.getItems(ctx, keys)
	if err != nil {
		return err
	}
	all, err := l.decodeSnapshots(items)
	if err == nil {
		err = l.places.readPlaces(ctx, all)
	}
	if err != nil {
		return err
	}
	all = l.countingItems(all)
	buckets := make([]schema.Item, len(all))
	if l.isCurrent() {
		of := make([]schema.Key, len(all))
		for i, h := range all {
			of[i] = l.store.keys.Bucket(h.entity, h.resource)
		}
		if buckets, err = l.store.getItems(ctx, of); err != nil {
			return err
		}
	}
	for i, h := range all {
		l.seen[l.store.keys.Bucket(h.entity, h.resource)] = true
		of := l.source.openHourOf(l.ask, h.pair)
		of.ends.AddSnapshot(h.snapshot)
		if err := of.addCounters(ctx, buckets[i]); err != nil {
			return err
		}
		e := usage.EntryOf(h.entity, h.resource, h.snapshot, h.place, nil)
		e = e.WithPending(of.now.pending)
		usage.AddCounts(e.Unseen, of.now.sum.Unseen)
		l.sums.AddGroups(e)
	}
	return nil
}

// decodeSnapshots decodes snapshots, and fails for an unreadable one. It leaves out deleted items and those of
// other tools.
func (l *liveHour) decodeSnapshots(items []schema.Item) (all []hourly, err error) {
	for _, item := range items {
		if !l.store.isOurs(item) {
			continue
		}
		h, err := decodeHourly(item)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// countingItems returns the snapshots of entities that the query counts: those of its plan, parent or
// resource. In snapshots that are not closed it sets the entity's present plan and parents.
func (l *liveHour) countingItems(all []hourly) []hourly {
	var counting []hourly
	for _, h := range all {
		if !h.closed {
			h.place = l.places.placeOf(h.entity)
		}
		if l.countsEntity(h.place) {
			counting = append(counting, h)
		}
	}
	return counting
}

// countsEntity reports whether the query counts an entity with this plan and parents: an entity of the query's
// plan, a child of its parent, or, for a resource, every entity.
func (l *liveHour) countsEntity(p schema.UsagePlace) bool {
	switch l.ask.Kind {
	case schema.UsageOfPlan:
		return p.Plan == l.ask.ID
	case schema.UsageOfChildren:
		return p.Parent == l.ask.ID
	default:
		return true
	}
}
