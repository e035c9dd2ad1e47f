package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// Entities are the records of entities.
type Entities struct{ lineage }

// Create writes an entity's record, with a parent, a plan, a name and
// metadata; limits need none. CreatedAt is set to now, in whole seconds, and Version to 1.
// It fails with ErrExists if there is a record, and with a *ValidationError for
// bad input, a parent in deletion, a cycle of parents or a chain deeper than 8
// levels. The parent needs no record.
//
// Concurrent creates and moves never make a cycle, and no chain
// of records deeper than 8. Two things can still make a deeper one: a child that the index
// of children does not show yet, which may take a moment, and a parent whose record is
// made after its children's, of which 100 are checked. Then an acquire charges the 8
// nearest levels, or is refused (dynalimit.ErrTooDeep).
func (n Entities) Create(ctx context.Context, e Entity) error {
	if err := e.Validate(); err != nil {
		return err
	}
	record := recordOf(e)
	if err := n.d.checkChange(ctx); err != nil {
		return err
	}
	if err := n.d.checkParentCounts(ctx, record); err != nil {
		return err
	}
	defer n.d.Told.Entities(map[string]bool{e.ID: true})
	const op = "create the entity"
	record.CreatedAt, record.Version = n.d.Clock.Now(), 1
	key, refused := n.d.Keys.Meta(e.ID), false
	return n.d.Table.Change(ctx, op, func() (table.Proposal, error) {
		if refused { // by a record, or because of an ancestor
			item, err := n.d.Table.Get(ctx, op, key)
			if err == nil && item != nil {
				err = existsError(e.ID, item)
			}
			if err != nil {
				return table.Proposal{}, err
			}
		}
		refused = true
		above, err := n.readAncestors(ctx, op, e.ID, e.ParentID)
		if err != nil {
			return table.Proposal{}, err
		}
		what := createDeed(record, record.Item(n.d.Keys, nil))
		return n.d.propose(what, slices.Insert(n.requireAncestors(above), 0, n.d.Table.PutPart(what.is, schema.EntityUnchanged(nil)))...)
	})
}

// createDeed returns the deed of creating an entity, from which its audit event is made. item is the new
// record.
func createDeed(e schema.EntityRecord, item schema.Item) deed {
	return deed{action: "entity_created", target: e.ID, after: entityFields(e), is: item}
}

// entityFields returns the content of an entity's record for an event, without empty fields, id, version and
// times. cascade is always there.
func entityFields(e schema.EntityRecord) trail.Fields {
	fields := trail.Fields{"cascade": e.Cascade}
	if e.CountsByOwn() {
		fields["parent_counts"] = true
	}
	if e.Detached && e.ParentID == "" {
		fields["detached"] = true
	}
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

// existsError returns ErrExists, with its fix, for creating an entity that has the record item already, perhaps
// in deletion.
func existsError(id string, item schema.Item) error {
	if schema.DecodeLink(item).Deleting {
		return &problem.Fixable{Err: fmt.Errorf("%w: entity %q is being deleted; create it after you finish that", ErrExists, id), Fix: fault.DeleteEntity}
	}
	return &problem.Fixable{Err: fmt.Errorf("%w: entity %q has a record; delete it first, or change it", ErrExists, id), Fix: fault.UpdateEntity}
}

// Get returns an entity's record. It fails with ErrNotFound if there is
// none, and if its deletion has begun and was not finished: the error says which.
func (n Entities) Get(ctx context.Context, id string) (Entity, error) {
	if err := cmp.Or(n.d.Usable(ctx), checkEntityID("id", id)); err != nil {
		return Entity{}, err
	}
	item, err := n.d.Table.Get(ctx, "read the entity", n.d.Keys.Meta(id))
	if err != nil {
		return Entity{}, err
	}
	e, err := decodeEntity(item, id)
	if err != nil {
		return Entity{}, err
	}
	return entityOf(e), nil
}

// decodeEntity decodes an entity's record, nil if missing, and sets its ID to id. It returns ErrNotFound, with
// its fix, for a missing record and for one in deletion.
func decodeEntity(item schema.Item, id string) (schema.EntityRecord, error) {
	e := schema.DecodeEntity(item)
	e.ID = id
	switch {
	case item == nil:
		return e, &problem.Fixable{Err: fmt.Errorf("%w: entity %q has no record; make one", ErrNotFound, id), Fix: fault.CreateEntity}
	case e.Deleting:
		return e, &problem.Fixable{Err: fmt.Errorf("%w: entity %q is being deleted; finish that", ErrNotFound, id), Fix: fault.DeleteEntity}
	}
	return e, nil
}

// GetMany is Entities.Get for many ids, which may be repeated. It
// returns the entities in the order of the list, read consistently, 100 with each request
// and 800 at once. A missing record is not an error: the entity then has its ID alone, with
// Version 0 and the zero CreatedAt. A record of another tool has Version 0 too, and a
// CreatedAt. An entity in deletion is Deleting.
func (n Entities) GetMany(ctx context.Context, ids []string) ([]Entity, error) {
	if err := cmp.Or(n.d.Usable(ctx), checkEntityIDs(ids)); err != nil {
		return nil, err
	}
	return n.d.readEntities(ctx, "read entities", ids, n.d.Table.GetMany)
}

// GetManyEventually is GetMany with eventually consistent reads, at half the price: a record may lack the changes of
// the last moment.
func (n Entities) GetManyEventually(ctx context.Context, ids []string) ([]Entity, error) {
	if err := cmp.Or(n.d.Usable(ctx), checkEntityIDs(ids)); err != nil {
		return nil, err
	}
	return n.d.readEntities(ctx, "read entities", ids, n.d.Table.GetManyEventually)
}

// checkEntityIDs returns a *ValidationError unless all ids are valid.
func checkEntityIDs(ids []string) error {
	for i, id := range ids {
		if err := checkEntityID(fmt.Sprintf("ids[%d]", i), id); err != nil {
			return err
		}
	}
	return nil
}

// readEntities reads the records of entities with the function read, and decodes them in the order of ids. An
// entity without a record has its id alone; one in deletion is Deleting.
func (d *desk) readEntities(ctx context.Context, op string, ids []string, read func(context.Context, string, []schema.Key) ([]schema.Item, error)) ([]Entity, error) {
	keys := make([]schema.Key, len(ids))
	for i, id := range ids {
		keys[i] = d.Keys.Meta(id)
	}
	items, err := read(ctx, op, keys)
	if err != nil {
		return nil, err
	}
	entities := make([]Entity, len(ids))
	for i, item := range items {
		entities[i] = entityOf(schema.DecodeEntity(item))
		entities[i].ID = ids[i]
	}
	return entities, nil
}
