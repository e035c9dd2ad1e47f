package admin

import (
	"context"
	"iter"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// Scopes lists every level of configuration that says anything: the system, resources,
// plans, entities. Lists and indexes are read, which may lag behind a change by a moment.
// A level that zae-limiter wrote is listed as it lists it.
func (l Limits) Scopes(ctx context.Context) iter.Seq2[Scope, error] {
	if err := l.d.repo.Usable(ctx); err != nil {
		return problem.List[Scope](err)
	}
	return func(yield func(Scope, error) bool) {
		for owner, err := range l.d.repo.Items.Configs.Owners(ctx) {
			if !yield(scopeOf(owner), err) || err != nil {
				return
			}
		}
	}
}

// Plans lists the plans that have any configuration, by name. An index is read, which may
// lag behind a change by a moment.
func (l Limits) Plans(ctx context.Context) iter.Seq2[string, error] {
	if err := l.d.repo.Usable(ctx); err != nil {
		return problem.List[string](err)
	}
	return func(yield func(string, error) bool) {
		last := ""
		for owner, err := range l.d.repo.Items.Configs.PlanOwners(ctx) {
			if err == nil && owner.Plan == last {
				continue
			}
			if last = owner.Plan; !yield(owner.Plan, err) || err != nil {
				return
			}
		}
	}
}

// Resources lists the resources that have limits for every entity, by name.
func (l Limits) Resources(ctx context.Context) iter.Seq2[string, error] {
	if err := l.d.repo.Usable(ctx); err != nil {
		return problem.List[string](err)
	}
	return l.d.repo.Items.Configs.Resources(ctx)
}

// Entities lists the entities that have limits of their own for a
// resource ("": a default), in the order of their ids. An index is read, which
// may lag behind a change by a moment.
func (l Limits) Entities(ctx context.Context, resource string) iter.Seq2[string, error] {
	if err := l.d.repo.Usable(ctx); err != nil {
		return problem.List[string](err)
	}
	if resource != "" {
		if err := checkResource(resource); err != nil {
			return problem.List[string](err)
		}
	}
	return l.d.repo.Items.Configs.Entities(ctx, resource)
}
