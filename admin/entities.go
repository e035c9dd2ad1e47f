package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Entities are the records of entities.
type Entities struct{ d *desk }

// Create writes an entity's record, so that it has a parent, a plan, a name and
// metadata; limits need none. CreatedAt is set to now, in whole seconds, and Version to 1.
// It fails with ErrExists when there is a record, and with a *ValidationError for
// bad input, a parent that is being deleted, a cycle of parents or a chain deeper than 8
// levels. The parent needs no record.
//
// However many records are made and moved at once, there is never a cycle, and no chain
// of records deeper than 8. Two things can still make one deeper: a child that the index
// of children does not show yet, which may take a moment, and a parent whose record is
// made after its children's, of which 100 are looked at. Then an acquire charges the 8
// nearest levels.
func (n Entities) Create(ctx context.Context, e Entity) error {
	if err := n.d.repo.Usable(ctx); err != nil {
		return err
	}
	if err := checkEntity(e); err != nil {
		return err
	}
	return n.changeEntity(ctx, e.ID, func(by string) error {
		return n.d.repo.Items.Entities.Create(ctx, by, recordOf(e))
	})
}

// Update replaces the name, the metadata, the parent, the cascade and the plan of an
// entity, and returns the record as it is then; ID, Version and CreatedAt are those that
// Get returned. If somebody changed the record since, it fails with an
// *EntityConflictError that shows both. It fails with ErrNotFound when there is no record,
// and with a *ValidationError as Entities.Create does. Writing what is stored already does
// nothing.
//
// What the entity's buckets hold stays. The new parent and plan are in force in this
// process at once, in others within their ConfigTTL.
func (n Entities) Update(ctx context.Context, e Entity) (Entity, error) {
	if err := n.d.repo.Usable(ctx); err != nil {
		return Entity{}, err
	}
	if err := checkUpdate(e); err != nil {
		return Entity{}, err
	}
	var updated schema.EntityRecord
	err := n.changeEntity(ctx, e.ID, func(by string) (err error) {
		updated, err = n.d.repo.Items.Entities.Update(ctx, by, recordOf(e))
		return err
	})
	if err != nil {
		return Entity{}, orConflict(e, err)
	}
	return entityOf(updated), nil
}

// UpdateMany is Entities.Update for many entities, each once: 49 in each transaction, with
// their events, so that ten thousand take seconds. Those that get another parent are changed
// one by one, 8 at once, for each move looks at its ancestors; the others come first.
//
// It returns an error for each entity, nil for one that is as it was given, in their order;
// see Entities.Update. Its Version is then one above that which was given, unless that was
// stored already. If the input is bad it returns a single *ValidationError, and nothing was
// written. Once the table does not serve, or ctx has ended, the rest fails with that error.
func (n Entities) UpdateMany(ctx context.Context, entities []Entity) ([]error, error) {
	if err := n.d.repo.Usable(ctx); err != nil {
		return nil, err
	}
	changed, records := make(map[string]bool, len(entities)), make([]schema.EntityRecord, len(entities))
	for i, e := range entities {
		err := checkUpdate(e)
		if err == nil && changed[e.ID] {
			err = invalid("entity.ID", "%q stands twice; give each entity once", e.ID)
		}
		if err != nil {
			return nil, within(fmt.Sprintf("entities[%d].", i), err)
		}
		changed[e.ID], records[i] = true, recordOf(e)
	}
	by, err := n.d.mayChange(ctx)
	if err != nil {
		return nil, err
	}
	errs := n.d.repo.Items.Entities.UpdateMany(ctx, by, records)
	for i, err := range errs {
		errs[i] = orConflict(entities[i], err)
	}
	n.d.repo.Told.Entities(changed)
	return errs, nil
}

// orConflict is the error that users see of an update.
func orConflict(yours Entity, err error) error {
	if conflict, ok := errors.AsType[*admin.EntityConflict](err); ok {
		return &EntityConflictError{Yours: yours, Stored: entityOf(conflict.Stored)}
	}
	return err
}

// changeEntity changes an entity's record, in somebody's name. It evicts what is cached of
// the entity afterwards.
func (n Entities) changeEntity(ctx context.Context, id string, change func(by string) error) error {
	by, err := n.d.mayChange(ctx)
	if err != nil {
		return err
	}
	defer n.d.repo.Told.Entities(map[string]bool{id: true})
	return change(by)
}

// Get returns an entity's record. It fails with ErrNotFound when there is
// none, and when its deletion has begun and was not finished: the error says which.
func (n Entities) Get(ctx context.Context, id string) (Entity, error) {
	if err := n.d.repo.Usable(ctx); err != nil {
		return Entity{}, err
	}
	if err := checkEntityID("id", id); err != nil {
		return Entity{}, err
	}
	e, err := n.d.repo.Items.Entities.Get(ctx, "read the entity", id)
	if err != nil {
		return Entity{}, err
	}
	return entityOf(e), nil
}

// GetMany is Entities.Get for many ids, which may stand in the list more than once: it
// returns the entities in the order of the list, read consistently, 100 with each request
// and 800 at once. It is no error that one has no record: then it has its ID alone, with
// Version 0 and the zero CreatedAt. A record of another tool has Version 0 too, and a
// CreatedAt. One whose deletion has begun is Deleting.
func (n Entities) GetMany(ctx context.Context, ids []string) ([]Entity, error) {
	if err := n.d.repo.Usable(ctx); err != nil {
		return nil, err
	}
	for i, id := range ids {
		if err := checkEntityID(fmt.Sprintf("ids[%d]", i), id); err != nil {
			return nil, err
		}
	}
	records, err := n.d.repo.Items.Entities.GetMany(ctx, "read entities", ids)
	if err != nil {
		return nil, err
	}
	entities := make([]Entity, len(records))
	for i, e := range records {
		entities[i] = entityOf(e)
	}
	return entities, nil
}

// Delete removes an entity's limits, buckets and record; what was recorded
// about its usage stays until it expires. Deleting what is not there is no
// error. An entity with children is refused with a *ValidationError that says how many.
//
// The first request marks the record and writes the event; from then on Entities.Get does
// not find the entity, and it gets no children. A call that failed after that is to be
// repeated: the record goes last. A lease that is still out gives nothing back, also if
// another call of the entity made a new bucket meanwhile.
func (n Entities) Delete(ctx context.Context, id string) error {
	if err := n.d.repo.Usable(ctx); err != nil {
		return err
	}
	if err := checkEntityID("id", id); err != nil {
		return err
	}
	return n.changeEntity(ctx, id, func(by string) error {
		if err := n.d.takeOverEntity(ctx, id); err != nil {
			return err
		}
		return n.d.repo.Items.Entities.Delete(ctx, by, id, nil)
	})
}

// DeleteAsRead is Entities.Delete of an entity that was read, with all levels of its own,
// of which Scope and Version count: if the record or a level was changed, added or removed
// since, it fails with an *EntityConflictError or a *ConfigConflictError, and nothing is
// removed. A deletion that has
// begun is finished all the same, and one that somebody finished is no error.
func (n Entities) DeleteAsRead(ctx context.Context, e Entity, levels []ScopedConfig) error {
	if err := n.d.repo.Usable(ctx); err != nil {
		return err
	}
	if err := checkEntityID("entity.ID", e.ID); err != nil {
		return err
	}
	asRead, configs := &admin.EntityAsRead{Record: recordOf(e), Levels: map[string]int64{}}, map[Scope]LimitConfig{}
	for i, l := range levels {
		if l.Scope.Entity != e.ID {
			return invalid(fmt.Sprintf("levels[%d].Scope", i), "is %s; give levels of entity %s alone", l.Scope, e.ID)
		}
		asRead.Levels[l.Scope.owner().Resource], configs[l.Scope.normal()] = l.Config.Version, l.Config
	}
	err := n.changeEntity(ctx, e.ID, func(by string) error { return n.d.repo.Items.Entities.Delete(ctx, by, e.ID, asRead) })
	if level, ok := errors.AsType[*admin.LevelConflict](err); ok {
		at := scopeOf(level.Owner)
		stored, _ := configOf(at.level(), level.Stored) // what cannot be shown has its version
		return &ConfigConflictError{Scope: at, Yours: configs[at], Stored: stored}
	}
	return orConflict(e, err)
}

// EntitySetup is an entity to be made, with the limits that it is to have.
type EntitySetup struct {
	// Entity is the entity, see Entities.Create.
	Entity Entity
	// Limits are the entity's own, by resource; the resource "" is its default, for every
	// resource that it has no limits for. At most 44 resources. Defaults to none.
	Limits map[string][]dynalimit.Limit
}

// CreateMany makes many entities with their limits: as many as fit in each
// transaction, with their events, so that ten thousand take seconds. They are made in
// their order: a parent comes before its children. An entity is made with all its limits
// or not at all, and one that cannot be made, because it has a record for example, does
// not keep the others of its transaction from being made.
//
// It returns an error for each setup, nil for one that was made, in their order; see
// Create and Limits.Set. If the input is bad it returns a single
// *ValidationError, and nothing was written. Once the table does not serve, or ctx has
// ended, the rest fails with that error; those can be made by another call.
func (n Entities) CreateMany(ctx context.Context, setups []EntitySetup) ([]error, error) {
	if err := n.d.repo.Usable(ctx); err != nil {
		return nil, err
	}
	checked := make([]admin.Setup, len(setups))
	made := make(map[string]bool, len(setups))
	for i, s := range setups {
		setup, err := n.setupOf(s)
		if err == nil && made[s.Entity.ID] {
			err = invalid("entity.ID", "%q stands twice; give each entity once", s.Entity.ID)
		}
		if err != nil {
			return nil, within(fmt.Sprintf("setups[%d].", i), err)
		}
		made[s.Entity.ID], checked[i] = true, setup
	}
	by, err := n.d.mayChange(ctx)
	if err != nil {
		return nil, err
	}
	var limits []admin.ConfigEdit
	for _, s := range checked {
		limits = append(limits, s.Limits...)
	}
	if err := n.d.takeOverAllBeforeChange(ctx, limits); err != nil {
		return nil, err
	}
	errs := n.d.repo.Items.Entities.CreateMany(ctx, by, checked)
	for i, err := range errs {
		errs[i] = n.d.repo.Layout.KindError(fmt.Sprintf("setups[%d]", i), err)
	}
	n.d.repo.Told.Entities(made)
	return errs, nil
}
