package admin

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Entities lists the entities that have a configuration for a resource ("": a
// default), in the order of their ids.
func (a Configs) Entities(ctx context.Context, resource string) iter.Seq2[string, error] {
	return a.sortKeys(ctx, table.Query{
		Op: "list entities with limits", Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: a.Keys.EntityConfigs(resource),
	})
}

// sortKeys are the sort keys that a partition of the index GSI3 lists.
func (a Configs) sortKeys(ctx context.Context, q table.Query) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for item, err := range a.Table.Items(ctx, q) {
			if !yield(schema.Text(item, schema.GSI3SK), err) || err != nil {
				return
			}
		}
	}
}

// Resources lists the resources that have a configuration for every entity, by name.
func (a Configs) Resources(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		item, err := a.Table.Get(ctx, "list the resources", a.Keys.Resources())
		if err != nil {
			yield("", err)
			return
		}
		names := slices.Clone(schema.ResourceNames(item))
		slices.Sort(names)
		table.YieldAll(names, yield)
	}
}

// PlanOwners lists the configurations of plans, by plan and resource.
func (a Configs) PlanOwners(ctx context.Context) iter.Seq2[schema.ConfigOwner, error] {
	keys := a.sortKeys(ctx, table.Query{Op: "list the plans", Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: a.Keys.Plans()})
	return func(yield func(schema.ConfigOwner, error) bool) {
		for key, err := range keys {
			plan, resource, _ := strings.Cut(key, "#")
			if !yield(schema.ConfigOwner{Plan: plan, Resource: resource}, err) || err != nil {
				return
			}
		}
	}
}

// Owners lists every configuration: the system's, resources', plans', entities'.
func (a Configs) Owners(ctx context.Context) iter.Seq2[schema.ConfigOwner, error] {
	return func(yield func(schema.ConfigOwner, error) bool) {
		for _, list := range []iter.Seq2[schema.ConfigOwner, error]{a.systemOwner(ctx), a.resourceOwners(ctx), a.PlanOwners(ctx), a.entityOwners(ctx)} {
			for owner, err := range list {
				if !yield(owner, err) || err != nil {
					return
				}
			}
		}
	}
}

func (a Configs) systemOwner(ctx context.Context) iter.Seq2[schema.ConfigOwner, error] {
	return func(yield func(schema.ConfigOwner, error) bool) {
		item, err := a.Table.Get(ctx, "read limits", a.Keys.SystemConfig())
		if err != nil || item != nil {
			yield(schema.ConfigOwner{}, err)
		}
	}
}

func (a Configs) resourceOwners(ctx context.Context) iter.Seq2[schema.ConfigOwner, error] {
	return func(yield func(schema.ConfigOwner, error) bool) {
		for resource, err := range a.Resources(ctx) {
			if !yield(schema.ConfigOwner{Resource: resource}, err) || err != nil {
				return
			}
		}
	}
}

func (a Configs) entityOwners(ctx context.Context) iter.Seq2[schema.ConfigOwner, error] {
	return func(yield func(schema.ConfigOwner, error) bool) {
		item, err := a.Table.Get(ctx, "list entities with limits", a.Keys.EntityResources())
		if err != nil {
			yield(schema.ConfigOwner{}, err)
			return
		}
		for _, resource := range append(schema.CountedResources(item), schema.Uncounted()...) {
			for entity, err := range a.Entities(ctx, resource) {
				if !yield(schema.ConfigOwner{Entity: entity, Resource: resource}, err) || err != nil {
					return
				}
			}
		}
	}
}
