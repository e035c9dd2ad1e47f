package aggregator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// looking bounds how many partitions are looked through at once.
const looking = 16

// Used says that an entity used a resource. It is a plain value.
type Used struct {
	// Resource is the used resource.
	Resource string
	// Entity is its user.
	Entity string
}

// Used lists the resources and their users in the hours of a query, as far as the stream has brought
// them, in the order of resources and then of entities. It reads an index: 16 requests for each final day
// of UTC, and for each other hour, at least half a read unit each; none for
// times before the table was made (ReaderOptions.Began). Days are
// listed for as long as their sums are kept, hours by the table's retention. It fails with a
// *ValidationError for a bad query, and as the other lists do for hours that are not kept.
func (r *Reader) Used(ctx context.Context, q Query) ([]Used, error) {
	a, err := r.checkQuery(ctx, schema.UsageSeries{Kind: schema.UsageOfEntity, ID: "any"}, q)
	if err != nil {
		return nil, err
	}
	items, err := r.source.table.GetMany(ctx, opUsage, []schema.Key{r.source.keys.UsageClosed(), schema.UsageKept()})
	if err != nil {
		return nil, endOf(ctx, err)
	}
	cursor, err := schema.DecodeUsageCursor(items[0])
	kept, unreadable := schema.DecodeUsageRetention(items[1])
	if err := cmp.Or(err, unreadable); err != nil {
		return nil, err
	}
	if err := r.source.refuseGone(&a, kept); err != nil {
		return nil, err
	}
	if first := schema.UsageDaily.Floor(r.source.firstHour(cursor)); first.After(a.from) {
		a.from = first
	}
	s := &search{source: &r.source, resource: q.Resource, first: cursor.First, found: map[Used]bool{}}
	group, going := guard.WithContext(ctx)
	group.SetLimit(looking)
	days, hours := r.source.splitHours(a, cursor.Final, kept.Oldest(a.now))
	for _, day := range days {
		group.Go(func() error { return s.searchDay(going, day) })
	}
	for _, hour := range hours {
		for shard := range schema.UsageShards {
			group.Go(func() error { return s.searchHour(going, hour, shard) })
		}
	}
	if err := endOf(ctx, cmp.Or(group.Wait(), ctx.Err())); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Keys(s.found), func(a, b Used) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Entity, b.Entity))
	}), nil
}

// splitHours splits the hours of a query into whole days of UTC that ended by final, and single hours. It ends
// with the hour after the current one, and leaves out hours before oldest, but no days.
func (s *usageSource) splitHours(a ask, final, oldest time.Time) (days, hours []time.Time) {
	at, to := s.calendar.Hours(a.from, a.to)
	if last := a.openHour().Add(2 * time.Hour); to.After(last) { // by DynamoDB's clock it may be the next hour
		to = last
	}
	oldest = oldest.UTC().Truncate(time.Hour)
	for at.Before(to) {
		next := schema.UsageDaily.Next(at)
		if at.Equal(schema.UsageDaily.Floor(at)) && !next.After(to) && !next.After(final) {
			days, at = append(days, at), next
			continue
		}
		if !at.Before(oldest) {
			hours = append(hours, at)
		}
		at = at.Add(time.Hour)
	}
	return days, hours
}

// search looks for resources and their users.
type search struct {
	source   *usageSource
	resource string // "" for all
	// first is the first hour that was closed; zero where that is not known.
	first time.Time

	mu    sync.Mutex
	found map[Used]bool
}

// searchDay adds to s.found the entities and resources with a sum on a day. If the day has no sums, and is
// before the first closed hour or that hour is unknown, it searches each hour.
func (s *search) searchDay(ctx context.Context, day time.Time) error {
	none := s.first.IsZero() || day.Before(s.first)
	for shard := range schema.UsageShards {
		err := forEach(s.source.table.Items(ctx, indexQuery(opUsage, s.source.keys.UsageDay(day, shard))), func(item schema.Item) bool {
			none = false
			if series, ok := s.source.keys.SeriesOf(schema.KeyOf(item)); ok && series.Kind == schema.UsageOfEntity {
				s.addUsed(Used{series.Resource, series.ID})
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	for hour := day; none && hour.Before(schema.UsageDaily.Next(day)); hour = hour.Add(time.Hour) {
		for shard := range schema.UsageShards {
			if err := s.searchHour(ctx, hour, shard); err != nil {
				return err
			}
		}
	}
	return nil
}

// searchHour adds to s.found the entities and resources with a snapshot in one shard of an hour.
func (s *search) searchHour(ctx context.Context, hour time.Time, shard int) error {
	return forEach(s.source.table.Items(ctx, indexQuery(opUsage, s.source.keys.UsageHour(hour, shard))), func(item schema.Item) bool {
		if _, entity, resource, _, ok := schema.UsageOf(schema.KeyOf(item)); ok {
			s.addUsed(Used{resource, entity})
		}
		return true
	})
}

// addUsed adds an entity and its resource to s.found, unless the search is for another resource or the usage is
// of failed logins. It takes s.mu.
func (s *search) addUsed(u Used) {
	if (s.resource == "" || u.Resource == s.resource) && !schema.FormerlyOwn(u.Entity, u.Resource) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.found[u] = true
	}
}
