package admin

import (
	"context"
	"iter"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Children lists the entities whose parent is id, in the order of their ids. An
// index is read, which may lag behind a change by a moment. It ends with an
// error when ctx does.
func (n Entities) Children(ctx context.Context, id string) iter.Seq2[Entity, error] {
	if err := n.d.Usable(ctx); err != nil {
		return problem.List[Entity](err)
	}
	return func(yield func(Entity, error) bool) {
		if err := checkEntityID("id", id); err != nil {
			yield(Entity{}, err)
			return
		}
		n.listEntities(ctx, n.childrenOf(id), func(item schema.Item) string {
			child, _ := schema.Child(item)
			return child
		}, yield)
	}
}

// List lists the records of all entities, in no order of theirs. An index is read,
// which may lag behind a change by a moment. It ends with an error when ctx does.
//
// It does not see entities without a record, nor records that another tool made, or a
// version before this one: those are listed from their next Entities.Update on. Children
// finds them by their parent.
func (n Entities) List(ctx context.Context) iter.Seq2[Entity, error] {
	if err := n.d.Usable(ctx); err != nil {
		return problem.List[Entity](err)
	}
	return func(yield func(Entity, error) bool) {
		for shard := range schema.EntityShards {
			q := table.Query{
				Op: "list the entities", Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: n.d.Keys.Entities(shard),
			}
			if !n.listEntities(ctx, q, schema.ListedEntity, yield) {
				return
			}
		}
	}
}

// listEntities yields the entities of a query of an index, whose items are named by id. It
// is false once yield wants no more, or after an error.
func (n Entities) listEntities(ctx context.Context, q table.Query, id func(schema.Item) string, yield func(Entity, error) bool) bool {
	for page, err := range n.d.Table.Pages(ctx, q) {
		var entities []Entity
		if err == nil {
			entities, err = n.pageEntities(ctx, q.Op, page, id)
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
func (n Entities) pageEntities(ctx context.Context, op string, page *dynamodb.QueryOutput, id func(schema.Item) string) ([]Entity, error) {
	var missing []schema.Key
	for _, item := range page.Items {
		if !schema.HasEntity(item) {
			missing = append(missing, schema.KeyOf(item))
		}
	}
	var found map[schema.Key]schema.Item
	if len(missing) > 0 {
		var err error
		if found, err = n.d.Table.BatchGet(ctx, op, missing); err != nil {
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
			entities = append(entities, Entity(e))
		}
	}
	return entities, nil
}
