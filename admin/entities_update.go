package admin

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Update replaces the name, the metadata, the parent and its counting, and the plan of an
// entity, and returns the new record; ID, Version and CreatedAt must be those that
// Get returned. If another writer changed the record since, it fails with a
// *ConflictError[Entity] with both versions. It fails with ErrNotFound if there is no record,
// and with a *ValidationError as Entities.Create does, also if another plan or parent would take
// money out of force (see Entity.Only). Writing the stored record again does nothing.
//
// If the parent begins to count, the event has it (parent_counts).
// The entity's buckets keep their tokens. The new parent and plan are in force in this
// process at once, in others within their ConfigTTL.
func (n Entities) Update(ctx context.Context, e Entity) (Entity, error) {
	if err := checkUpdate(e); err != nil {
		return Entity{}, err
	}
	if err := n.d.checkChange(ctx); err != nil {
		return Entity{}, err
	}
	defer n.d.Told.Entities(map[string]bool{e.ID: true})
	return n.updateRecord(ctx, e)
}

// updateRecord replaces the record of an entity if its stored version is e's, with an event, and returns the
// new record. It does not write an unchanged one, and retries after a concurrent write. It refuses an invalid
// parent and, unless e.Only is set, a change that takes money out of force.
func (n lineage) updateRecord(ctx context.Context, e Entity) (Entity, error) {
	const op = "update the entity"
	compared, err := n.d.compareSources(nil, false)
	if err != nil {
		return Entity{}, err
	}
	for attempt := 1; ; attempt++ {
		item, err := n.d.Table.Get(ctx, op, n.d.Keys.Meta(e.ID))
		if err != nil {
			return Entity{}, err
		}
		c, err := planUpdate(recordOf(e), item)
		if err != nil || !c.changes {
			return entityOf(c.next), err
		}
		refused, err := compared.refuseRecords(ctx, []Entity{e}, []entityChange{c})
		if err = cmp.Or(err, refused[e.ID]); err != nil {
			return Entity{}, err
		}
		var above []ancestor
		if c.changesParent() {
			if err := n.d.checkParentCounts(ctx, c.next); err != nil {
				return Entity{}, err
			}
			if above, err = n.readAncestors(ctx, op, e.ID, e.ParentID); err != nil {
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
			return entityOf(c.next), nil
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
// tool may have made a chain for order alone.
func (c entityChange) changesParent() bool {
	return c.next.ParentID != c.stored.ParentID || c.next.Counts() && !c.stored.Counts() || c.next.CountsByOwn() && !c.stored.CountsByOwn()
}

// chargesLess reports whether calls charge another plan's limits, or a parent no more or by fewer sources.
func (c entityChange) chargesLess() bool {
	return c.next.Plan != c.stored.Plan ||
		c.stored.Counts() && (c.next.ParentID != c.stored.ParentID || !c.next.Counts() || c.stored.Cascade && !c.next.Cascade)
}

// refuseRecords returns, by entity id, a *ValidationError for each change of a record that takes money out of
// force although Entity.Only is not set. It reads the sources that it needs; the map may be nil.
func (c *comparison) refuseRecords(ctx context.Context, entities []Entity, changes []entityChange) (map[string]error, error) {
	var unsaid []recordChange
	for i, change := range changes {
		if change.changes && change.chargesLess() && !entities[i].Only {
			unsaid = append(unsaid, recordChange{change.stored, change.next})
		}
	}
	if len(unsaid) == 0 {
		return nil, nil
	}
	losses, err := c.findLosses(ctx, unsaid)
	if err != nil {
		return nil, err
	}
	of := map[string][]Loss{}
	for _, l := range losses {
		if l.Money {
			of[l.Scope.Entity] = append(of[l.Scope.Entity], l)
		}
	}
	refused := map[string]error{}
	for id, lost := range of {
		refused[id] = invalid("entity.Only", "is not set, and this money would no longer be limited: %s; set it to confirm", listLosses(lost))
	}
	return refused, nil
}

// changesChain reports whether the entity gets another parent, or its parent counts otherwise.
func (c entityChange) changesChain() bool {
	return c.changesParent() || c.stored.Counts() && !c.next.Counts()
}

// planUpdate returns the change from the stored item to e, with the next version. Its changes is false if the
// content is the same and the record is listed. It returns a *ConflictError[Entity] if the version, or a
// creation time that e has, differs, and ErrNotFound without a record or in deletion.
func planUpdate(e schema.EntityRecord, item schema.Item) (entityChange, error) {
	stored, err := decodeEntity(item, e.ID)
	if err != nil {
		return entityChange{}, err
	}
	if stored.Version != e.Version || !e.CreatedAt.IsZero() && !e.CreatedAt.Equal(stored.CreatedAt) {
		return entityChange{}, &ConflictError[Entity]{Yours: entityOf(e), Stored: entityOf(stored)}
	}
	c := entityChange{item: item, stored: stored, next: e}
	c.next.CreatedAt = stored.CreatedAt
	if c.changes = !sameEntity(e, stored) || !schema.Listed(item); c.changes {
		c.next.Version++
	}
	return c, nil
}

// sameEntity reports whether two records have the same content, apart from id, version, creation time and
// deletion mark.
func sameEntity(x, y schema.EntityRecord) bool {
	return x.Name == y.Name && x.ParentID == y.ParentID && x.Cascade == y.Cascade && x.Detached == y.Detached && x.Plan == y.Plan && x.ManagedBy == y.ManagedBy &&
		bytes.Equal(x.Metadata, y.Metadata)
}

// proposeUpdate returns the transaction that replaces a record. above are the new ancestors of a
// moved entity, which it requires unchanged.
func (n lineage) proposeUpdate(c entityChange, above []ancestor) (table.Proposal, error) {
	what := deed{
		action: "entity_updated", target: c.next.ID, before: entityFields(c.stored), after: entityFields(c.next),
		was: c.item, is: c.next.Item(n.d.Keys, c.item),
	}
	return n.d.propose(what, slices.Insert(n.requireAncestors(above), 0, n.d.Table.PutPart(what.is, schema.EntityUnchanged(c.item)))...)
}
