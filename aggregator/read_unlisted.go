package aggregator

import (
	"context"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// addUnlisted adds the usage of entities with a bucket but no snapshot in the current hour, a page of
// entities at a time. They come from an index that may lag.
func (l *liveHour) addUnlisted(ctx context.Context) error {
	var entities []string
	var failed error
	err := forEach(l.candidates(ctx), func(entity string) bool {
		if entities = append(entities, entity); len(entities) == table.PageSize {
			failed = l.addEntities(ctx, entities)
			entities = entities[:0]
		}
		return failed == nil
	})
	if err == nil && failed == nil {
		failed = l.addEntities(ctx, entities)
	}
	if err != nil {
		return err
	}
	return failed
}

// candidates lists the entities that the query may count, from an index that may lag. The list may have empty
// names, which the caller must skip.
func (l *liveHour) candidates(ctx context.Context) list[string] {
	switch l.ask.Kind {
	case schema.UsageOfResource:
		q := table.Query{
			Op: opUsage, Index: schema.IndexResource, Hash: schema.GSI2PK, Value: l.store.keys.Resource(l.ask.Resource), Sort: schema.GSI2SK, Prefix: schema.BucketEntries,
		}
		return l.entityNames(ctx, q, func(item schema.Item) string {
			entity, _, _ := l.store.keys.BucketOwner(schema.KeyOf(item))
			return entity
		})
	case schema.UsageOfChildren:
		q := table.Query{Op: opUsage, Index: schema.IndexChildren, Hash: schema.GSI1PK, Value: l.store.keys.Parent(l.ask.ID)}
		return l.entityNames(ctx, q, func(item schema.Item) string {
			child, _ := schema.Child(item)
			return child
		})
	default:
		shards := make([]list[string], schema.EntityShards)
		for shard := range shards {
			shards[shard] = l.entityNames(ctx, indexQuery(opUsage, l.store.keys.Entities(shard)), schema.ListedEntity)
		}
		return mergeLists(strings.Compare, shards...)
	}
}

// entityNames returns the entity ids that name extracts from the items of a query; "" for an item without one.
func (l *liveHour) entityNames(ctx context.Context, q table.Query, name func(schema.Item) string) list[string] {
	return convertList(l.store.table.Items(ctx, q), func(item schema.Item) (string, error) { return name(item), nil })
}

// addEntities adds the usage of those of the entities that the query counts. It skips empty names.
func (l *liveHour) addEntities(ctx context.Context, entities []string) error {
	all := make([]hourly, 0, len(entities))
	for _, entity := range entities {
		if entity != "" {
			all = append(all, hourly{pair: pair{entity: entity}})
		}
	}
	if err := l.places.readPlaces(ctx, all); err != nil {
		return err
	}
	for _, h := range l.countingItems(all) {
		if err := l.addEntity(ctx, h.entity, h.place); err != nil {
			return err
		}
	}
	return nil
}

// addEntity adds the usage of an entity on the query's resource, or on the resource of each of its buckets if
// the query names none. It skips buckets that are already in the sums.
func (l *liveHour) addEntity(ctx context.Context, entity string, place schema.UsagePlace) error {
	resources := listOf(l.ask.Resource)
	if l.ask.Resource == "" {
		resources = l.source.bucketResources(ctx, entity)
	}
	for resource, err := range resources {
		if err == nil && !l.seen[l.store.keys.Bucket(entity, resource)] {
			err = l.addBucket(ctx, pair{entity, resource}, place)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addBucket adds a bucket's usage in the hour to the sums: its snapshot, if one was just written, and the
// growth of its counters since. It ignores a missing bucket, and one without a claim for two hours.
func (l *liveHour) addBucket(ctx context.Context, of pair, place schema.UsagePlace) error {
	bucket, err := l.store.table.Get(ctx, opUsage, l.store.keys.Bucket(of.entity, of.resource))
	if err != nil || !schema.ClaimedSince(bucket, l.hour.Add(-idle)) {
		return err
	}
	h := l.source.openHourOf(l.ask, of)
	err = forEach(h.storedSnapshots(ctx), func(piece) bool { return true })
	if err == nil {
		err = h.addCounters(ctx, bucket)
	}
	if err != nil || h.now.sum.Net == nil {
		return err
	}
	l.sums.AddGroups(usage.Entry{
		Entity: of.entity, Resource: of.resource, Place: place, Net: h.now.sum.Net, Pending: h.now.pending, Unseen: h.now.sum.Unseen,
	})
	return nil
}
