package admin

import (
	"cmp"
	"context"
	"iter"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Children lists the entities whose parent is id, in the order of their ids. It reads an
// index, which may lag behind a change by a moment. It ends with an
// error when ctx does.
func (n Entities) Children(ctx context.Context, id string) iter.Seq2[Entity, error] {
	if err := cmp.Or(n.d.Usable(ctx), checkEntityID("id", id)); err != nil {
		return problem.ErrorList[Entity](err)
	}
	return n.listRecords(ctx, n.childrenOf(id), func(item schema.Item) string {
		child, _ := schema.Child(item)
		return child
	}, func(schema.Item) bool { return true })
}

// List lists the records of all entities, unordered. It reads an index,
// which may lag behind a change by a moment. It ends with an error when ctx does.
//
// It does not see entities without a record, nor records of another tool or
// of an earlier version: those are listed from their next Entities.Update on. Children
// finds them by their parent.
func (n Entities) List(ctx context.Context) iter.Seq2[Entity, error] {
	if err := n.d.Usable(ctx); err != nil {
		return problem.ErrorList[Entity](err)
	}
	return allEntities(ctx, n, func(schema.Item) bool { return true })
}

// Unattached lists the records of another tool or of an earlier version with an undecided parent: it does
// not count (Detached). Entities.Update makes it count, after a check of
// the parent's parents. Otherwise it is as List.
func (n Entities) Unattached(ctx context.Context) iter.Seq2[Entity, error] {
	if err := n.d.Usable(ctx); err != nil {
		return problem.ErrorList[Entity](err)
	}
	return allEntities(ctx, n, schema.Unattached)
}

// allEntities lists the records of all entities for which wanted returns true, unordered.
func allEntities(ctx context.Context, n Entities, wanted func(record schema.Item) bool) iter.Seq2[Entity, error] {
	return func(yield func(Entity, error) bool) {
		for shard := range schema.EntityShards {
			q := table.Query{
				Op: "list the entities", Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: n.d.Keys.Entities(shard),
			}
			for e, err := range n.listRecords(ctx, q, schema.ListedEntity, wanted) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// listRecords lists the entities that a query of an index finds, page by page; id extracts the entity's id from
// an item. It reads records that the index has only in part from the table, and leaves out deleted ones and
// those not wanted. An error is the last element.
func (n Entities) listRecords(ctx context.Context, q table.Query, id func(schema.Item) string, wanted func(record schema.Item) bool) iter.Seq2[Entity, error] {
	return listPaged(ctx, n.d.Table, q, func(items []schema.Item) ([]Entity, error) {
		var missing []schema.Key
		for _, item := range items {
			if !schema.HasEntity(item) {
				missing = append(missing, schema.KeyOf(item))
			}
		}
		found, err := n.d.Table.BatchGet(ctx, q.Op, missing)
		if err != nil {
			return nil, err
		}
		entities := make([]Entity, 0, len(items))
		for _, item := range items {
			record := item
			if !schema.HasEntity(item) {
				record = found[schema.KeyOf(item)]
			}
			if id := id(item); id != "" && record != nil && wanted(record) { // nil: deleted since the index was read
				e := schema.DecodeEntity(record)
				e.ID = id
				entities = append(entities, entityOf(e))
			}
		}
		return entities, nil
	})
}
