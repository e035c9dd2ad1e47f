package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// EntitySetup is an entity to be made, with the limits that it is to have.
type EntitySetup struct {
	// Entity is the entity, see CreateEntity.
	Entity Entity
	// Limits are the entity's own, by resource; the resource "" is its default, for every
	// resource that it has no limits for. At most 44 resources. Defaults to none.
	Limits map[string][]Limit
}

// CreateEntities makes many entities with their limits: as many as fit in each
// transaction, with their events, so that ten thousand take seconds. They are made in
// their order: a parent comes before its children. An entity is made with all its limits
// or not at all, and one that cannot be made, because it has a record for example, does
// not keep the others of its transaction from being made.
//
// It returns an error for each setup, nil for one that was made, in their order; see
// CreateEntity and SetEntityLimits. If the input is bad it returns a single
// *ValidationError, and nothing was written. Once the table does not serve, or ctx has
// ended, the rest fails with that error; those can be made by another call.
func (r *Repository) CreateEntities(ctx context.Context, setups []EntitySetup) ([]error, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	checked := make([]admin.Setup, len(setups))
	made := make(map[string]bool, len(setups))
	for i, s := range setups {
		setup, err := r.setupOf(s)
		if err == nil && made[s.Entity.ID] {
			err = invalid("entity.ID", "%q stands twice; give each entity once", s.Entity.ID)
		}
		if err != nil {
			return nil, within(fmt.Sprintf("setups[%d].", i), err)
		}
		made[s.Entity.ID], checked[i] = true, setup
	}
	by, err := r.mayChange(ctx)
	if err != nil {
		return nil, err
	}
	var limits []admin.ConfigEdit
	for _, s := range checked {
		limits = append(limits, s.Limits...)
	}
	if err := r.takeOverAllBeforeChange(ctx, limits); err != nil {
		return nil, err
	}
	errs := r.admin.CreateEntities(ctx, by, checked)
	for i, err := range errs {
		made[checked[i].Record.ID] = mayBeWritten(err)
	}
	r.configs.evict(func(k configKey) bool { return made[k.entity] })
	return errs, nil
}

// setupOf is a checked setup.
func (r *Repository) setupOf(s EntitySetup) (admin.Setup, error) {
	setup := admin.Setup{Record: recordOf(s.Entity)}
	if err := checkEntity(s.Entity); err != nil {
		return setup, err
	}
	if len(s.Limits) > admin.MostLimits {
		return setup, invalid("limits", "are for %d resources; give at most %d with the entity, and the others with SetConfigs", len(s.Limits), admin.MostLimits)
	}
	for _, resource := range slices.Sorted(maps.Keys(s.Limits)) {
		field, limits := fmt.Sprintf("limits[%s]", resource), s.Limits[resource]
		at := Scope{Entity: s.Entity.ID, Resource: resource}
		if err := at.check(field + "."); err != nil {
			return setup, err
		}
		if _, both := s.Limits[""]; both && resource == schema.DefaultResource {
			return setup, invalid(field, "is the default, which limits[] is too; leave one of them out")
		}
		stored, err := configLimits(field, limits)
		if err != nil {
			return setup, err
		}
		if err := r.compatible(resource, field, limits); err != nil {
			return setup, err
		}
		setup.Limits = append(setup.Limits, admin.ConfigEdit{Owner: at.owner(), Edit: replacingLimits(stored, nil)})
	}
	return setup, nil
}

// within is an error for input whose field lies in another one.
func within(prefix string, err error) error {
	if v, ok := errors.AsType[*ValidationError](err); ok {
		inner := *v
		inner.Field = prefix + v.Field
		return &inner
	}
	return err
}
