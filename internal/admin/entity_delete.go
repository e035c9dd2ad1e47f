package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// errFinished ends a deletion that another call has finished.
var errFinished = errors.New("the deletion was finished by another call")

// EntityAsRead is an entity that is deleted only as it was read: its record, and the
// versions of its configurations by their resources.
type EntityAsRead struct {
	Record schema.EntityRecord
	Levels map[string]int64
}

// Delete removes an entity's limits, buckets and record. The first transaction
// marks the record, making one if there is none, and writes the event: from then on the
// deletion can only be finished, by this call or another, and the record goes last. With
// asRead it fails with an *EntityConflict if the entity is another one by then; nil is
// whatever is there.
func (a Entities) Delete(ctx context.Context, by, id string, asRead *EntityAsRead) error {
	const op = "delete the entity"
	marked, err := a.markDeleted(ctx, op, by, id, asRead)
	if err != nil || marked == nil {
		return err
	}
	err = a.deleteMarked(ctx, op, by, id, marked)
	if errors.Is(err, errFinished) {
		return nil
	}
	return err
}

// markDeleted marks an entity and returns the record with the mark; nil if nothing is
// there.
func (a Entities) markDeleted(ctx context.Context, op, by, id string, asRead *EntityAsRead) (marked schema.Item, err error) {
	err = a.Table.Change(ctx, op, func() (table.Proposal, error) {
		marked = nil
		item, err := a.Table.Get(ctx, op, a.Keys.Meta(id))
		if err != nil {
			return table.Proposal{}, err
		}
		e := schema.DecodeEntity(item)
		e.ID = id
		if e.Deleting {
			marked = item
			return table.Proposal{}, nil
		}
		deletable, err := a.deletable(ctx, op, id, item)
		if err != nil || !deletable {
			return table.Proposal{}, err
		}
		var unchanged []types.TransactWriteItem
		if asRead != nil {
			if unchanged, err = a.isAsRead(ctx, op, e, *asRead); err != nil || item == nil {
				return table.Proposal{}, err
			}
		}
		d := Deed{By: by, Action: EntityDeleted, Target: id, Was: item}
		if item != nil {
			d.Before = entityFields(e)
		} else {
			e.CreatedAt = a.Now()
		}
		e.ID, e.Deleting, e.Version = id, true, e.Version+1
		marked = e.Item(a.Keys, item)
		d.Is = marked
		return a.propose(d, append(unchanged, a.Table.Put(marked, schema.EntityUnchanged(item)))...)
	})
	return marked, err
}

// LevelConflict says that a configuration is not of the version that a change was planned on.
type LevelConflict struct {
	Owner  schema.ConfigOwner
	Stored *schema.ConfigItem
}

// Error names the version.
func (e *LevelConflict) Error() string {
	return fmt.Sprintf("dynalimit: limits of %s were changed meanwhile: they are of version %d", TargetOf(e.Owner), e.Stored.Version)
}

// isAsRead fails with an *EntityConflict or a *LevelConflict unless an entity is as it was
// read. The checks that it returns hold its configurations to that in the transaction, as
// many as fit.
func (a Entities) isAsRead(ctx context.Context, op string, e schema.EntityRecord, asRead EntityAsRead) (checks []types.TransactWriteItem, err error) {
	if want := asRead.Record; e.Version != want.Version || !e.CreatedAt.Equal(want.CreatedAt) {
		return nil, &EntityConflict{e}
	}
	q := a.owned(op, e.ID, schema.ConfigsOf)
	q.Whole = true
	for item, err := range a.Table.Items(ctx, q) {
		if err != nil {
			return nil, err
		}
		key := schema.KeyOf(item)
		resource, _ := schema.ConfigResource(key.SK)
		if version, known := asRead.Levels[resource]; !known || version != schema.ConfigVersion(item) {
			stored := schema.ReadableConfig(item)
			return nil, &LevelConflict{schema.ConfigOwner{Entity: e.ID, Resource: resource}, &stored}
		}
		if len(checks) < transactionParts-2 {
			checks = append(checks, a.Table.Check(key, schema.ConfigUnchanged(item)))
		}
	}
	return checks, nil
}

// deletable says whether there is anything to delete. It fails for an entity with
// children.
func (a Entities) deletable(ctx context.Context, op, id string, item schema.Item) (bool, error) {
	children, err := a.countChildren(ctx, id)
	if err != nil {
		return false, err
	}
	if children > 0 {
		return false, invalid("id", "%q has children (%d); delete them first, or give those to keep another parent with Entities.Update", id, children)
	}
	if item != nil {
		return true, nil
	}
	for _, prefix := range belongings {
		for _, err := range a.Table.Items(ctx, a.owned(op, id, prefix)) {
			return err == nil, err
		}
	}
	return false, nil
}

// belongings begin the sort keys of what goes with an entity. What was recorded about its
// usage, and that an operation was done, stay until they expire.
var belongings = []string{schema.ConfigsOf, schema.LegacyLimits, schema.BucketsOf}

// owned is the query of what an entity owns.
func (a Entities) owned(op, id, prefix string) table.Query {
	return table.Query{Op: op, Hash: schema.PK, Value: a.Keys.Entity(id), Prefix: prefix}
}

// deleteMarked removes what belongs to a marked entity, and then its record.
func (a Entities) deleteMarked(ctx context.Context, op, by, id string, marked schema.Item) error {
	for _, prefix := range belongings {
		keys, err := a.Table.Keys(ctx, a.owned(op, id, prefix))
		if err != nil {
			return err
		}
		if prefix != schema.ConfigsOf {
			if err := a.Table.BatchDelete(ctx, op, keys); err != nil {
				return err
			}
			continue
		}
		for _, key := range keys {
			resource, _ := schema.ConfigResource(key.SK)
			if err := a.deleteLimits(ctx, op, by, schema.ConfigOwner{Entity: id, Resource: resource}, marked); err != nil {
				return err
			}
		}
	}
	return a.deleteRecord(ctx, op, id, marked)
}

// deleteLimits removes a configuration of a marked entity, while it is marked.
func (a Entities) deleteLimits(ctx context.Context, op, by string, owner schema.ConfigOwner, marked schema.Item) error {
	meta, config := a.Keys.Meta(owner.Entity), a.Keys.Config(owner)
	c := configChange{owner: owner, edit: func(*schema.ConfigItem) (*schema.ConfigItem, error) { return nil, nil }}
	err := a.Table.Change(ctx, op, func() (p table.Proposal, err error) {
		found, err := a.Table.BatchGet(ctx, op, []schema.Key{meta, config})
		if err != nil {
			return p, err
		}
		if !schema.SameEntity(found[meta], marked) {
			return p, errFinished
		}
		if err := c.plan(found[config], a.Now()); err != nil || !c.changes {
			return p, err
		}
		if err := a.configs.addConfig(&p, by, &c); err != nil {
			return p, err
		}
		p.Writes = append(p.Writes, a.configs.registrations([]*configChange{&c})...)
		p.Writes = append(p.Writes, a.Table.Check(meta, schema.EntityUnchanged(marked)))
		return p, nil
	})
	if err == nil {
		a.configs.tidy(ctx, op, []*configChange{&c})
	}
	return err
}

// deleteRecord removes the record of a marked entity, unless another call did.
func (a Entities) deleteRecord(ctx context.Context, op, id string, marked schema.Item) error {
	key := a.Keys.Meta(id)
	return a.Table.Change(ctx, op, func() (table.Proposal, error) {
		item, err := a.Table.Get(ctx, op, key)
		if err != nil || !schema.SameEntity(item, marked) {
			return table.Proposal{}, err
		}
		var p table.Proposal
		p.Writes = append(p.Writes, a.Table.Delete(key, schema.EntityUnchanged(marked)))
		return p, nil
	})
}
