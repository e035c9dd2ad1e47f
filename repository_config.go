package dynalimit

import (
	"context"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// SetLimits replaces the limits of a level; what else it says stays. They are in force in
// this process at once, in others within their ConfigTTL. It fails with a
// *ValidationError before anything is written. To store again what is stored writes
// nothing. An entity or a plan needs no record.
func (r *Repository) SetLimits(ctx context.Context, at Scope, limits []Limit) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	stored, err := configLimits("limits", limits)
	if err != nil {
		return err
	}
	if err := r.compatible(at.Resource, "limits", limits); err != nil {
		return err
	}
	return r.changeConfig(ctx, "set limits", at, replacingLimits(stored))
}

// DeleteLimits removes what a level says, but for being blocked: nobody is to be let in by
// a call that does not speak of it. Removing what is not there is no error. DeleteConfig
// removes a block too.
func (r *Repository) DeleteLimits(ctx context.Context, at Scope) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	return r.changeConfig(ctx, "delete limits", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		if old != nil && old.Blocked {
			return &schema.ConfigItem{Blocked: true, ManagedBy: old.ManagedBy}, nil
		}
		return nil, nil
	})
}

// EntitiesWithLimits lists the entities that have limits of their own for a
// resource ("": a default), in the order of their ids. An index is read, which
// may lag behind a change by a moment.
func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	if err := r.usable(ctx); err != nil {
		return problem.List[string](err)
	}
	if resource != "" {
		if err := checkResource(resource); err != nil {
			return problem.List[string](err)
		}
	}
	return r.admin.EntitiesWithConfig(ctx, resource)
}

// configLimits checks limits that are to be stored.
func configLimits(field string, limits []Limit) ([]schema.ConfigLimit, error) {
	limits, err := normalizeLimits(field, limits)
	if err != nil {
		return nil, err
	}
	if err := checkStored(field, limits); err != nil {
		return nil, err
	}
	out := make([]schema.ConfigLimit, len(limits))
	for i, l := range limits {
		out[i] = schema.ConfigLimit{
			Name: l.Name, Capacity: l.Capacity, Burst: l.Burst, Amount: l.RefillAmount,
			PeriodSeconds: int64(l.RefillPeriod / time.Second),
		}
	}
	return out, nil
}

// replacingLimits replaces the limits of a level.
func replacingLimits(stored []schema.ConfigLimit) admin.Edit {
	return func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		next := schema.ConfigItem{Limits: stored}
		if old != nil {
			next.OnUnavailable, next.Blocked, next.ManagedBy = old.OnUnavailable, old.Blocked, old.ManagedBy
		}
		return &next, nil
	}
}

// changeConfig changes what a level says.
func (r *Repository) changeConfig(ctx context.Context, op string, at Scope, edit admin.Edit) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	_, err := r.editConfig(ctx, op, at, edit)
	return err
}

// editConfig changes what a level says, and returns what is stored.
func (r *Repository) editConfig(ctx context.Context, op string, at Scope, edit admin.Edit) (*schema.ConfigItem, error) {
	by, err := r.mayChange(ctx)
	if err != nil {
		return nil, err
	}
	owner := at.owner()
	if err := r.takeOverBeforeChange(ctx, owner); err != nil {
		return nil, err
	}
	r.evictConfig(owner)
	defer r.evictConfig(owner)
	stored, err := r.admin.ChangeConfig(ctx, by, op, owner, edit)
	return stored, r.kindError(storedField(at.level()), err)
}

// takeOverBeforeChange turns limits of the layout before composite items into today's,
// before they are changed. What cannot be read is replaced.
func (r *Repository) takeOverBeforeChange(ctx context.Context, owner schema.ConfigOwner) error {
	if _, err := r.takeOverConfig(ctx, owner); err != nil && !isValidation(err) {
		return err
	}
	return nil
}

// mostTakeOvers is how many owners' limits are turned at once.
const mostTakeOvers = 16

// takeOverAllBeforeChange is takeOverBeforeChange for many changes.
func (r *Repository) takeOverAllBeforeChange(ctx context.Context, edits []admin.ConfigEdit) error {
	if r.compositeOnly() {
		return nil
	}
	owners, ctx := errgroup.WithContext(ctx)
	owners.SetLimit(mostTakeOvers)
	for _, e := range edits {
		owners.Go(func() error { return r.takeOverBeforeChange(ctx, e.Owner) })
	}
	return owners.Wait()
}

// evictConfig forgets the configurations that the owners' records are part of. It looks at
// each once, however many the owners. It is called before a change is written, and after,
// because a read that began before the write ended may have seen the old items.
func (r *Repository) evictConfig(owners ...schema.ConfigOwner) {
	levels, plans, ofPlans := map[schema.ConfigOwner]bool{}, map[string]bool{}, map[string]bool{}
	for _, o := range owners {
		if o = o.Normal(); o.Plan == "" {
			levels[o] = true
		} else {
			plans[o.Plan], ofPlans[o.Resource] = true, true
		}
	}
	if len(levels) > 0 {
		r.configs.evict(func(k configKey) bool {
			return levels[schema.ConfigOwner{}] || levels[schema.ConfigOwner{Resource: k.resource}] ||
				levels[schema.ConfigOwner{Entity: k.entity, Resource: k.resource}] ||
				levels[schema.ConfigOwner{Entity: k.entity}.Normal()]
		})
	}
	if len(plans) > 0 {
		r.configs.evictPlans(plans, func(k configKey) bool { return ofPlans[k.resource] || ofPlans[schema.DefaultResource] })
	}
}
