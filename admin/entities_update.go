package admin

import (
	"bytes"
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Update replaces the name, the metadata, the parent and how it counts, and the plan of an
// entity, and returns the record as it is then; ID, Version and CreatedAt are those that
// Get returned. If somebody changed the record since, it fails with a
// *ConflictError[Entity] that shows both. It fails with ErrNotFound when there is no record,
// and with a *ValidationError as Entities.Create does. Writing what is stored already does
// nothing.
//
// If the parent begins to count, the event has it (parent_counts).
// What the entity's buckets hold stays. The new parent and plan are in force in this
// process at once, in others within their ConfigTTL.
func (n Entities) Update(ctx context.Context, e Entity) (Entity, error) {
	if err := checkUpdate(e); err != nil {
		return Entity{}, err
	}
	if err := n.d.mayChange(ctx); err != nil {
		return Entity{}, err
	}
	defer n.d.Told.Entities(map[string]bool{e.ID: true})
	return n.update(ctx, recordOf(e))
}

// update replaces a record, if it is of e's version.
func (n Entities) update(ctx context.Context, e schema.EntityRecord) (Entity, error) {
	const op = "update the entity"
	for attempt := 1; ; attempt++ {
		item, err := n.d.Table.Get(ctx, op, n.d.Keys.Meta(e.ID))
		if err != nil {
			return Entity{}, err
		}
		c, err := planUpdate(e, item)
		if err != nil || !c.changes {
			return Entity(c.next), err
		}
		var above []ancestor
		if c.changesParent() {
			if err := n.d.mayCount(ctx, c.next); err != nil {
				return Entity{}, err
			}
			if above, err = n.ancestors(ctx, op, e.ID, e.ParentID); err != nil {
				return Entity{}, err
			}
		}
		p, err := n.proposeUpdate(c, above)
		if err != nil {
			return Entity{}, err
		}
		again, err := n.d.Table.Try(ctx, op, attempt, p)
		if err != nil {
			return Entity{}, err
		}
		if !again {
			return Entity(c.next), nil
		}
	}
}

// entityChange is a change of a record that was read.
type entityChange struct {
	item         schema.Item
	stored, next schema.EntityRecord
	changes      bool
}

// changesParent reports whether the entity gets another parent, or its parent begins to count: another
// tool may have made a chain that was for order alone.
func (c entityChange) changesParent() bool {
	return c.next.ParentID != c.stored.ParentID || c.next.Counts() && !c.stored.Counts() || c.next.CountsByOwn() && !c.stored.CountsByOwn()
}

// planUpdate is what makes e of a record, if that is of e's version. It fails with a
// *ConflictError[Entity], and as Entities.Get does.
func planUpdate(e schema.EntityRecord, item schema.Item) (entityChange, error) {
	stored, err := entityIn(item, e.ID)
	if err != nil {
		return entityChange{}, err
	}
	if stored.Version != e.Version || !e.CreatedAt.IsZero() && !e.CreatedAt.Equal(stored.CreatedAt) {
		return entityChange{}, &ConflictError[Entity]{Yours: Entity(e), Stored: Entity(stored)}
	}
	c := entityChange{item: item, stored: stored, next: e}
	c.next.CreatedAt = stored.CreatedAt
	if c.changes = !sameEntity(e, stored) || !schema.Listed(item); c.changes {
		c.next.Version++
	}
	return c, nil
}

func sameEntity(x, y schema.EntityRecord) bool {
	return x.Name == y.Name && x.ParentID == y.ParentID && x.Cascade == y.Cascade && x.Detached == y.Detached && x.Plan == y.Plan && x.ManagedBy == y.ManagedBy &&
		bytes.Equal(x.Metadata, y.Metadata)
}

// proposeUpdate is the transaction that replaces a record, below ancestors if it moves.
func (n Entities) proposeUpdate(c entityChange, above []ancestor) (table.Proposal, error) {
	what := deed{
		action: "entity_updated", target: c.next.ID, before: entityFields(c.stored), after: entityFields(c.next),
		was: c.item, is: c.next.Item(n.d.Keys, c.item),
	}
	return n.d.propose(what, slices.Insert(n.adopt(above), 0, n.d.Table.Put(what.is, schema.EntityUnchanged(c.item)))...)
}
