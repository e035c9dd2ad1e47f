package dynalimit

import (
	"context"
	"iter"
	"time"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
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
func (r *Repository) SetSystemLimits(ctx context.Context, limits []Limit, opts *SystemOptions) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if opts != nil {
		switch opts.OnUnavailable {
		case "", Block, Allow, Local:
		default:
			return invalid("options.OnUnavailable", "is %q; give %q, %q, %q or nothing", opts.OnUnavailable, Block, Allow, Local)
		}
	}
	return r.setLimits(ctx, schema.ConfigOwner{}, limits, opts)
}

// GetSystemLimits returns the system's limits, sorted by name and none if there
// are none, and its options.
func (r *Repository) GetSystemLimits(ctx context.Context) ([]Limit, SystemOptions, error) {
	if err := r.usable(ctx); err != nil {
		return nil, SystemOptions{}, err
	}
	limits, item, err := r.getLimits(ctx, LevelSystem, schema.ConfigOwner{})
	return limits, SystemOptions{OnUnavailable: storedPolicy(item)}, err
}

// DeleteSystemLimits removes the system's limits and options. Removing what is
// not there is no error.
func (r *Repository) DeleteSystemLimits(ctx context.Context) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	return r.deleteLimits(ctx, schema.ConfigOwner{})
}

// SetResourceLimits replaces the limits of every entity on a resource, for those
// without limits of their own. See SetSystemLimits.
func (r *Repository) SetResourceLimits(ctx context.Context, resource string, limits []Limit) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := checkResource(resource); err != nil {
		return err
	}
	return r.setLimits(ctx, schema.ConfigOwner{Resource: resource}, limits, nil)
}

// GetResourceLimits returns the limits of a resource, sorted by name; none if
// there are none.
func (r *Repository) GetResourceLimits(ctx context.Context, resource string) ([]Limit, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	if err := checkResource(resource); err != nil {
		return nil, err
	}
	limits, _, err := r.getLimits(ctx, LevelResource, schema.ConfigOwner{Resource: resource})
	return limits, err
}

// DeleteResourceLimits removes the limits of a resource. Removing what is not
// there is no error.
func (r *Repository) DeleteResourceLimits(ctx context.Context, resource string) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := checkResource(resource); err != nil {
		return err
	}
	return r.deleteLimits(ctx, schema.ConfigOwner{Resource: resource})
}

// SetEntityLimits replaces the limits of an entity on a resource; the resource
// "" is the entity's default, for every resource it has no limits for. The
// entity needs no record. See SetSystemLimits.
func (r *Repository) SetEntityLimits(ctx context.Context, entity, resource string, limits []Limit) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	owner, err := entityOwner(entity, resource)
	if err != nil {
		return err
	}
	return r.setLimits(ctx, owner, limits, nil)
}

// GetEntityLimits returns the limits of an entity on a resource ("": its
// default), sorted by name; none if it has none of its own there.
func (r *Repository) GetEntityLimits(ctx context.Context, entity, resource string) ([]Limit, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	owner, err := entityOwner(entity, resource)
	if err != nil {
		return nil, err
	}
	level := LevelEntity
	if owner.Resource == schema.DefaultResource {
		level = LevelEntityDefault
	}
	limits, _, err := r.getLimits(ctx, level, owner)
	return limits, err
}

// DeleteEntityLimits removes the limits of an entity on a resource ("": its
// default). Removing what is not there is no error.
func (r *Repository) DeleteEntityLimits(ctx context.Context, entity, resource string) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	owner, err := entityOwner(entity, resource)
	if err != nil {
		return err
	}
	return r.deleteLimits(ctx, owner)
}

// EntitiesWithLimits lists the entities that have limits of their own for a
// resource ("": a default), in the order of their ids. An index is read, which
// may lag behind a change by a moment.
func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	if err := r.usable(ctx); err != nil {
		return problem.List[string](err)
	}
	return func(yield func(string, error) bool) {
		if resource != "" {
			if err := checkResource(resource); err != nil {
				yield("", err)
				return
			}
		}
		q := table.Query{
			Op: "list entities with limits", Index: schema.IndexEntityConfigs,
			Hash: schema.GSI3PK, Value: r.keys.EntityConfigs(resource),
		}
		for page, err := range r.store.Pages(ctx, q) {
			if err != nil {
				yield("", err)
				return
			}
			if !table.YieldAll(configuredEntities(page.Items), yield) {
				return
			}
		}
	}
}

func configuredEntities(items []schema.Item) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = schema.ConfiguredEntity(item)
	}
	return ids
}

func entityOwner(entity, resource string) (schema.ConfigOwner, error) {
	if err := checkEntityID("entity", entity); err != nil {
		return schema.ConfigOwner{}, err
	}
	if resource != "" && resource != schema.DefaultResource {
		if err := checkResource(resource); err != nil {
			return schema.ConfigOwner{}, err
		}
	}
	return schema.ConfigOwner{Entity: entity, Resource: resource}.Normal(), nil
}

func (r *Repository) getLimits(ctx context.Context, level ConfigLevel, owner schema.ConfigOwner) ([]Limit, schema.Item, error) {
	if err := r.mayRead(ctx, owner); err != nil {
		return nil, nil, err
	}
	item, err := r.store.Get(ctx, "read limits", r.keys.Config(owner))
	if err != nil {
		return nil, nil, err
	}
	limits, err := storedLimits(level, item)
	return limits, item, err
}

// configLimits checks limits that are to be stored.
func configLimits(limits []Limit) ([]schema.ConfigLimit, error) {
	limits, err := normalizeLimits("limits", limits)
	if err != nil {
		return nil, err
	}
	if err := checkStored("limits", limits); err != nil {
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

// evictConfig forgets the configurations that the owner's record is part of.
func (r *Repository) evictConfig(o schema.ConfigOwner) {
	o = o.Normal()
	all := o.Resource == "" || o.Resource == schema.DefaultResource && (o.Entity != "" || o.Plan != "")
	match := func(k configKey) bool {
		return (o.Entity == "" || k.entity == o.Entity) && (all || k.resource == o.Resource)
	}
	if o.Plan != "" {
		r.configs.evictPlan(o.Plan, match)
		return
	}
	r.configs.evict(match)
}

// setLimits replaces the owner's limits, and the options when given.
func (r *Repository) setLimits(ctx context.Context, owner schema.ConfigOwner, limits []Limit, opts *SystemOptions) error {
	stored, err := configLimits(limits)
	if err != nil {
		return err
	}
	if err := r.compatible(owner.Resource, "limits", limits); err != nil {
		return err
	}
	return r.changeConfig(ctx, "set limits", owner, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		next := schema.ConfigItem{Limits: stored}
		if old != nil {
			next.OnUnavailable, next.Blocked = old.OnUnavailable, old.Blocked
		}
		if opts != nil {
			next.OnUnavailable = string(opts.OnUnavailable)
		}
		return &next, nil
	})
}

// deleteLimits removes the owner's configuration.
func (r *Repository) deleteLimits(ctx context.Context, owner schema.ConfigOwner) error {
	return r.changeConfig(ctx, "delete limits", owner, func(*schema.ConfigItem) (*schema.ConfigItem, error) { return nil, nil })
}

// changeConfig changes the owner's configuration. It evicts the cache before and after,
// because a read that began before the write ended may have seen the old item.
func (r *Repository) changeConfig(ctx context.Context, op string, owner schema.ConfigOwner, edit admin.Edit) error {
	by, err := r.mayChange(ctx)
	if err != nil {
		return err
	}
	if _, err := r.takeOverConfig(ctx, owner); err != nil && !isValidation(err) { // what cannot be read is replaced
		return err
	}
	r.evictConfig(owner)
	defer r.evictConfig(owner)
	return r.admin.ChangeConfig(ctx, by, op, owner, edit)
}
