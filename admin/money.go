package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// prepareConfigs refuses configurations that take limits out of force without Only, and then prepares the table
// as prepareList does. Call it before configurations are stored.
func (d *desk) prepareConfigs(ctx context.Context, check lossCheck, configs ...ScopedConfig) error {
	if err := d.refuseLosses(ctx, check, configs...); err != nil {
		return err
	}
	return d.prepareList(ctx, configs...)
}

// prepareList refuses money that each model would have separately, and raises kinds_min for the
// limits. Call it before any limit is stored.
func (d *desk) prepareList(ctx context.Context, configs ...ScopedConfig) error {
	if err := d.checkMoney(ctx, configs); err != nil {
		return err
	}
	return d.raiseKinds(ctx, configs...)
}

// checkMoney returns a *ValidationError for a limit of money without PerModel on a default, or on a resource
// outside of all groups. There each model would have that money by itself. It reads the groups if it needs
// them.
func (d *desk) checkMoney(ctx context.Context, configs []ScopedConfig) error {
	groups := sync.OnceValues(func() (map[string]bool, error) {
		groups, members, err := d.readGroups(ctx, configs)
		maps.Copy(members, groups)
		return members, err
	})
	for _, c := range configs {
		for _, limit := range c.Config.Limits {
			if limit.Unit == "" || limit.PerModel {
				continue
			}
			const advice = "set it on a group of models"
			if c.Scope.normalized().Resource == "" {
				return withFix(invalid("limits["+limit.Name+"].PerModel", "on a default (%s) each model would have the money of %q by itself; %s", c.Scope, limit.Name, advice), fault.GroupModels)
			}
			known, err := groups()
			if err != nil {
				return err
			}
			if !known[c.Scope.Resource] {
				return withFix(invalid("limits["+limit.Name+"].PerModel", "%q is in no group and is none, so that it alone would have the money of %q; %s", c.Scope.Resource, limit.Name, advice), fault.GroupModels)
			}
		}
	}
	return nil
}

// readGroups returns two sets: the groups of resources, and the resources in a group. It reads the sources of
// all resources and adds the groups of changes; groups that changes remove still count.
func (d *desk) readGroups(ctx context.Context, changes []ScopedConfig) (groups, members map[string]bool, err error) {
	groups, members = map[string]bool{}, map[string]bool{}
	note := func(resource string, of []string) {
		for _, group := range of {
			groups[group], members[resource] = true, true
		}
	}
	resources, err := d.readResources(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("look for groups of models: %w", err)
	}
	keys := make([]schema.Key, len(resources))
	for i, resource := range resources {
		keys[i] = d.Keys.ResourceConfig(resource)
	}
	items, err := d.Table.GetMany(ctx, opReadLimits, keys) // the older layout has no groups
	if err != nil {
		return nil, nil, err
	}
	for i, item := range items {
		note(resources[i], schema.ReadableConfig(item).Groups)
	}
	for _, c := range changes {
		note(c.Scope.Resource, c.Config.Groups)
	}
	return groups, members, nil
}

// readResources reads the names of the resources with limits for everyone, sorted, from the list that the
// changes maintain.
func (d *desk) readResources(ctx context.Context) ([]string, error) {
	item, err := d.Table.Get(ctx, "list the resources", d.Keys.Resources())
	return slices.Sorted(slices.Values(schema.ResourceNames(item))), err
}
