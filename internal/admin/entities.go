package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// The actions of entities, as events name them.
const (
	EntityCreated = "entity_created"
	EntityUpdated = "entity_updated"
	EntityDeleted = "entity_deleted"
)

// EntityConflict says that a record is not of the version that a change was planned on.
type EntityConflict struct{ Stored schema.EntityRecord }

// Error names both versions.
func (e *EntityConflict) Error() string {
	return fmt.Sprintf("dynalimit: entity %q was changed meanwhile: it is of version %d", e.Stored.ID, e.Stored.Version)
}

// entityFields are the fields of a record as events show them.
func entityFields(e schema.EntityRecord) trail.Fields {
	fields := trail.Fields{"cascade": e.Cascade}
	for name, text := range map[string]string{"name": e.Name, "parent_id": e.ParentID, "plan": e.Plan, "managed_by": e.ManagedBy} {
		if text != "" {
			fields[name] = text
		}
	}
	if len(e.Metadata) > 0 {
		fields["metadata"] = e.Metadata
	}
	return fields
}

// exists is the error for an entity that cannot be created, because there is a record.
func exists(id string, item schema.Item) error {
	if schema.DecodeLink(item).Deleting {
		return fmt.Errorf("%w: entity %q is being deleted; finish that with Entities.Delete, then create it", problem.ErrExists, id)
	}
	return fmt.Errorf("%w: entity %q has a record; change it with Entities.Update, or delete it first", problem.ErrExists, id)
}

// Create writes an entity's record if it has none. It is created now.
func (a Entities) Create(ctx context.Context, by string, e schema.EntityRecord) error {
	const op = "create the entity"
	e.CreatedAt, e.Version = a.Now(), 1
	key, refused := a.Keys.Meta(e.ID), false
	return a.Table.Change(ctx, op, func() (table.Proposal, error) {
		if refused { // by a record, or because of an ancestor
			item, err := a.Table.Get(ctx, op, key)
			if err == nil && item != nil {
				err = exists(e.ID, item)
			}
			if err != nil {
				return table.Proposal{}, err
			}
		}
		refused = true
		above, err := a.ancestors(ctx, op, e.ID, e.ParentID)
		if err != nil {
			return table.Proposal{}, err
		}
		d := created(by, e, e.Item(a.Keys, nil))
		return a.propose(d, slices.Insert(a.adopt(above), 0, a.Table.Put(d.Is, schema.EntityUnchanged(nil)))...)
	})
}

// created is the making of an entity as it is recorded.
func created(by string, e schema.EntityRecord, item schema.Item) Deed {
	return Deed{By: by, Action: EntityCreated, Target: e.ID, After: entityFields(e), Is: item}
}

// Get reads an entity's record. It fails with problem.ErrNotFound for none, and for
// one whose deletion has begun.
func (a Entities) Get(ctx context.Context, op, id string) (schema.EntityRecord, error) {
	item, err := a.Table.Get(ctx, op, a.Keys.Meta(id))
	if err != nil {
		return schema.EntityRecord{}, err
	}
	return entityIn(item, id)
}

// entityIn is the entity in a record, see Entity.
func entityIn(item schema.Item, id string) (schema.EntityRecord, error) {
	e := schema.DecodeEntity(item)
	e.ID = id
	switch {
	case item == nil:
		return e, fmt.Errorf("%w: entity %q has no record; make one with Entities.Create", problem.ErrNotFound, id)
	case e.Deleting:
		return e, fmt.Errorf("%w: entity %q is being deleted; finish that with Entities.Delete", problem.ErrNotFound, id)
	}
	return e, nil
}

// GetMany reads the records of many entities, in their order; that of an entity without
// one has nothing but its id. One whose deletion has begun is Deleting.
func (a Entities) GetMany(ctx context.Context, op string, ids []string) ([]schema.EntityRecord, error) {
	keys := make([]schema.Key, len(ids))
	for i, id := range ids {
		keys[i] = a.Keys.Meta(id)
	}
	items, err := a.Table.GetMany(ctx, op, keys)
	if err != nil {
		return nil, err
	}
	records := make([]schema.EntityRecord, len(ids))
	for i, item := range items {
		records[i] = schema.DecodeEntity(item)
		records[i].ID = ids[i]
	}
	return records, nil
}
