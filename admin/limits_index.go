package admin

import (
	"context"
	"iter"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// sourceIndex lists sources by the index of sources, which may lag behind a change by a moment.
type sourceIndex struct {
	table *table.Table
	keys  schema.Keys
}

// opReadLimits names a read of sources in errors.
const opReadLimits = "read limits"

// opListEntities names a list of entities with limits in errors.
const opListEntities = "list entities with limits"

// listPlans lists the scopes of the sources of plans from the index, by plan and resource. An error is the last
// element.
func (x sourceIndex) listPlans(ctx context.Context) iter.Seq2[Scope, error] {
	return x.listPartition(ctx, queryPlans(x.keys), func(key string) Scope {
		plan, resource, _ := strings.Cut(key, "#")
		return Scope{Plan: plan, Resource: resource}.normalized()
	})
}

// listEntities lists the scopes of the sources that entities have for a resource; "" lists their defaults. An
// error is the last element.
func (x sourceIndex) listEntities(ctx context.Context, resource string) iter.Seq2[Scope, error] {
	q := table.Query{Op: opListEntities, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: x.keys.EntityConfigs(resource)}
	return x.listPartition(ctx, q, func(entity string) Scope { return Scope{Entity: entity, Resource: resource}.normalized() })
}

// listPartition lists the sources in a partition of the index; of returns the scope of a sort key. An error
// is the last element.
func (x sourceIndex) listPartition(ctx context.Context, q table.Query, of func(key string) Scope) iter.Seq2[Scope, error] {
	return func(yield func(Scope, error) bool) {
		for item, err := range x.table.Items(ctx, q) {
			if !yield(of(schema.Text(item, schema.GSI3SK)), err) || err != nil {
				return
			}
		}
	}
}

// queryPlans returns the query of the index that lists the sources of plans, by plan and resource.
func queryPlans(keys schema.Keys) table.Query {
	return table.Query{Op: "list the plans", Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: keys.Plans()}
}
