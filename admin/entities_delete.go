package admin

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Delete removes an entity's limits, buckets and record; its recorded
// usage stays until it expires. Deleting a missing entity is not an
// error. An entity with children is refused with a *ValidationError that has their number.
//
// The first request marks the record and writes the event; from then on Entities.Get does
// not find the entity, and it gets no children. Repeat a call that failed after
// that: the record goes last. An open lease gives nothing back, also if
// another call of the entity made a new bucket meanwhile.
func (n Entities) Delete(ctx context.Context, id string) error {
	if err := checkEntityID("id", id); err != nil {
		return err
	}
	if err := n.d.checkChange(ctx); err != nil {
		return err
	}
	defer n.d.Told.Entities(map[string]bool{id: true})
	if err := n.d.takeOverEntity(ctx, id); err != nil {
		return err
	}
	r := removal{lineage: n.lineage, id: id}
	if err := r.markDeletion(ctx); err != nil || r.marked == nil {
		return err
	}
	return r.finishDeletion(ctx)
}

// DeleteAsRead is Entities.Delete of an entity as it was read, with all its own sources,
// identified by Scope and Version. If the record or a source was changed, added or removed
// since, it fails with a *ConflictError[Entity] or a *ConflictError[ScopedConfig], and
// nothing is removed. It still finishes a begun deletion, and a
// finished one is not an error.
func (n Entities) DeleteAsRead(ctx context.Context, e Entity, configs []ScopedConfig) error {
	if err := checkEntityID("entity.ID", e.ID); err != nil {
		return err
	}
	r := removal{lineage: n.lineage, id: e.ID, asRead: &e, configs: map[string]LimitConfig{}}
	for i, l := range configs {
		if l.Scope.Entity != e.ID {
			return invalid(fmt.Sprintf("configs[%d].Scope", i), "is %s; give configurations of entity %s alone", l.Scope, e.ID)
		}
		r.configs[l.Scope.asOwner().Resource] = l.Config
	}
	if err := n.d.checkChange(ctx); err != nil {
		return err
	}
	defer n.d.Told.Entities(map[string]bool{e.ID: true})
	if err := r.markDeletion(ctx); err != nil || r.marked == nil {
		return err
	}
	return r.finishDeletion(ctx)
}

// opDelete names the deletion of an entity in errors.
const opDelete = "delete the entity"

// removal is the deletion of an entity's limits, buckets and record. The first transaction
// marks the record, making one if there is none, and writes the event: from then on the
// deletion can only be finished, by this call or another, and the record goes last.
type removal struct {
	lineage
	id string
	// asRead and configs are the record and the configurations, by their resources, of an
	// entity that is deleted only as it was read; nil for any version.
	asRead  *Entity
	configs map[string]LimitConfig
	// marked is the record with the mark.
	marked schema.Item
}

// markDeletion stores the mark of deletion in the entity's record, with the event, and sets r.marked; a record
// with the mark stays as it is. Without anything to delete r.marked stays nil. It retries after conflicts, and
// fails for an entity with children or, with asRead, for one that was changed.
func (r *removal) markDeletion(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		r.marked = nil
		item, err := r.d.Table.Get(ctx, opDelete, r.d.Keys.Meta(r.id))
		if err != nil {
			return err
		}
		e := schema.DecodeEntity(item)
		if e.Deleting {
			r.marked = item
			return nil
		}
		deletable, err := r.checkDeletable(ctx, item)
		if err != nil || !deletable {
			return err
		}
		e.ID = r.id
		var unchanged []types.TransactWriteItem
		if r.asRead != nil {
			if unchanged, err = r.checkAsRead(ctx, e); err != nil || item == nil {
				return err
			}
		}
		p, err := r.proposeMark(item, e, unchanged)
		if err != nil {
			return err
		}
		if again, err := r.d.Table.Try(ctx, opDelete, attempt, p); !again {
			return err
		}
	}
}

// proposeMark sets r.marked to the record with the mark of deletion and the next version, a new one if item is
// nil. It returns the transaction that stores this record with the event, after the checks in unchanged; it
// sends nothing.
func (r *removal) proposeMark(item schema.Item, e schema.EntityRecord, unchanged []types.TransactWriteItem) (table.Proposal, error) {
	what := deed{action: "entity_deleted", target: r.id, was: item}
	if item != nil {
		what.before = entityFields(e)
	} else {
		e.CreatedAt = r.d.Clock.Now()
	}
	e.Deleting, e.Version = true, e.Version+1
	r.marked = e.Item(r.d.Keys, item)
	what.is = r.marked
	return r.d.propose(what, append(unchanged, r.d.Table.PutPart(r.marked, schema.EntityUnchanged(item)))...)
}

// checkAsRead reads the entity's configurations, and compares them and the record with the read versions. A
// difference, or a new configuration, is a *ConflictError[Entity] or a *ConflictError[ScopedConfig]. Otherwise
// it returns checks that make the transaction fail if a configuration changes, as many as fit.
func (r *removal) checkAsRead(ctx context.Context, e schema.EntityRecord) (checks []types.TransactWriteItem, err error) {
	if want := r.asRead; e.Version != want.Version || !e.CreatedAt.Equal(want.CreatedAt) {
		return nil, &ConflictError[Entity]{Yours: *want, Stored: entityOf(e)}
	}
	q := r.queryOwned(schema.ConfigsOf)
	q.Whole = true
	for item, err := range r.d.Table.Items(ctx, q) {
		if err != nil {
			return nil, err
		}
		key := schema.KeyOf(item)
		resource, _ := schema.ConfigResource(key.SK)
		read, known := r.configs[resource]
		if !known || read.Version != schema.ConfigVersion(item) {
			at := Scope{Entity: r.id, Resource: resource}.normalized()
			config := schema.ReadableConfig(item)
			stored, _ := configOf(at.sourceOf(), &config) // an unreadable source still has its version
			return nil, &ConflictError[ScopedConfig]{Yours: ScopedConfig{Scope: at, Config: read}, Stored: ScopedConfig{Scope: at, Config: stored}}
		}
		if len(checks) < transactionParts-2 {
			checks = append(checks, r.d.Table.CheckPart(key, schema.ConfigUnchanged(item)))
		}
	}
	return checks, nil
}

// checkDeletable returns true if the entity has a record, given as item, or other items to delete. It fails
// with a *ValidationError if the entity has children.
func (r *removal) checkDeletable(ctx context.Context, item schema.Item) (bool, error) {
	children, err := r.countChildren(ctx, r.id)
	if err != nil {
		return false, err
	}
	if children > 0 {
		return false, withFix(invalid("id", "%q has children (%d); delete the children first, or give them another parent", r.id, children), fault.UpdateEntity)
	}
	if item != nil {
		return true, nil
	}
	for _, prefix := range belongings {
		for _, err := range r.d.Table.Items(ctx, r.queryOwned(prefix)) {
			return err == nil, err
		}
	}
	return false, nil
}

// belongings begin the sort keys of an entity's items that are deleted with it. Recorded
// usage, and records of operations, stay until they expire.
var belongings = []string{schema.ConfigsOf, schema.LegacyLimits, schema.BucketsOf}

// queryOwned returns the query of the entity's items by a prefix of their sort keys.
func (r *removal) queryOwned(prefix string) table.Query {
	return table.Query{Op: opDelete, Hash: schema.PK, Value: r.d.Keys.Entity(r.id), Prefix: prefix}
}

// finishDeletion removes the configurations, buckets and finally the record of the marked entity. It returns
// nil early if another call has finished the deletion; after an error another call can continue it.
func (r *removal) finishDeletion(ctx context.Context) error {
	for _, prefix := range belongings {
		keys, err := r.d.Table.Keys(ctx, r.queryOwned(prefix))
		if err != nil {
			return err
		}
		if prefix != schema.ConfigsOf {
			if err := r.d.Table.BatchDelete(ctx, opDelete, keys); err != nil {
				return err
			}
			continue
		}
		for _, key := range keys {
			resource, _ := schema.ConfigResource(key.SK)
			if finished, err := r.removeLimits(ctx, schema.ConfigOwner{Entity: r.id, Resource: resource}); finished || err != nil {
				return err
			}
		}
	}
	return r.removeRecord(ctx)
}

// removeLimits removes one configuration with an event, on the condition that the entity is still marked, and
// corrects the counts of limits. It returns finished if another call has finished the deletion.
func (r *removal) removeLimits(ctx context.Context, owner schema.ConfigOwner) (finished bool, err error) {
	meta, config := r.d.Keys.Meta(r.id), r.d.Keys.Config(owner)
	c := configChange{owner: owner, edit: func(*schema.ConfigItem) (*schema.ConfigItem, error) { return nil, nil }}
	for attempt, again := 1, true; again; attempt++ {
		found, err := r.d.Table.BatchGet(ctx, opDelete, []schema.Key{meta, config})
		if err != nil {
			return false, err
		}
		if !schema.SameEntity(found[meta], r.marked) {
			return true, nil
		}
		p, err := r.d.proposeConfig(&c, found[config])
		if err != nil {
			return false, err
		}
		if len(p.Writes) > 0 {
			p.Writes = append(p.Writes, r.d.Table.CheckPart(meta, schema.EntityUnchanged(r.marked)))
		}
		if again, err = r.d.Table.Try(ctx, opDelete, attempt, p); err != nil {
			return false, err
		}
	}
	r.d.removeZeroCounts(ctx, opDelete, &c)
	return false, nil
}

// removeRecord removes the marked record. It does nothing if another call has removed or replaced it.
func (r *removal) removeRecord(ctx context.Context) error {
	key := r.d.Keys.Meta(r.id)
	remove := table.Proposal{Writes: []types.TransactWriteItem{r.d.Table.DeletePart(key, schema.EntityUnchanged(r.marked))}}
	for attempt := 1; ; attempt++ {
		item, err := r.d.Table.Get(ctx, opDelete, key)
		if err != nil || !schema.SameEntity(item, r.marked) {
			return err
		}
		if again, err := r.d.Table.Try(ctx, opDelete, attempt, remove); !again {
			return err
		}
	}
}
