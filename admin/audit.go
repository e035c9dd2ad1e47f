package admin

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// defaultRetention is how long events are kept by default, and how far back a query looks
// where they are kept for ever.
const defaultRetention = 90 * 24 * time.Hour

// AuditEvents lists administrative changes, the oldest first; without From and Target those of the retention
// time. Those of a Target are read consistently; those of all targets by an index, which may lag behind by a
// moment. It fails with a *ValidationError when To lies before From. An error is the last element.
func (a *Admin) AuditEvents(ctx context.Context, q audit.Query) iter.Seq2[audit.Event, error] {
	if err := a.d.Usable(ctx); err != nil {
		return problem.ErrorList[audit.Event](err)
	}
	now := a.d.Clock.Now()
	if q.To.IsZero() {
		q.To = now.Add(time.Minute) // events of processes with clocks ahead
	}
	if q.From.IsZero() && q.Target == "" {
		kept := a.d.Events.Retention
		if kept == 0 {
			kept = defaultRetention
		}
		q.From = now.Add(-kept)
	}
	if q.To.Before(q.From) {
		return problem.ErrorList[audit.Event](invalid("query.To", "%v lies before From, %v; exchange them", q.To, q.From))
	}
	if q.Target != "" {
		return a.readTargetEvents(ctx, q)
	}
	return func(yield func(audit.Event, error) bool) {
		last := q.To
		if ahead := now.Add(mostAhead); last.After(ahead) {
			last = ahead
		}
		for day := q.From.UTC().Truncate(24 * time.Hour); !day.After(last); day = day.Add(24 * time.Hour) {
			events, err := a.readDayEvents(ctx, day, q)
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

// lastEventID returns an id that sorts after every event of the millisecond of t.
func lastEventID(t time.Time) string { return trail.FirstID(t.Add(time.Millisecond)) }

// mostAhead is the most that a writer's clock may be ahead: later days
// have no events, and are not read.
const mostAhead = 24 * time.Hour

// readTargetEvents returns the events of the query's target and principal between its times, oldest first, read
// consistently. An error is the last element.
func (a *Admin) readTargetEvents(ctx context.Context, query audit.Query) iter.Seq2[audit.Event, error] {
	q := table.Query{
		Op: "read the events", Hash: schema.PK, Value: a.d.Events.Partition(query.Target), Whole: true,
		From: trail.SortPrefix + trail.FirstID(query.From), To: trail.SortPrefix + lastEventID(query.To),
	}
	return func(yield func(audit.Event, error) bool) {
		for item, err := range a.d.Table.Items(ctx, q) {
			if err != nil {
				yield(audit.Event{}, err)
				return
			}
			if e := trail.Decode(item); wantsPrincipal(query, e.Principal) && !yield(e, nil) {
				return
			}
		}
	}
}

// wantsPrincipal reports whether a query includes the events of a principal: it names that one or none.
func wantsPrincipal(q audit.Query, principal string) bool {
	return q.Principal == "" || q.Principal == principal
}

// readDayEvents reads the query's events of one day, of all targets, in the order of time. The index that lists
// them may lag.
func (a *Admin) readDayEvents(ctx context.Context, day time.Time, q audit.Query) ([]audit.Event, error) {
	shards := make([]int, 0, trail.IndexShards)
	if q.Principal != "" {
		shards = append(shards, trail.ShardOf(q.Principal))
	} else {
		for shard := range trail.IndexShards {
			shards = append(shards, shard)
		}
	}
	var keys []schema.Key
	for _, shard := range shards {
		found, err := a.listEventKeys(ctx, a.d.Events.Day(day, shard), q)
		if err != nil {
			return nil, err
		}
		keys = append(keys, found...)
	}
	items, err := a.d.Table.BatchGet(ctx, "read the events", keys)
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

// listEventKeys returns the keys of the events in one partition of the index, one shard of a day, that fit the
// query's times and principal. The index may lag.
func (a *Admin) listEventKeys(ctx context.Context, partition string, query audit.Query) ([]schema.Key, error) {
	q := table.Query{
		Op: "list the events", Index: schema.IndexResource, Hash: schema.GSI2PK, Value: partition,
		Sort: schema.GSI2SK, From: trail.FirstID(query.From), To: lastEventID(query.To),
	}
	var keys []schema.Key
	for item, err := range a.d.Table.Items(ctx, q) {
		if err != nil {
			return nil, err
		}
		key := schema.KeyOf(item)
		if a.d.Events.HasEvent(key) && wantsPrincipal(query, trail.IndexedPrincipal(schema.Text(item, schema.GSI2SK))) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
