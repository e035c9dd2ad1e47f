package dynalimit

import (
	"context"
	"iter"
	"time"

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
func (r *Repository) SetSystemLimits(ctx context.Context, limits []Limit, opts *SystemOptions) error {
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
	limits, item, err := r.getLimits(ctx, LevelSystem, schema.ConfigOwner{})
	return limits, SystemOptions{OnUnavailable: storedPolicy(item)}, err
}

// DeleteSystemLimits removes the system's limits and options. Removing what is
// not there is no error.
func (r *Repository) DeleteSystemLimits(ctx context.Context) error {
	return r.deleteLimits(ctx, schema.ConfigOwner{})
}

// SetResourceLimits replaces the limits of every entity on a resource, for those
// without limits of their own. See SetSystemLimits.
func (r *Repository) SetResourceLimits(ctx context.Context, resource string, limits []Limit) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	return r.setLimits(ctx, schema.ConfigOwner{Resource: resource}, limits, nil)
}

// GetResourceLimits returns the limits of a resource, sorted by name; none if
// there are none.
func (r *Repository) GetResourceLimits(ctx context.Context, resource string) ([]Limit, error) {
	if err := checkResource(resource); err != nil {
		return nil, err
	}
	limits, _, err := r.getLimits(ctx, LevelResource, schema.ConfigOwner{Resource: resource})
	return limits, err
}

// DeleteResourceLimits removes the limits of a resource. Removing what is not
// there is no error.
func (r *Repository) DeleteResourceLimits(ctx context.Context, resource string) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	return r.deleteLimits(ctx, schema.ConfigOwner{Resource: resource})
}

// SetEntityLimits replaces the limits of an entity on a resource; the resource
// "" is the entity's default, for every resource it has no limits for. The
// entity needs no record. See SetSystemLimits.
func (r *Repository) SetEntityLimits(ctx context.Context, entity, resource string, limits []Limit) error {
	owner, err := entityOwner(entity, resource)
	if err != nil {
		return err
	}
	return r.setLimits(ctx, owner, limits, nil)
}

// GetEntityLimits returns the limits of an entity on a resource ("": its
// default), sorted by name; none if it has none of its own there.
func (r *Repository) GetEntityLimits(ctx context.Context, entity, resource string) ([]Limit, error) {
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
	return func(yield func(string, error) bool) {
		if resource != "" {
			if err := checkResource(resource); err != nil {
				yield("", err)
				return
			}
		}
		q := query{
			op: "list entities with limits", index: schema.IndexEntityConfigs,
			hash: schema.GSI3PK, value: r.keys.EntityConfigs(resource),
		}
		for page, err := range r.pages(ctx, q) {
			if err != nil {
				yield("", err)
				return
			}
			if !yieldAll(configuredEntities(page.Items), yield) {
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
	item, err := r.getItem(ctx, "read limits", r.keys.Config(owner))
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

// evictConfig forgets the configurations that the owner's limits are part of.
func (r *Repository) evictConfig(o schema.ConfigOwner) {
	r.configs.evict(func(k configKey) bool {
		switch {
		case o.Entity != "" && o.Resource == schema.DefaultResource:
			return k.entity == o.Entity
		case o.Entity != "":
			return k == configKey{o.Entity, o.Resource}
		case o.Resource != "":
			return k.resource == o.Resource
		default:
			return true
		}
	})
}
