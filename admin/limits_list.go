package admin

import (
	"context"
	"iter"
	"strings"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Scopes lists every level of configuration that says anything: the system, resources,
// plans, entities. Lists and indexes are read, which may lag behind a change by a moment.
// A level that zae-limiter wrote is listed as it lists it.
func (l Limits) Scopes(ctx context.Context) iter.Seq2[Scope, error] {
	if err := l.d.Usable(ctx); err != nil {
		return problem.List[Scope](err)
	}
	return func(yield func(Scope, error) bool) {
		for _, list := range []iter.Seq2[Scope, error]{l.system(ctx), l.ofResources(ctx), l.ofPlans(ctx), l.ofEntities(ctx)} {
			for at, err := range list {
				if !yield(at, err) || err != nil {
					return
				}
			}
		}
	}
}

// system lists the system's level.
func (l Limits) system(ctx context.Context) iter.Seq2[Scope, error] {
	return func(yield func(Scope, error) bool) {
		item, err := l.d.config(ctx, opReadLimits, schema.ConfigOwner{})
		if err != nil || item != nil {
			yield(Scope{Everyone: true}, err)
		}
	}
}

// Resources lists the resources that have limits for every entity, by name.
func (l Limits) Resources(ctx context.Context) iter.Seq2[string, error] {
	if err := l.d.Usable(ctx); err != nil {
		return problem.List[string](err)
	}
	return names(l.ofResources(ctx), func(at Scope) string { return at.Resource })
}

func (l Limits) ofResources(ctx context.Context) iter.Seq2[Scope, error] {
	return func(yield func(Scope, error) bool) {
		resources, err := l.d.resources(ctx)
		if err != nil {
			yield(Scope{}, err)
			return
		}
		for _, resource := range resources {
			if !yield(Scope{Everyone: true, Resource: resource}, nil) {
				return
			}
		}
	}
}

// Plans lists the plans that have any configuration, by name. An index is read, which may
// lag behind a change by a moment.
func (l Limits) Plans(ctx context.Context) iter.Seq2[string, error] {
	if err := l.d.Usable(ctx); err != nil {
		return problem.List[string](err)
	}
	return names(l.ofPlans(ctx), func(at Scope) string { return at.Plan })
}

func (l Limits) ofPlans(ctx context.Context) iter.Seq2[Scope, error] {
	return l.indexed(ctx, queryPlans(l.d.Keys), func(key string) Scope {
		plan, resource, _ := strings.Cut(key, "#")
		return Scope{Plan: plan, Resource: resource}.normal()
	})
}

// Entities lists the entities that have limits of their own for a
// resource ("": a default), in the order of their ids. An index is read, which
// may lag behind a change by a moment.
func (l Limits) Entities(ctx context.Context, resource string) iter.Seq2[string, error] {
	if err := l.d.Usable(ctx); err != nil {
		return problem.List[string](err)
	}
	if resource != "" {
		if err := checkResource(resource); err != nil {
			return problem.List[string](err)
		}
	}
	return names(l.ofEntitiesOn(ctx, resource), func(at Scope) string { return at.Entity })
}

// opListEntities names a list of entities with limits in errors.
const opListEntities = "list entities with limits"

func (l Limits) ofEntitiesOn(ctx context.Context, resource string) iter.Seq2[Scope, error] {
	q := table.Query{Op: opListEntities, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: l.d.Keys.EntityConfigs(resource)}
	return l.indexed(ctx, q, func(entity string) Scope { return Scope{Entity: entity, Resource: resource}.normal() })
}

func (l Limits) ofEntities(ctx context.Context) iter.Seq2[Scope, error] {
	return func(yield func(Scope, error) bool) {
		item, err := l.d.Table.Get(ctx, opListEntities, l.d.Keys.EntityResources())
		if err != nil {
			yield(Scope{}, err)
			return
		}
		for _, resource := range append(schema.CountedResources(item), schema.Uncounted()...) {
			for at, err := range l.ofEntitiesOn(ctx, resource) {
				if !yield(at, err) || err != nil {
					return
				}
			}
		}
	}
}

// indexed are the levels that a partition of the index GSI3 lists by its sort keys.
func (l Limits) indexed(ctx context.Context, q table.Query, of func(key string) Scope) iter.Seq2[Scope, error] {
	return func(yield func(Scope, error) bool) {
		for item, err := range l.d.Table.Items(ctx, q) {
			if !yield(of(schema.Text(item, schema.GSI3SK)), err) || err != nil {
				return
			}
		}
	}
}

// names are those of levels, each once where they follow one another.
func names(list iter.Seq2[Scope, error], of func(Scope) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		last := ""
		for at, err := range list {
			name := of(at)
			if err == nil && name == last {
				continue
			}
			if last = name; !yield(name, err) || err != nil {
				return
			}
		}
	}
}
