package aggregator

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// silence is for how long nothing was written to a bucket of which no record can come any
// more. Its refill instant may lag behind its last write by an hour.
const silence = usage.FinalAfter + time.Hour

// buckets books what the stream says nothing about any more.
func (r *repair) buckets(ctx context.Context) error {
	registered, err := r.get(ctx, []schema.Key{r.keys.Resources()})
	if err != nil {
		return err
	}
	for _, resource := range schema.ResourceNames(registered[0]) {
		r.resources[resource] = true
	}
	for _, resource := range slices.Sorted(maps.Keys(r.resources)) {
		if err := r.bucketsOf(ctx, resource); err != nil {
			return err
		}
	}
	return nil
}

// bucketsOf books of the buckets of a resource.
func (r *repair) bucketsOf(ctx context.Context, resource string) error {
	keys, err := r.list(ctx, table.Query{
		Op: opRepair, Index: schema.IndexResource, Hash: schema.GSI2PK, Value: r.keys.Resource(resource), Sort: schema.GSI2SK, Prefix: schema.BucketEntries,
	})
	if err != nil {
		return err
	}
	return r.batches(ctx, keys, r.bucket)
}

// batches repairs what is read by keys, many at once.
func (r *repair) batches(ctx context.Context, keys []schema.Key, one func(context.Context, schema.Item) ([]repaired, error)) error {
	for chunk := range slices.Chunk(keys, table.PageSize) {
		items, err := r.get(ctx, chunk)
		if err != nil {
			return err
		}
		found, err := gather(ctx, r.options.Writers, items, one)
		if err != nil {
			return err
		}
		for _, f := range found {
			r.tell(f)
		}
	}
	return nil
}

// bucket books what no snapshot has of a bucket: in the hour when it was written to last,
// or in the last snapshot that there is, if that is later. The bucket is read again after its
// snapshots, which may have what was consumed meanwhile.
func (r *repair) bucket(ctx context.Context, item schema.Item) ([]repaired, error) {
	tried := false
	for {
		p, seen, ok := r.silent(item)
		if !ok {
			return nil, nil
		}
		counters, err := schema.Counters(item)
		if err != nil {
			return nil, err
		}
		rest, done, err := r.rest(ctx, p, schema.UsageHourly.Floor(seen), counters)
		if done.before = tried; err != nil || len(done.bookings) == 0 {
			return []repaired{done}, err
		}
		now, err := r.get(ctx, []schema.Key{schema.KeyOf(item)})
		if err != nil {
			return nil, err
		}
		if !unused(item, now[0]) {
			item = now[0]
			continue
		}
		booked, err := r.book(ctx, rest)
		if booked || err != nil {
			return []repaired{done}, err
		}
		tried = true // another booked it, or this one did and no answer came
	}
}

// unused reports whether nothing was consumed between two looks at a bucket.
func unused(before, after schema.Item) bool {
	old, errOld := schema.Counters(before)
	now, errNow := schema.Counters(after)
	return after != nil && errOld == nil && errNow == nil && maps.Equal(old, now)
}

// silent takes a bucket apart that nothing was written to for so long that no record of it
// can come any more; false for another, and for one that was last written at a time that is
// not to be repaired.
func (r *repair) silent(item schema.Item) (pair, time.Time, bool) {
	_, entity, resource, ok := schema.BucketOf(schema.KeyOf(item))
	seen, wasSeen := schema.BucketSeen(item)
	return pair{entity, resource}, seen, ok && wasSeen && !seen.Add(silence).After(r.options.Now()) && !seen.Before(r.From) && seen.Before(r.To)
}

// rest is what no snapshot has of a bucket, whose last write was in an hour.
func (r *repair) rest(ctx context.Context, p pair, hour time.Time, counters map[string]int64) (schema.UsageRepair, repaired, error) {
	wanted := schema.UsageSnapshot{Spans: map[string]schema.UsageSpan{}}
	for name, n := range counters {
		if n != 0 {
			wanted.Spans[name] = schema.UsageSpan{Limit: name, First: n}
		}
	}
	whole := &past{ends: usage.Ends{}}
	latest := r.options.Now().Add(48 * time.Hour) // later than any
	if err := r.look(ctx, hourly{pair: p, key: r.keys.Meta(p.entity), hour: latest, closed: true, snapshot: &wanted}, whole); err != nil {
		return schema.UsageRepair{}, repaired{}, err
	}
	if last := whole.latest; last != nil && !last.Hour.Before(hour) {
		hour = last.Hour
	} else {
		whole.latest = nil
	}
	to := schema.UsageRepair{
		Keys: r.keys, Entity: p.entity, Resource: p.resource, Hour: hour, Made: whole.latest == nil,
		Bookings: usage.Rest(counters, whole.ends, whole.latest, r.First), Expires: r.options.Retention.expires(schema.UsageHourly, hour),
	}
	return to, repaired{pair: p, hour: hour, bookings: to.Bookings}, nil
}
