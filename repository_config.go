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

// SystemOptions is what system configuration holds besides limits.
type SystemOptions struct {
	// OnUnavailable is what Acquire does when DynamoDB does not answer, unless
	// the call says otherwise. Empty means none is stored: Block.
	OnUnavailable UnavailablePolicy
}

// SetSystemLimits replaces the limits of every entity and resource that has
// none of its own. With nil options the stored ones are kept; else they are
// replaced too. Limits are in force in this process at once, in others within
// their ConfigTTL. It fails with a *ValidationError before anything is written.
// To store again what is stored writes nothing.
func (r *Repository) SetSystemLimits(ctx context.Context, limits []Limit, opts *SystemOptions) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if opts != nil {
		if err := checkPolicy("options.OnUnavailable", opts.OnUnavailable); err != nil {
			return err
		}
	}
	return r.setLimits(ctx, Scope{}, limits, opts)
}

// GetSystemLimits returns the system's limits, sorted by name and none if there
// are none, and its options.
func (r *Repository) GetSystemLimits(ctx context.Context) ([]Limit, SystemOptions, error) {
	c, err := r.GetConfig(ctx, Scope{})
	return c.Limits, SystemOptions{OnUnavailable: c.OnUnavailable}, err
}

// DeleteSystemLimits removes the system's limits and options. Removing what is
// not there is no error. A system that is blocked stays so: see SetBlocked.
func (r *Repository) DeleteSystemLimits(ctx context.Context) error {
	return r.deleteLimits(ctx, Scope{})
}

// SetResourceLimits replaces the limits of every entity on a resource, for those
// without limits of their own or of their plan. See SetSystemLimits.
func (r *Repository) SetResourceLimits(ctx context.Context, resource string, limits []Limit) error {
	if err := r.usableFor(ctx, resource); err != nil {
		return err
	}
	return r.setLimits(ctx, Scope{Resource: resource}, limits, nil)
}

// GetResourceLimits returns the limits of a resource, sorted by name; none if
// there are none.
func (r *Repository) GetResourceLimits(ctx context.Context, resource string) ([]Limit, error) {
	if err := r.usableFor(ctx, resource); err != nil {
		return nil, err
	}
	c, err := r.GetConfig(ctx, Scope{Resource: resource})
	return c.Limits, err
}

// DeleteResourceLimits removes the limits of a resource. Removing what is not
// there is no error. A resource that is blocked stays so.
func (r *Repository) DeleteResourceLimits(ctx context.Context, resource string) error {
	if err := r.usableFor(ctx, resource); err != nil {
		return err
	}
	return r.deleteLimits(ctx, Scope{Resource: resource})
}

// SetPlanLimits replaces the limits of the entities on a plan, for a resource; the
// resource "" is the plan's default, for every resource it has no limits for. They apply
// to entities without limits of their own, and hide those of the resource and the system.
// See SetSystemLimits and Entity.Plan.
func (r *Repository) SetPlanLimits(ctx context.Context, plan, resource string, limits []Limit) error {
	return r.setLimitsOf(ctx, "plan", plan, Scope{Plan: plan, Resource: resource}, limits)
}

// GetPlanLimits returns the limits of a plan on a resource ("": its default), sorted by
// name; none if it has none there.
func (r *Repository) GetPlanLimits(ctx context.Context, plan, resource string) ([]Limit, error) {
	return r.getLimitsOf(ctx, "plan", plan, Scope{Plan: plan, Resource: resource})
}

// DeletePlanLimits removes the limits of a plan on a resource ("": its default). Removing
// what is not there is no error. Entities stay on the plan. A plan that is blocked stays
// so.
func (r *Repository) DeletePlanLimits(ctx context.Context, plan, resource string) error {
	return r.deleteLimitsOf(ctx, "plan", plan, Scope{Plan: plan, Resource: resource})
}

// SetEntityLimits replaces the limits of an entity on a resource; the resource
// "" is the entity's default, for every resource it has no limits for. The
// entity needs no record. See SetSystemLimits.
func (r *Repository) SetEntityLimits(ctx context.Context, entity, resource string, limits []Limit) error {
	return r.setLimitsOf(ctx, "entity", entity, Scope{Entity: entity, Resource: resource}, limits)
}

// GetEntityLimits returns the limits of an entity on a resource ("": its
// default), sorted by name; none if it has none of its own there.
func (r *Repository) GetEntityLimits(ctx context.Context, entity, resource string) ([]Limit, error) {
	return r.getLimitsOf(ctx, "entity", entity, Scope{Entity: entity, Resource: resource})
}

// DeleteEntityLimits removes the limits of an entity on a resource ("": its
// default). Removing what is not there is no error. An entity that is blocked stays so.
func (r *Repository) DeleteEntityLimits(ctx context.Context, entity, resource string) error {
	return r.deleteLimitsOf(ctx, "entity", entity, Scope{Entity: entity, Resource: resource})
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

// usableFor is usable, for a call about a resource.
func (r *Repository) usableFor(ctx context.Context, resource string) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	return checkResource(resource)
}

// usableOf is usable, for a call about an entity or a plan, which needs a name.
func (r *Repository) usableOf(ctx context.Context, field, id string, at Scope) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := checkEntityID(field, id); err != nil {
		return err
	}
	return at.check("")
}

func (r *Repository) setLimitsOf(ctx context.Context, field, id string, at Scope, limits []Limit) error {
	if err := r.usableOf(ctx, field, id, at); err != nil {
		return err
	}
	return r.setLimits(ctx, at, limits, nil)
}

func (r *Repository) getLimitsOf(ctx context.Context, field, id string, at Scope) ([]Limit, error) {
	if err := r.usableOf(ctx, field, id, at); err != nil {
		return nil, err
	}
	c, err := r.GetConfig(ctx, at)
	return c.Limits, err
}

func (r *Repository) deleteLimitsOf(ctx context.Context, field, id string, at Scope) error {
	if err := r.usableOf(ctx, field, id, at); err != nil {
		return err
	}
	return r.deleteLimits(ctx, at)
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

// setLimits replaces the limits of a level, and the options when given.
func (r *Repository) setLimits(ctx context.Context, at Scope, limits []Limit, opts *SystemOptions) error {
	stored, err := configLimits("limits", limits)
	if err != nil {
		return err
	}
	if err := r.compatible(at.Resource, "limits", limits); err != nil {
		return err
	}
	return r.changeConfig(ctx, "set limits", at, replacingLimits(stored, opts))
}

// replacingLimits replaces the limits of a level, and the options when given.
func replacingLimits(stored []schema.ConfigLimit, opts *SystemOptions) admin.Edit {
	return func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		next := schema.ConfigItem{Limits: stored}
		if old != nil {
			next.OnUnavailable, next.Blocked, next.ManagedBy = old.OnUnavailable, old.Blocked, old.ManagedBy
		}
		if opts != nil {
			next.OnUnavailable = string(opts.OnUnavailable)
		}
		return &next, nil
	}
}

// deleteLimits removes what a level says, but for being blocked: nobody is to be let in
// by a call that does not speak of it.
func (r *Repository) deleteLimits(ctx context.Context, at Scope) error {
	return r.changeConfig(ctx, "delete limits", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		if old != nil && old.Blocked {
			return &schema.ConfigItem{Blocked: true, ManagedBy: old.ManagedBy}, nil
		}
		return nil, nil
	})
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
