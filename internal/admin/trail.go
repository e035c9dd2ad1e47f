package admin

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// Search says which events are wanted: those of a target, or those of every target in a
// range of time.
type Search struct {
	// Target is what was changed; empty for everything.
	Target string
	// Principal is who changed it; empty for everybody.
	Principal string
	// From and To bound the events' times, both included.
	From, To time.Time
}

// lastOf is an id above those of a moment.
func lastOf(t time.Time) string { return trail.FirstID(t.Add(time.Millisecond)) }

// mostAhead is how far the clock of whoever makes a change may be ahead: days after that
// have no events, and are not asked for.
const mostAhead = 24 * time.Hour

// Find lists events in the order of their times. Those of a target are read
// consistently; those of all targets by an index, which may lag behind by a moment.
func (a Trail) Find(ctx context.Context, s Search) iter.Seq2[audit.Event, error] {
	if s.Target != "" {
		return a.trailOf(ctx, s)
	}
	return func(yield func(audit.Event, error) bool) {
		last := s.To
		if ahead := a.Now().Add(mostAhead); last.After(ahead) {
			last = ahead
		}
		for day := s.From.UTC().Truncate(24 * time.Hour); !day.After(last); day = day.Add(24 * time.Hour) {
			events, err := a.dayOf(ctx, day, s)
			if err != nil {
				yield(audit.Event{}, err)
				return
			}
			if !table.YieldAll(events, yield) {
				return
			}
		}
	}
}

func (a Trail) trailOf(ctx context.Context, s Search) iter.Seq2[audit.Event, error] {
	q := table.Query{
		Op: "read the events", Hash: schema.PK, Value: a.Events.Partition(s.Target), Whole: true,
		From: trail.SortPrefix + trail.FirstID(s.From), To: trail.SortPrefix + lastOf(s.To),
	}
	return func(yield func(audit.Event, error) bool) {
		for item, err := range a.Table.Items(ctx, q) {
			if err != nil {
				yield(audit.Event{}, err)
				return
			}
			if e := trail.Decode(item); s.wants(e.Principal) && !yield(e, nil) {
				return
			}
		}
	}
}

func (s Search) wants(principal string) bool { return s.Principal == "" || s.Principal == principal }

// dayOf are the events of a day that are wanted, in the order of their times.
func (a Trail) dayOf(ctx context.Context, day time.Time, s Search) ([]audit.Event, error) {
	shards := make([]int, 0, trail.IndexShards)
	if s.Principal != "" {
		shards = append(shards, trail.ShardOf(s.Principal))
	} else {
		for shard := range trail.IndexShards {
			shards = append(shards, shard)
		}
	}
	var keys []schema.Key
	for _, shard := range shards {
		found, err := a.indexed(ctx, a.Events.Day(day, shard), s)
		if err != nil {
			return nil, err
		}
		keys = append(keys, found...)
	}
	items, err := a.Table.BatchGet(ctx, "read the events", keys)
	if err != nil {
		return nil, err
	}
	events := make([]audit.Event, 0, len(items))
	for _, item := range items {
		events = append(events, trail.Decode(item))
	}
	slices.SortFunc(events, func(x, y audit.Event) int { return strings.Compare(x.ID, y.ID) })
	return events, nil
}

// indexed are the keys of the events that a partition of the index lists.
func (a Trail) indexed(ctx context.Context, partition string, s Search) ([]schema.Key, error) {
	q := table.Query{
		Op: "list the events", Index: schema.IndexResource, Hash: schema.GSI2PK, Value: partition,
		Sort: schema.GSI2SK, From: trail.FirstID(s.From), To: lastOf(s.To),
	}
	var keys []schema.Key
	for item, err := range a.Table.Items(ctx, q) {
		if err != nil {
			return nil, err
		}
		key := schema.KeyOf(item)
		if a.Events.Has(key) && s.wants(trail.IndexedPrincipal(schema.Text(item, schema.GSI2SK))) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
