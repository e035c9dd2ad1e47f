package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// lineage reads and checks the parents and children of entities.
type lineage struct{ d *desk }

// ancestor is a parent, or a parent's parent, as its record was read; nil for none.
type ancestor struct {
	id   string
	item schema.Item
}

// errTorn means that a parent came twice on the way up: other writers moved the parents while
// they were read one after the other, or another tool made a cycle.
var errTorn = errors.New("a parent was met twice")

// walkAncestors returns the ancestors of an entity under parent, the nearest first; read returns a record. It refuses
// a cycle, a chain deeper than schema.MaxDepth, and a parent in deletion. It returns errTorn if a parent
// occurs twice, as after a move between two reads.
func walkAncestors(id, parent string, read func(id string) (schema.Item, error)) ([]ancestor, error) {
	const field = "entity.ParentID"
	chain := []string{id}
	var above []ancestor
	for next := parent; next != ""; {
		chain = append(chain, next)
		if next == id {
			return nil, invalid(field, "makes a cycle: %s; choose a parent outside it", strings.Join(chain, " → "))
		}
		if slices.Contains(chain[:len(chain)-1], next) {
			return nil, fmt.Errorf("%w: %s", errTorn, strings.Join(chain, " → "))
		}
		if len(chain) > schema.MaxDepth {
			return nil, invalid(field, "makes a chain deeper than %d levels: %s; choose a parent higher up", schema.MaxDepth, strings.Join(chain, " → "))
		}
		item, err := read(next)
		if err != nil {
			return nil, err
		}
		link := schema.DecodeLink(item)
		if link.Deleting {
			return nil, withFix(invalid(field, "%q is being deleted; choose another parent, or finish that deletion first", next), fault.DeleteEntity)
		}
		above = append(above, ancestor{next, item})
		next = link.ParentID
	}
	return above, nil
}

// readAncestors returns the ancestors of an entity under a new parent, read one by one; nil for the parent "".
// It checks that the entity's descendants would not be too deep. It retries after a pause if another writer
// moves an ancestor meanwhile.
func (n lineage) readAncestors(ctx context.Context, op, id, parent string) ([]ancestor, error) {
	read := func(id string) (schema.Item, error) { return n.d.Table.Get(ctx, op, n.d.Keys.Meta(id)) }
	above, err := walkAncestors(id, parent, read)
	for attempt := 1; errors.Is(err, errTorn); attempt++ {
		if attempt == table.Tries {
			return nil, withFix(invalid("entity.ParentID", "has parents in a cycle (%v); choose another parent, or correct them", err), fault.UpdateEntity)
		}
		if !table.Backoff.Pause(ctx, attempt) {
			return nil, ctx.Err()
		}
		above, err = walkAncestors(id, parent, read)
	}
	if err != nil || parent == "" {
		return nil, err
	}
	return above, n.checkDescendants(ctx, id, 1+len(above))
}

// requireAncestors returns the writes of a transaction that fails if an ancestor has changed since it was read;
// an absent record must stay absent. The writes also change the ancestors' records, so that a concurrent move
// of an ancestor fails.
func (n lineage) requireAncestors(above []ancestor) []types.TransactWriteItem {
	writes := make([]types.TransactWriteItem, 0, len(above))
	for _, p := range above {
		key := n.d.Keys.Meta(p.id)
		if p.item == nil {
			writes = append(writes, n.d.Table.CheckPart(key, schema.LinkUnchanged(nil)))
		} else {
			writes = append(writes, n.d.Table.UpdatePart(key, schema.Adopt(p.item)))
		}
	}
	return writes
}

// mostDescendants bounds how many entities are asked for their children.
const mostDescendants = 100

// checkDescendants refuses an entity with descendants that would be too deep. levels is the entity's own depth.
// It reads the children of at most mostDescendants entities.
func (n lineage) checkDescendants(ctx context.Context, id string, levels int) error {
	asked := 0
	for generation := []string{id}; len(generation) > 0; levels++ {
		if levels > schema.MaxDepth {
			return invalid("entity.ParentID", "makes a chain deeper than %d levels: %s and others are %d levels below the top; choose a parent higher up", schema.MaxDepth, generation[0], levels)
		}
		var next []string
		for _, parent := range generation {
			if asked++; asked > mostDescendants {
				break
			}
			ids, err := n.someChildren(ctx, parent)
			if err != nil {
				return err
			}
			next = append(next, ids...)
		}
		generation = next
	}
	return nil
}

// childrenOf returns the query of an entity's children in the index.
func (n lineage) childrenOf(id string) table.Query {
	return table.Query{Op: "list the children", Index: schema.IndexChildren, Hash: schema.GSI1PK, Value: n.d.Keys.Parent(id)}
}

// someChildren returns the ids of an entity's first children, at most mostDescendants, from the index, which
// may lag. It is nil without children.
func (n lineage) someChildren(ctx context.Context, id string) ([]string, error) {
	for page, err := range n.d.Table.Pages(ctx, n.childrenOf(id)) {
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

// countChildren counts the children of an entity, all of them, by the index, which may lag.
func (n lineage) countChildren(ctx context.Context, id string) (count int64, err error) {
	q := n.childrenOf(id)
	q.Count = true
	for page, err := range n.d.Table.Pages(ctx, q) {
		if err != nil {
			return 0, err
		}
		count += int64(page.Count)
	}
	return count, nil
}
