package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// maxName bounds an entity's name, in bytes: the record and its copy in the children
// index stay cheap to read.
const maxName = 1024

// CreateEntity writes an entity's record, so that it has a parent, a plan, a name and
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
func (r *Repository) CreateEntity(ctx context.Context, e Entity) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := checkEntity(e); err != nil {
		return err
	}
	return r.changeEntity(ctx, e.ID, func(by string) error {
		return r.admin.CreateEntity(ctx, by, recordOf(e))
	})
}

// UpdateEntity replaces the name, the metadata, the parent, the cascade and the plan of an
// entity, and returns the record as it is then; ID, Version and CreatedAt are those that
// GetEntity returned. If somebody changed the record since, it fails with an
// *EntityConflictError that shows both. It fails with ErrNotFound when there is no record,
// and with a *ValidationError as CreateEntity does. Writing what is stored already does
// nothing.
//
// What the entity's buckets hold stays. The new parent and plan are in force in this
// process at once, in others within their ConfigTTL.
func (r *Repository) UpdateEntity(ctx context.Context, e Entity) (Entity, error) {
	if err := r.usable(ctx); err != nil {
		return Entity{}, err
	}
	if err := checkUpdate(e); err != nil {
		return Entity{}, err
	}
	var updated schema.EntityRecord
	err := r.changeEntity(ctx, e.ID, func(by string) (err error) {
		updated, err = r.admin.UpdateEntity(ctx, by, recordOf(e))
		return err
	})
	if err != nil {
		return Entity{}, orConflict(e, err)
	}
	return entityOf(updated), nil
}

// UpdateEntities is UpdateEntity for many entities, each once: 49 in each transaction, with
// their events, so that ten thousand take seconds. Those that get another parent are changed
// one by one, 8 at once, for each move looks at its ancestors; the others come first.
//
// It returns an error for each entity, nil for one that is as it was given, in their order;
// see UpdateEntity. Its Version is then one above that which was given, unless that was
// stored already. If the input is bad it returns a single *ValidationError, and nothing was
// written. Once the table does not serve, or ctx has ended, the rest fails with that error.
func (r *Repository) UpdateEntities(ctx context.Context, entities []Entity) ([]error, error) {
	if err := r.usable(ctx); err != nil {
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
	by, err := r.mayChange(ctx)
	if err != nil {
		return nil, err
	}
	errs := r.admin.UpdateEntities(ctx, by, records)
	for i, err := range errs {
		errs[i] = orConflict(entities[i], err)
	}
	r.configs.evict(func(k configKey) bool { return changed[k.entity] })
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
func (r *Repository) changeEntity(ctx context.Context, id string, change func(by string) error) error {
	by, err := r.mayChange(ctx)
	if err != nil {
		return err
	}
	defer r.configs.evict(func(k configKey) bool { return k.entity == id })
	return change(by)
}

// recordOf is an entity as its record says it.
func recordOf(e Entity) schema.EntityRecord {
	return schema.EntityRecord{
		ID: e.ID, Name: e.Name, ParentID: e.ParentID, Cascade: e.Cascade, Plan: e.Plan, ManagedBy: e.ManagedBy,
		Metadata: slices.Clone(e.Metadata), CreatedAt: e.CreatedAt, Version: e.Version,
	}
}

// entityOf is an entity as users see it.
func entityOf(e schema.EntityRecord) Entity {
	return Entity{
		ID: e.ID, Name: e.Name, ParentID: e.ParentID, Cascade: e.Cascade, Plan: e.Plan, ManagedBy: e.ManagedBy,
		Metadata: e.Metadata, CreatedAt: e.CreatedAt, Version: e.Version, Deleting: e.Deleting,
	}
}

// GetEntity returns an entity's record. It fails with ErrNotFound when there is
// none, and when its deletion has begun and was not finished: the error says which.
func (r *Repository) GetEntity(ctx context.Context, id string) (Entity, error) {
	if err := r.usable(ctx); err != nil {
		return Entity{}, err
	}
	if err := checkEntityID("id", id); err != nil {
		return Entity{}, err
	}
	e, err := r.admin.Entity(ctx, "read the entity", id)
	if err != nil {
		return Entity{}, err
	}
	return entityOf(e), nil
}

// GetEntities is GetEntity for many ids, which may stand in the list more than once: it
// returns the entities in the order of the list, read consistently, 100 with each request
// and 800 at once. It is no error that one has no record: then it has its ID alone, with
// Version 0 and the zero CreatedAt. A record of another tool has Version 0 too, and a
// CreatedAt. One whose deletion has begun is Deleting.
func (r *Repository) GetEntities(ctx context.Context, ids []string) ([]Entity, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	for i, id := range ids {
		if err := checkEntityID(fmt.Sprintf("ids[%d]", i), id); err != nil {
			return nil, err
		}
	}
	records, err := r.admin.Entities(ctx, "read entities", ids)
	if err != nil {
		return nil, err
	}
	entities := make([]Entity, len(records))
	for i, e := range records {
		entities[i] = entityOf(e)
	}
	return entities, nil
}

// DeleteEntity removes an entity's limits, buckets and record; what was recorded
// about its usage stays until it expires. Deleting what is not there is no
// error. An entity with children is refused with a *ValidationError that says how many.
//
// The first request marks the record and writes the event; from then on GetEntity does
// not find the entity, and it gets no children. A call that failed after that is to be
// repeated: the record goes last. A lease that is still out gives nothing back, also if
// another call of the entity made a new bucket meanwhile.
func (r *Repository) DeleteEntity(ctx context.Context, id string) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := checkEntityID("id", id); err != nil {
		return err
	}
	return r.changeEntity(ctx, id, func(by string) error {
		if err := r.takeOverEntity(ctx, id); err != nil {
			return err
		}
		return r.admin.DeleteEntity(ctx, by, id, nil)
	})
}

// DeleteEntityAsRead is DeleteEntity of an entity that was read, with all levels of its own,
// of which Scope and Version count: if the record or a level was changed, added or removed
// since, it fails with an *EntityConflictError or a *ConfigConflictError, and nothing is
// removed. A deletion that has
// begun is finished all the same, and one that somebody finished is no error.
func (r *Repository) DeleteEntityAsRead(ctx context.Context, e Entity, levels []ScopedConfig) error {
	if err := r.usable(ctx); err != nil {
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
	err := r.changeEntity(ctx, e.ID, func(by string) error { return r.admin.DeleteEntity(ctx, by, e.ID, asRead) })
	if level, ok := errors.AsType[*admin.LevelConflict](err); ok {
		at := scopeOf(level.Owner)
		stored, _ := configOf(at.level(), level.Stored) // what cannot be shown has its version
		return &ConfigConflictError{Scope: at, Yours: configs[at], Stored: stored}
	}
	return orConflict(e, err)
}

// Children lists the entities whose parent is id, in the order of their ids. An
// index is read, which may lag behind a change by a moment. It ends with an
// error when ctx does.
func (r *Repository) Children(ctx context.Context, id string) iter.Seq2[Entity, error] {
	if err := r.usable(ctx); err != nil {
		return problem.List[Entity](err)
	}
	return func(yield func(Entity, error) bool) {
		if err := checkEntityID("id", id); err != nil {
			yield(Entity{}, err)
			return
		}
		r.listEntities(ctx, r.admin.Children(id), func(item schema.Item) string {
			child, _ := schema.Child(item)
			return child
		}, yield)
	}
}

// Entities lists the records of all entities, in no order of theirs. An index is read,
// which may lag behind a change by a moment. It ends with an error when ctx does.
//
// It does not see entities without a record, nor records that another tool made, or a
// version before this one: those are listed from their next UpdateEntity on. Children
// finds them by their parent.
func (r *Repository) Entities(ctx context.Context) iter.Seq2[Entity, error] {
	if err := r.usable(ctx); err != nil {
		return problem.List[Entity](err)
	}
	return func(yield func(Entity, error) bool) {
		for shard := range schema.EntityShards {
			q := table.Query{
				Op: "list the entities", Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: r.keys.Entities(shard),
			}
			if !r.listEntities(ctx, q, schema.ListedEntity, yield) {
				return
			}
		}
	}
}

// listEntities yields the entities of a query of an index, whose items are named by id. It
// is false once yield wants no more, or after an error.
func (r *Repository) listEntities(ctx context.Context, q table.Query, id func(schema.Item) string, yield func(Entity, error) bool) bool {
	for page, err := range r.store.Pages(ctx, q) {
		var entities []Entity
		if err == nil {
			entities, err = r.pageEntities(ctx, q.Op, page, id)
		}
		if err != nil {
			yield(Entity{}, err)
			return false
		}
		if !table.YieldAll(entities, yield) {
			return false
		}
	}
	return true
}

// pageEntities reads the entities of a page of an index. What the index does not project
// is fetched.
func (r *Repository) pageEntities(ctx context.Context, op string, page *dynamodb.QueryOutput, id func(schema.Item) string) ([]Entity, error) {
	var missing []schema.Key
	for _, item := range page.Items {
		if !schema.HasEntity(item) {
			missing = append(missing, schema.KeyOf(item))
		}
	}
	var found map[schema.Key]schema.Item
	if len(missing) > 0 {
		var err error
		if found, err = r.store.BatchGet(ctx, op, missing); err != nil {
			return nil, err
		}
	}
	entities := make([]Entity, 0, len(page.Items))
	for _, item := range page.Items {
		record := item
		if !schema.HasEntity(item) {
			record = found[schema.KeyOf(item)]
		}
		if id := id(item); id != "" && record != nil { // nil: deleted since the index was read
			e := schema.DecodeEntity(record)
			e.ID = id
			entities = append(entities, entityOf(e))
		}
	}
	return entities, nil
}

// EntitySetup is an entity to be made, with the limits that it is to have.
type EntitySetup struct {
	// Entity is the entity, see CreateEntity.
	Entity Entity
	// Limits are the entity's own, by resource; the resource "" is its default, for every
	// resource that it has no limits for. At most 44 resources. Defaults to none.
	Limits map[string][]Limit
}

// CreateEntities makes many entities with their limits: as many as fit in each
// transaction, with their events, so that ten thousand take seconds. They are made in
// their order: a parent comes before its children. An entity is made with all its limits
// or not at all, and one that cannot be made, because it has a record for example, does
// not keep the others of its transaction from being made.
//
// It returns an error for each setup, nil for one that was made, in their order; see
// CreateEntity and SetLimits. If the input is bad it returns a single
// *ValidationError, and nothing was written. Once the table does not serve, or ctx has
// ended, the rest fails with that error; those can be made by another call.
func (r *Repository) CreateEntities(ctx context.Context, setups []EntitySetup) ([]error, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	checked := make([]admin.Setup, len(setups))
	made := make(map[string]bool, len(setups))
	for i, s := range setups {
		setup, err := r.setupOf(s)
		if err == nil && made[s.Entity.ID] {
			err = invalid("entity.ID", "%q stands twice; give each entity once", s.Entity.ID)
		}
		if err != nil {
			return nil, within(fmt.Sprintf("setups[%d].", i), err)
		}
		made[s.Entity.ID], checked[i] = true, setup
	}
	by, err := r.mayChange(ctx)
	if err != nil {
		return nil, err
	}
	var limits []admin.ConfigEdit
	for _, s := range checked {
		limits = append(limits, s.Limits...)
	}
	if err := r.takeOverAllBeforeChange(ctx, limits); err != nil {
		return nil, err
	}
	errs := r.admin.CreateEntities(ctx, by, checked)
	for i, err := range errs {
		errs[i] = r.kindError(fmt.Sprintf("setups[%d]", i), err)
	}
	r.configs.evict(func(k configKey) bool { return made[k.entity] })
	return errs, nil
}
