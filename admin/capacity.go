package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// EntityCapacity is the capacity of one entity's bucket of a resource.
type EntityCapacity struct {
	// EntityID is the entity.
	EntityID string
	// ParentID is the parent that the entity charges too, as far as that has limits. Empty
	// for one that charges none.
	ParentID string
	// Limits are those of the bucket, in name order.
	Limits []LimitCapacity
}

// LimitCapacity is the sum of a limit's tokens in buckets, in whole tokens; each bucket's are rounded
// down.
type LimitCapacity struct {
	// Name is the limit's.
	Name string
	// Capacity is the nominal allowance of the limit per its period, and Burst the most
	// that the buckets hold. Those of a limit that has other periods elsewhere are summed
	// all the same.
	Capacity, Burst int64
	// Remaining is the sum of the tokens now, with their refill; negative in debt.
	Remaining int64
	// Used is the part of Burst that was taken and has not been refilled: more than Burst in debt.
	Used int64
	// Entities is how many buckets are summed.
	Entities int64
}

// Capacity reads the current use of a resource: the buckets that OfResource lists, with their parents, and
// sums. It holds a line for each entity and limit in memory; OfResource lists them one by one.
//
// It returns all entities that have a bucket, in the order of their ids. The sums are of
// each limit, in name order, over the buckets that have it. Of an entity and its parents only the
// highest counts, because its tokens bound those of the others. A parent is left out if its bucket
// lacks the limit, or is not charged for it. It also reads the sources of parents that count by
// their own sources.
func (b Buckets) Capacity(ctx context.Context, resource string) (sums []LimitCapacity, entities []EntityCapacity, err error) {
	var ids []string
	for b, err := range b.OfResource(ctx, resource) {
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, b.EntityID)
		entities = append(entities, EntityCapacity{EntityID: b.EntityID, Limits: capacitiesOf(b)})
	}
	records, err := b.readWithParents(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	charged, err := b.chargedLimits(ctx, resource, entities, records)
	if err != nil {
		return nil, nil, err
	}
	return sumCapacities(entities, records, charged), entities, nil
}

// readWithParents returns the records of entities, and of all parents that their calls charge, by id, read
// consistently and level by level. An entity without a record has an Entity with its id alone.
func (b Buckets) readWithParents(ctx context.Context, ids []string) (map[string]Entity, error) {
	records := map[string]Entity{}
	for depth := 0; len(ids) > 0 && depth < schema.MaxDepth; depth++ {
		read, err := b.d.readEntities(ctx, "read the parents that count", ids, b.d.Table.GetMany)
		if err != nil {
			return nil, err
		}
		for _, e := range read {
			records[e.ID] = e
		}
		parents := map[string]bool{}
		for _, e := range read {
			if _, known := records[e.ParentID]; chargesParent(e) && !known {
				parents[e.ParentID] = true
			}
		}
		ids = slices.Sorted(maps.Keys(parents))
	}
	return records, nil
}

// sumCapacities returns the sums of the entities' limits, in name order, and sets the ParentID of each entity
// in place. It leaves out a limit that a charged parent has too. charged has the limits of parents that calls
// charge only by limits made for them.
func sumCapacities(entities []EntityCapacity, records map[string]Entity, charged map[string]map[string]bool) (all []LimitCapacity) {
	type held struct{ entity, limit string }
	holds := map[held]bool{}
	for _, e := range entities {
		for _, l := range e.Limits {
			holds[held{e.EntityID, l.Name}] = true
		}
	}
	sums := map[string]LimitCapacity{}
	for i := range entities {
		e := &entities[i]
		above := chargedParents(e.EntityID, records)
		if len(above) > 0 {
			e.ParentID = above[0].id
		}
		for _, l := range e.Limits {
			holdsIt := func(p chargedParent) bool {
				// An entity moved between two reads may seem to be above its own parent: the first by name counts.
				circle := e.EntityID < p.id && slices.ContainsFunc(chargedParents(p.id, records), func(q chargedParent) bool { return q.id == e.EntityID })
				return holds[held{p.id, l.Name}] && (p.all || charged[p.id][l.Name]) && !circle
			}
			if !slices.ContainsFunc(above, holdsIt) {
				sumCapacity(sums, l)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, sums[name])
	}
	return all
}

// capacitiesOf returns the capacity of each limit of one entity's bucket, in whole tokens. Used is the burst
// less the remaining tokens.
func capacitiesOf(b Bucket) []LimitCapacity {
	limits := make([]LimitCapacity, len(b.Limits))
	for i, s := range b.Limits {
		limits[i] = LimitCapacity{
			Name: s.Limit.Name, Capacity: s.Limit.Capacity, Burst: s.Limit.Burst, Remaining: s.Remaining, Used: s.Limit.Burst - s.Remaining, Entities: 1,
		}
	}
	return limits
}

// sumCapacity adds a limit of one entity to the sum of its name in sums, in place, and counts the entity.
func sumCapacity(sums map[string]LimitCapacity, l LimitCapacity) {
	sum := sums[l.Name]
	sums[l.Name] = LimitCapacity{
		Name: l.Name, Capacity: sum.Capacity + l.Capacity, Burst: sum.Burst + l.Burst, Remaining: sum.Remaining + l.Remaining,
		Used: sum.Used + l.Used, Entities: sum.Entities + 1,
	}
}
