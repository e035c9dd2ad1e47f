package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	// mostFound bounds one page of entities, and searchPage is the size of the first query of each shard: a
	// page of 50 has 3 of a shard on average.
	mostFound, searchPage = 100, 12
	opSearch              = "search the entities"
)

// Search returns the first n entities, at most 100, with a record and an id that begins with prefix and sorts
// after another id. They are in the order of their ids. prefix and after may be "". Pass the last id of a page
// as after for the next one.
//
// It reads an index, which may lag behind a change by a moment, and then the records, eventually consistent. A
// page of 50 costs 17 requests and 33 read units in a table of any size. It fails with a *ValidationError for a
// prefix that no id has. See List for the records that it does not see.
func (n Entities) Search(ctx context.Context, prefix, after string, count int) ([]Entity, error) {
	if err := cmp.Or(n.d.Usable(ctx), checkPage(after, count)); err != nil {
		return nil, err
	}
	if prefix != "" {
		if err := checkEntityID("prefix", prefix); err != nil {
			return nil, err
		}
	}
	found, group := make([]shardSearch, schema.EntityShards), guard.Group{}
	for shard := range found {
		found[shard] = shardSearch{n: n, partition: n.d.Keys.Entities(shard), prefix: prefix, last: after, more: true}
		group.Go(func() error { return found[shard].readPage(ctx) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for {
		var ids []string
		for _, s := range found {
			ids = append(ids, s.ids...)
		}
		slices.Sort(ids)
		end := len(ids) < count
		ids = ids[:min(len(ids), count)]
		behind := slices.IndexFunc(found, func(s shardSearch) bool { return s.more && (end || s.last < ids[len(ids)-1]) })
		if behind < 0 {
			return n.readFound(ctx, ids)
		}
		if err := found[behind].readPage(ctx); err != nil {
			return nil, err
		}
	}
}

// checkPage returns a *ValidationError unless count is from 1 to 100 and after is a valid id or "".
func checkPage(after string, count int) error {
	if count < 1 || count > mostFound {
		return invalid("n", "is %d; give 1 to %d", count, mostFound)
	}
	if after == "" {
		return nil
	}
	return checkEntityID("after", after)
}

// shardSearch is the search of one shard of the index. ids are the ids found, and last is the last of them.
// more reports whether later ids may follow.
type shardSearch struct {
	n                       Entities
	partition, prefix, last string
	ids                     []string
	more                    bool
}

// readPage reads one page of ids after s.last from its shard of the index, and appends those with the prefix to
// s.ids. It sets s.last to the last of them, and s.more to whether later ids may follow.
func (s *shardSearch) readPage(ctx context.Context) error {
	q := table.Query{
		Op: opSearch, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: s.partition, Sort: schema.GSI3SK, Page: searchPage,
	}
	q.From, q.To = schema.EntityRange(s.prefix, s.last)
	for page, err := range s.n.d.Table.Pages(ctx, q) {
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if id := schema.ListedEntity(item); strings.HasPrefix(id, s.prefix) {
				s.ids, s.last = append(s.ids, id), id
			}
		}
		s.more = len(page.LastEvaluatedKey) > 0
		break
	}
	return nil
}

// readFound reads the records of ids, eventually consistent, in the order of ids. It leaves out entities
// deleted meanwhile.
func (n Entities) readFound(ctx context.Context, ids []string) ([]Entity, error) {
	keys := make([]schema.Key, len(ids))
	for i, id := range ids {
		keys[i] = n.d.Keys.Meta(id)
	}
	items, err := n.d.Table.GetManyEventually(ctx, opSearch, keys)
	if err != nil {
		return nil, err
	}
	entities := make([]Entity, 0, len(ids))
	for i, item := range items {
		if item == nil {
			continue
		}
		e := schema.DecodeEntity(item)
		e.ID = ids[i]
		entities = append(entities, entityOf(e))
	}
	return entities, nil
}

// Tops returns the first n entities, at most 100, that have children and no parent, in the order of their ids;
// after is the last id of the page before, or "". It reads an index, which may lag behind a change by a moment.
//
// An entity is listed once a child joins its record. Children made before the record, or by an earlier version, do
// not list it. An entity stays listed when its children leave.
func (n Entities) Tops(ctx context.Context, after string, count int) ([]Entity, error) {
	if err := cmp.Or(n.d.Usable(ctx), checkPage(after, count)); err != nil {
		return nil, err
	}
	return n.childrenAfter(ctx, "", after, count)
}

// ChildrenAfter returns the first count children of an entity, at most 100, with ids after after, in the order
// of their ids. after may be "". It reads an index, which may lag behind a change by a moment.
func (n Entities) ChildrenAfter(ctx context.Context, id, after string, count int) ([]Entity, error) {
	if err := cmp.Or(n.d.Usable(ctx), checkEntityID("id", id), checkPage(after, count)); err != nil {
		return nil, err
	}
	return n.childrenAfter(ctx, id, after, count)
}

// childrenAfter returns up to count children of an entity with ids after after, in the order of their ids, by
// an index that may lag. For the parent "" it returns the top entities.
func (n Entities) childrenAfter(ctx context.Context, parent, after string, count int) ([]Entity, error) {
	q := n.childrenOf(parent)
	q.Sort, q.Page = schema.GSI1SK, int32(count) // at most 100
	q.From, q.To = schema.ChildRange(after)
	var found []Entity
	for e, err := range n.listRecords(ctx, q, func(item schema.Item) string {
		child, _ := schema.Child(item)
		return child
	}, func(schema.Item) bool { return true }) {
		if err != nil {
			return nil, err
		}
		if found = append(found, e); len(found) == count {
			break
		}
	}
	return found, nil
}
