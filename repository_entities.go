package dynalimit

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	// maxName and maxMetadata bound an entity's free text, in bytes: the
	// record and its copy in the children index stay cheap to read.
	maxName, maxMetadata = 1024, 64 << 10
	// maxMetadataKey bounds the name of one entry, in bytes.
	maxMetadataKey = 255
)

// CreateEntity writes an entity's record, so that it has a parent, a name and
// metadata; limits need none. CreatedAt is set to now, in whole seconds. It
// fails with ErrExists when there is a record, and with a *ValidationError for
// bad input, a cycle of parents or a chain deeper than 8 levels. The parent
// needs no record. Children made before their parent are counted, by an index that
// may lag a moment behind and as far as 100 of them tell; where a chain becomes
// deeper all the same, an acquire charges the 8 nearest levels.
//
// The write is a transaction of one: its client token stays the same when the
// SDK retries, so a lost answer does not turn into ErrExists.
func (r *Repository) CreateEntity(ctx context.Context, e Entity) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := checkEntity(e); err != nil {
		return err
	}
	if err := r.checkVersion(ctx); err != nil {
		return err
	}
	if err := r.checkParents(ctx, e); err != nil {
		return err
	}
	owned := func(k configKey) bool { return k.entity == e.ID }
	r.configs.evict(owned)
	defer r.configs.evict(owned)
	item := r.keys.EncodeEntity(schema.EntityRecord{
		ID: e.ID, Name: e.Name, ParentID: e.ParentID, Cascade: e.Cascade, Plan: e.Plan, Metadata: e.Metadata, CreatedAt: r.clock.Now(),
	})
	for attempt := 1; ; attempt++ {
		v, err := r.store.Transact(ctx, []types.TransactWriteItem{{Put: &types.Put{
			TableName: &r.table, Item: item, ConditionExpression: aws.String(schema.CreateCondition),
		}}})
		switch {
		case v == landed:
			return nil
		case v == refused:
			return fmt.Errorf("%w: entity %q has a record; delete it first", ErrExists, e.ID)
		case v != conflicted && v != throttled && v != unsent || attempt == table.Tries:
			return r.store.Failure("create the entity", err)
		}
		if !table.Backoff.Pause(ctx, attempt) {
			return r.store.Failure("create the entity", err)
		}
	}
}

func checkEntity(e Entity) error {
	if err := checkEntityID("entity.ID", e.ID); err != nil {
		return err
	}
	if e.ParentID != "" {
		if err := checkEntityID("entity.ParentID", e.ParentID); err != nil {
			return err
		}
	}
	if e.ParentID == e.ID {
		return invalid("entity.ParentID", "is the entity itself (%q); name another one, or none", e.ID)
	}
	if e.Cascade && e.ParentID == "" {
		return invalid("entity.Cascade", "is true without a parent to charge; set ParentID too, or leave Cascade out")
	}
	if e.Plan != "" {
		if err := checkEntityID("entity.Plan", e.Plan); err != nil {
			return err
		}
	}
	if len(e.Name) > maxName || !utf8.ValidString(e.Name) {
		return invalid("entity.Name", "has %d bytes; give UTF-8 of at most %d", len(e.Name), maxName)
	}
	return checkMetadata(e.Metadata)
}

func checkMetadata(metadata map[string]string) error {
	size := 0
	for name, value := range metadata {
		if name == "" || len(name) > maxMetadataKey || !utf8.ValidString(name) {
			return invalid("entity.Metadata", "has the key %q; give keys of 1 to %d bytes of UTF-8", name, maxMetadataKey)
		}
		if !utf8.ValidString(value) {
			return invalid("entity.Metadata["+name+"]", "is not UTF-8; encode it, for example as base64")
		}
		size += len(name) + len(value)
	}
	if size > maxMetadata {
		return invalid("entity.Metadata", "has %d bytes; at most %d are allowed", size, maxMetadata)
	}
	return nil
}

// checkParents walks up from the parent: the entity must not be met again, and
// the chain must end within the depth a cascade follows.
func (r *Repository) checkParents(ctx context.Context, e Entity) error {
	chain := []string{e.ID}
	for id := e.ParentID; id != ""; {
		chain = append(chain, id)
		if id == e.ID {
			return invalid("entity.ParentID", "makes a cycle: %s; choose a parent outside it", strings.Join(chain, " → "))
		}
		if len(chain) > maxDepth {
			return invalid("entity.ParentID", "makes a chain deeper than %d levels: %s; choose a parent higher up", maxDepth, strings.Join(chain, " → "))
		}
		item, err := r.store.Get(ctx, "read the parents", r.keys.Meta(id))
		if err != nil {
			return err
		}
		id = schema.DecodeEntity(item).ParentID
	}
	if e.ParentID == "" {
		return nil
	}
	return r.checkChildren(ctx, e.ID, len(chain))
}

// mostDescendants bounds how many entities are asked for their children.
const mostDescendants = 100

// checkChildren walks down from an entity that is on so many levels of its chain:
// records may have been made before their parent's.
func (r *Repository) checkChildren(ctx context.Context, id string, levels int) error {
	asked := 0
	for generation := []string{id}; len(generation) > 0; levels++ {
		if levels > maxDepth {
			return invalid("entity.ParentID", "makes a chain deeper than %d levels: %s and others are %d levels below the top; choose a parent higher up", maxDepth, generation[0], levels)
		}
		var next []string
		for _, parent := range generation {
			if asked++; asked > mostDescendants {
				break
			}
			ids, err := r.someChildren(ctx, parent)
			if err != nil {
				return err
			}
			next = append(next, ids...)
		}
		generation = next
	}
	return nil
}

// someChildren are the ids of the first children, as many as are asked for theirs.
func (r *Repository) someChildren(ctx context.Context, id string) ([]string, error) {
	for page, err := range r.store.Pages(ctx, r.children(id)) {
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, item := range page.Items[:min(len(page.Items), mostDescendants)] {
			if child, ok := schema.Child(item); ok {
				ids = append(ids, child)
			}
		}
		return ids, nil
	}
	return nil, nil
}

// GetEntity returns an entity's record. It fails with ErrNotFound when there is
// none.
func (r *Repository) GetEntity(ctx context.Context, id string) (Entity, error) {
	if err := r.usable(ctx); err != nil {
		return Entity{}, err
	}
	if err := checkEntityID("id", id); err != nil {
		return Entity{}, err
	}
	item, err := r.store.Get(ctx, "read the entity", r.keys.Meta(id))
	if err != nil {
		return Entity{}, err
	}
	if item == nil {
		return Entity{}, fmt.Errorf("%w: entity %q has no record; make one with CreateEntity", ErrNotFound, id)
	}
	return entityOf(id, item), nil
}

func entityOf(id string, item schema.Item) Entity {
	e := schema.DecodeEntity(item)
	return Entity{ID: id, Name: e.Name, ParentID: e.ParentID, Cascade: e.Cascade, Plan: e.Plan, Metadata: e.Metadata, CreatedAt: e.CreatedAt}
}

// DeleteEntity removes an entity's limits, buckets and record; what was recorded
// about its usage stays until it expires. Deleting what is not there is no
// error, and a call that failed can be repeated: the record goes last. An entity
// with children is refused with a *ValidationError that says how many.
//
// Deletions are idempotent, so the SDK may retry them; counts are changed in
// the transaction that removes the limits.
func (r *Repository) DeleteEntity(ctx context.Context, id string) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := checkEntityID("id", id); err != nil {
		return err
	}
	if err := r.checkVersion(ctx); err != nil {
		return err
	}
	const op = "delete the entity"
	children, err := r.countChildren(ctx, id)
	if err != nil {
		return err
	}
	if children > 0 {
		return invalid("id", "%q has children (%d); delete them first, and create those to keep with another parent", id, children)
	}
	owned := func(k configKey) bool { return k.entity == id }
	r.configs.evict(owned)
	defer r.configs.evict(owned)

	if err := r.takeOverEntity(ctx, id); err != nil {
		return err
	}
	partition := table.Query{Op: op, Hash: schema.PK, Value: r.keys.Entity(id), Prefix: schema.ConfigsOf}
	configs, err := r.store.Keys(ctx, partition)
	if err != nil {
		return err
	}
	for _, key := range configs {
		resource, _ := schema.ConfigResource(key.SK)
		if _, err := r.putConfig(ctx, Scope{Entity: id, Resource: resource}, LimitConfig{Version: AnyVersion}, nil); err != nil {
			return err
		}
	}
	partition.Prefix = schema.BucketsOf
	buckets, err := r.store.Keys(ctx, partition)
	if err != nil {
		return err
	}
	if err := r.store.BatchDelete(ctx, op, buckets); err != nil {
		return err
	}
	return r.store.BatchDelete(ctx, op, []schema.Key{r.keys.Meta(id)})
}

func (r *Repository) countChildren(ctx context.Context, id string) (int64, error) {
	q := r.children(id)
	q.Count = true
	var n int64
	for page, err := range r.store.Pages(ctx, q) {
		if err != nil {
			return 0, err
		}
		n += int64(page.Count)
	}
	return n, nil
}

func (r *Repository) children(id string) table.Query {
	return table.Query{Op: "list the children", Index: schema.IndexChildren, Hash: schema.GSI1PK, Value: r.keys.Parent(id)}
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
		for page, err := range r.store.Pages(ctx, r.children(id)) {
			var entities []Entity
			if err == nil {
				entities, err = r.pageEntities(ctx, page)
			}
			if err != nil {
				yield(Entity{}, err)
				return
			}
			if !table.YieldAll(entities, yield) {
				return
			}
		}
	}
}

// pageEntities reads the entities of a page of the children index. An index
// that another tool made may project keys alone: then the records are fetched.
func (r *Repository) pageEntities(ctx context.Context, page *dynamodb.QueryOutput) ([]Entity, error) {
	records := make([]schema.Item, len(page.Items))
	var missing []schema.Key
	for i, item := range page.Items {
		records[i] = item
		if !schema.HasEntity(item) {
			missing = append(missing, schema.KeyOf(item))
		}
	}
	if len(missing) > 0 {
		found, err := r.store.BatchGet(ctx, "list the children", missing)
		if err != nil {
			return nil, err
		}
		for i, item := range page.Items {
			if !schema.HasEntity(item) {
				records[i] = found[schema.KeyOf(item)]
			}
		}
	}
	entities := make([]Entity, 0, len(records))
	for i, record := range records {
		if id, ok := schema.Child(page.Items[i]); ok && record != nil { // nil: deleted since the index was read
			entities = append(entities, entityOf(id, record))
		}
	}
	return entities, nil
}
