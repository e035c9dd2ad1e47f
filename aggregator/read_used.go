package aggregator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// looking bounds how many partitions are looked through at once.
const looking = 16

// Used says that an entity used a resource. It is a plain value.
type Used struct {
	// Resource is what was used.
	Resource string
	// Entity is who used it.
	Entity string
}

// Used lists who used what in the hours of a query, as far as the stream has brought it, in
// the order of resources and then of entities. Hours are listed by an index, for as long as
// they are kept (ReaderOptions.Retention): a query costs 16 requests for each of its hours,
// at least half a read unit each. It fails with a *ValidationError for a bad query.
func (r *Reader) Used(ctx context.Context, q Query) ([]Used, error) {
	a, err := r.check(ctx, schema.UsageSeries{Kind: schema.UsageOfEntity, ID: "any"}, q)
	if err != nil {
		return nil, err
	}
	from, to := r.listed(a)
	found := map[Used]bool{}
	var mu sync.Mutex
	group, going := errgroup.WithContext(ctx)
	group.SetLimit(looking)
	for hour := from; hour.Before(to) && going.Err() == nil; hour = hour.Add(time.Hour) {
		for shard := range schema.UsageShards {
			group.Go(func() error {
				return each(r.usedIn(going, hour, shard), func(u Used) bool {
					mu.Lock()
					defer mu.Unlock()
					found[u] = found[u] || q.Resource == "" || u.Resource == q.Resource
					return true
				})
			})
		}
	}
	if err := cmp.Or(group.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	var all []Used
	for u, wanted := range found {
		if wanted {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b Used) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Entity, b.Entity))
	})
	return all, nil
}

// listed are the hours of a query that an index may list: those that are kept, up to now.
func (r *Reader) listed(a ask) (from, to time.Time) {
	from, to = r.calendar.Hours(a.from, a.to)
	if last := a.openHour().Add(2 * time.Hour); to.After(last) { // by DynamoDB's clock it may be the next hour
		to = last
	}
	if r.retention > 0 {
		if oldest := a.now.UTC().Add(-r.retention).Truncate(time.Hour); from.Before(oldest) {
			from = oldest
		}
	}
	return from, to
}

// usedIn is who used what in an hour, of one of its partitions of the index.
func (r *Reader) usedIn(ctx context.Context, hour time.Time, shard int) list[Used] {
	q := table.Query{Op: opUsage, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: r.keys.UsageHour(hour, shard)}
	return convert(r.table.Items(ctx, q), func(item schema.Item) (Used, error) {
		entity, resource, _ := strings.Cut(schema.Text(item, schema.GSI3SK), "#")
		return Used{resource, entity}, nil
	})
}
