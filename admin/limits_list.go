package admin

import (
	"context"
	"iter"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Scopes lists every source of configuration that says anything: the system, resources,
// plans, entities. Lists and indexes are read, which may lag behind a change by a moment.
// A source that zae-limiter wrote is listed as it lists it.
func (l Limits) Scopes(ctx context.Context) iter.Seq2[Scope, error] {
	if err := l.d.Usable(ctx); err != nil {
		return problem.ErrorList[Scope](err)
	}
	return func(yield func(Scope, error) bool) {
		for _, list := range []iter.Seq2[Scope, error]{l.listSystem(ctx), listResourceSources(ctx, l.d), sourceIndex{l.d.Table, l.d.Keys}.listPlans(ctx), l.listEntitySources(ctx)} {
			for at, err := range list {
				if !yield(at, err) || err != nil {
					return
				}
			}
		}
	}
}

// listSystem lists the system's scope if its source is stored, and nothing otherwise. An error is the only
// element.
func (l Limits) listSystem(ctx context.Context) iter.Seq2[Scope, error] {
	return func(yield func(Scope, error) bool) {
		item, err := l.d.readConfig(ctx, opReadLimits, schema.ConfigOwner{})
		if err != nil || item != nil {
			yield(Scope{Everyone: true}, err)
		}
	}
}

// Resources lists the resources that have limits for every entity, by name. An error is the only element.
func (l Limits) Resources(ctx context.Context) iter.Seq2[string, error] {
	if err := l.d.Usable(ctx); err != nil {
		return problem.ErrorList[string](err)
	}
	return distinctNames(listResourceSources(ctx, l.d), func(at Scope) string { return at.Resource })
}

// listResourceSources lists the sources that resources have for everyone, by name. An error is the only
// element.
func listResourceSources(ctx context.Context, d *desk) iter.Seq2[Scope, error] {
	return func(yield func(Scope, error) bool) {
		resources, err := d.readResources(ctx)
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
		return problem.ErrorList[string](err)
	}
	return distinctNames(sourceIndex{l.d.Table, l.d.Keys}.listPlans(ctx), func(at Scope) string { return at.Plan })
}

// Entities lists the entities that have limits of their own for a
// resource ("": a default), in the order of their ids. An index is read, which
// may lag behind a change by a moment.
func (l Limits) Entities(ctx context.Context, resource string) iter.Seq2[string, error] {
	if err := l.d.Usable(ctx); err != nil {
		return problem.ErrorList[string](err)
	}
	if resource != "" {
		if err := checkResource(resource); err != nil {
			return problem.ErrorList[string](err)
		}
	}
	return distinctNames(sourceIndex{l.d.Table, l.d.Keys}.listEntities(ctx, resource), func(at Scope) string { return at.Entity })
}

// listEntitySources lists the sources of all entities, resource after resource. It first reads the
// counted resources; an error is the last element.
func (l Limits) listEntitySources(ctx context.Context) iter.Seq2[Scope, error] {
	return func(yield func(Scope, error) bool) {
		item, err := l.d.Table.Get(ctx, opListEntities, l.d.Keys.EntityResources())
		if err != nil {
			yield(Scope{}, err)
			return
		}
		for _, resource := range append(schema.CountedResources(item), schema.KeyAttributes()...) {
			for at, err := range (sourceIndex{l.d.Table, l.d.Keys}).listEntities(ctx, resource) {
				if !yield(at, err) || err != nil {
					return
				}
			}
		}
	}
}

// distinctNames lists the names that of extracts from a list of sources, such as their plans. Of equal names
// that follow each other it lists one. An error is the last element.
func distinctNames(list iter.Seq2[Scope, error], of func(Scope) string) iter.Seq2[string, error] {
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
