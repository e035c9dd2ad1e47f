package aggregator

import (
	"context"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// places are the records of entities, which say where these stand.
type places struct {
	store *usageStore
	// records are the records read so far; nil for an entity without one.
	records map[string]*schema.EntityRecord
}

// mostPlaces bounds the records that are held at once.
const mostPlaces = 10_000

// newPlaces returns an empty cache of entities' records, from which places are computed.
func newPlaces(store *usageStore) *places {
	return &places{store: store, records: map[string]*schema.EntityRecord{}}
}

// hasRecord reports whether readPlaces has found a record of an entity.
func (p *places) hasRecord(entity string) bool { return p.records[entity] != nil }

// placeOf returns the place of an entity by its record, which readPlaces has read. It is zero for
// an entity without a record.
func (p *places) placeOf(entity string) schema.UsagePlace { return usage.Place(p.records[entity]) }

// readPlaces reads and caches the records of the entities of snapshots that are not closed, unless they are
// cached. It empties the cache first if that has more than mostPlaces entries.
func (p *places) readPlaces(ctx context.Context, open []hourly) error {
	if len(p.records) > mostPlaces {
		clear(p.records)
	}
	wanted := map[string]bool{}
	for _, h := range open {
		if _, have := p.records[h.entity]; !h.closed && !have {
			wanted[h.entity] = true
		}
	}
	entities := slices.Sorted(maps.Keys(wanted))
	keys := make([]schema.Key, len(entities))
	for i, entity := range entities {
		keys[i] = p.store.keys.Meta(entity)
	}
	items, err := p.store.getItems(ctx, keys)
	if err != nil {
		return err
	}
	for i, item := range items {
		p.records[entities[i]] = nil
		if item != nil {
			r := schema.DecodeEntity(item)
			p.records[entities[i]] = &r
		}
	}
	return nil
}
