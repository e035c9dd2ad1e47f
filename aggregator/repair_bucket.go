package aggregator

import (
	"context"
	"fmt"
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
		bucket, err := usage.DecodeBucket(item)
		if err != nil {
			key := schema.KeyOf(item)
			return []repaired{{unreadable: fmt.Errorf("item %q, %q: %w; correct the item, or delete it", key.PK, key.SK, err)}}, nil
		}
		rest, err := r.rest(ctx, p, schema.UsageHourly.Floor(seen), bucket)
		if rest.done.before = tried; err != nil || len(rest.done.bookings) == 0 {
			return []repaired{rest.done}, err
		}
		now, err := r.get(ctx, []schema.Key{schema.KeyOf(item)})
		if err != nil {
			return nil, err
		}
		if !unused(item, now[0]) {
			item = now[0]
			continue
		}
		booked, err := r.bookRest(ctx, rest)
		if booked || err != nil {
			return []repaired{rest.done}, err
		}
		tried = true // another booked it, or this one did and no answer came
	}
}

// unused reports whether two looks at a key show one bucket, and nothing was consumed between
// them.
func unused(before, after schema.Item) bool {
	old, errOld := usage.DecodeBucket(before)
	now, errNow := usage.DecodeBucket(after)
	return after != nil && errOld == nil && errNow == nil && old.Of == now.Of && maps.Equal(old.Counters, now.Counters)
}

// silent takes a bucket apart that nothing was written to for so long that no record of it
// can come any more; false for another, and for one that was last written at a time that is
// not to be repaired.
func (r *repair) silent(item schema.Item) (pair, time.Time, bool) {
	_, entity, resource, ok := schema.BucketOf(schema.KeyOf(item))
	seen, wasSeen := schema.BucketSeen(item)
	return pair{entity, resource}, seen, ok && wasSeen && !seen.Add(silence).After(r.options.Now()) && !seen.Before(r.From) && seen.Before(r.To)
}

// rest is what no snapshot has of a bucket.
type rest struct {
	schema.UsageRepair
	// ends are those of an earlier bucket, in the snapshot that it is booked in.
	ends []schema.UsageEnd
	done repaired
}

// bookRest books a rest, after it has ended counters of an earlier bucket; false if counters
// are not what they were.
func (r *repair) bookRest(ctx context.Context, of rest) (bool, error) {
	for _, e := range of.ends {
		if r.DryRun {
			break
		}
		if ended, err := r.update(ctx, e.Key, e.Statement()); !ended || err != nil {
			return false, err
		}
	}
	return r.book(ctx, of.UsageRepair)
}

// rest is what no snapshot has of a bucket, whose last write was in an hour.
func (r *repair) rest(ctx context.Context, p pair, hour time.Time, bucket usage.Bucket) (rest, error) {
	wanted := schema.UsageSnapshot{Spans: map[string]schema.UsageSpan{}}
	for name, n := range bucket.Counters {
		if n != 0 {
			wanted.Spans[name] = schema.UsageSpan{Limit: name, First: n}
		}
	}
	whole := &past{ends: usage.Ends{}}
	latest := r.options.Now().Add(48 * time.Hour) // later than any
	if err := r.look(ctx, hourly{pair: p, key: r.keys.Meta(p.entity), hour: latest, closed: true, snapshot: &wanted}, whole); err != nil {
		return rest{}, err
	}
	to := rest{}
	last := whole.latest
	if last != nil && !last.Hour.Before(hour) {
		hour = last.Hour
		var after schema.UsageSnapshot
		to.ends, after = last.Ends(r.keys.Usage(p.entity, p.resource, hour), bucket.Of)
		last = &after
	} else {
		last = nil
	}
	to.UsageRepair = schema.UsageRepair{
		Keys: r.keys, Entity: p.entity, Resource: p.resource, Hour: hour, Made: last == nil, Bucket: bucket.Of,
		Bookings: usage.Rest(bucket, whole.ends, last, r.First), Expires: r.options.Retention.expires(schema.UsageHourly, hour),
	}
	to.done = repaired{pair: p, hour: hour, bookings: to.Bookings}
	if len(to.Bookings) == 0 {
		return rest{done: to.done}, nil
	}
	to.done.gaps = r.unseen(&to, usage.Unseen(bucket, whole.ends, to.Bookings, hour))
	return to, nil
}

// unseen are the ends of counters of earlier buckets that a rest tells of: in the hour, and
// before it.
func (r *repair) unseen(of *rest, before []usage.Break) (all []Gap) {
	gap := Gap{Namespace: r.keys.Name(), Entity: of.Entity, Resource: of.Resource, Hour: of.Hour, Unseen: 1}
	for _, e := range of.ends {
		for _, s := range e.Counters {
			g := gap
			g.Limit = s.Limit
			all = append(all, g)
		}
	}
	for _, b := range before {
		g := gap
		g.Limit, g.Kind, g.Since = b.Limit, GapKind(b.Kind), b.Since
		all = append(all, g)
	}
	return all
}
