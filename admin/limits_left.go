package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// mostGroupEntities bounds the entities with limits at a group that are compared when a resource
// leaves it.
const mostGroupEntities = 1000

// findGroupLosses returns the limits of money that resources lose because they leave a group; nil with
// keepsGroups. A limit that another group of the resource has for the same owner is not lost.
func (c *comparison) findGroupLosses(ctx context.Context) (losses []Loss, err error) {
	for _, at := range c.scopes {
		owner := at.asOwner()
		if !isResourceSource(owner) || c.keepsGroups {
			continue
		}
		after := schema.ReadableConfig(c.next[owner]).Groups
		for _, group := range schema.ReadableConfig(c.stored[owner]).Groups {
			if slices.Contains(after, group) {
				continue
			}
			left, err := c.findGroupLoss(ctx, at, group, after)
			if err != nil {
				return nil, err
			}
			losses = append(losses, left...)
		}
	}
	return losses, nil
}

// findGroupLoss returns the limits of money that a resource loses because it leaves one group. after are the
// groups that the resource has then. It leaves out limits in shadow, and those that the group does not have
// after the changes.
func (c *comparison) findGroupLoss(ctx context.Context, resource Scope, group string, after []string) (losses []Loss, err error) {
	subjects, err := c.groupOwners(ctx, resource, group)
	if err != nil {
		return nil, err
	}
	var owners []schema.ConfigOwner
	for _, of := range subjects {
		for _, of.Resource = range append([]string{group}, after...) {
			owners = append(owners, of)
		}
	}
	if err := c.readOwners(ctx, slices.Clone(owners)); err != nil {
		return nil, err
	}
	for each := range slices.Chunk(owners, 1+len(after)) {
		for _, limit := range schema.ReadableConfig(c.itemBefore(each[0])).Limits {
			has := func(o schema.ConfigOwner) bool {
				return slices.ContainsFunc(schema.ReadableConfig(c.itemAfter(o)).Limits, func(is schema.ConfigLimit) bool { return takesPlaceOf(is, limit) })
			}
			if limit.Unit != "" && !limit.Shadow && has(each[0]) && !slices.ContainsFunc(each[1:], has) {
				losses = append(losses, Loss{Scope: resource, Name: limit.Name, Money: true, Group: group})
			}
		}
	}
	return losses, nil
}

// groupOwners returns the owners that may have limits on a group: everyone, plans and entities. It refuses a
// group with more than mostGroupEntities entities.
func (c *comparison) groupOwners(ctx context.Context, resource Scope, group string) ([]schema.ConfigOwner, error) {
	if _, err := c.listResources(ctx); err != nil {
		return nil, err
	}
	subjects := []schema.ConfigOwner{{}}
	for _, plan := range c.plans {
		if plan.Resource == group {
			subjects = append(subjects, schema.ConfigOwner{Plan: plan.Plan})
		}
	}
	entities := 0
	for at, err := range (sourceIndex{c.d.Table, c.d.Keys}).listEntities(ctx, group) {
		if err != nil {
			return nil, err
		}
		if entities++; entities > mostGroupEntities {
			return nil, invalid("config.only", "is not set, and the group %s, which %s leaves, has limits for more than %d entities, too many to compare; set it if money of theirs may go, or keep the group", group, resource, mostGroupEntities)
		}
		subjects = append(subjects, schema.ConfigOwner{Entity: at.Entity})
	}
	return subjects, nil
}

// findParentLosses returns the limits of money of parents that calls of the changed entities charge before the
// changes and not after. An equal limit of a new parent replaces a lost one.
func (c *comparison) findParentLosses(ctx context.Context, records []recordChange) (losses []Loss, err error) {
	for _, r := range records {
		was, is := r.was, r.is
		if !was.Counts() || was.ParentID == is.ParentID && is.Counts() && (is.Cascade || was.CountsByOwn()) {
			continue
		}
		before, err := c.moneyAbove(ctx, is.ID, func(r recordChange) schema.EntityRecord { return r.was }, c.itemBefore)
		if err != nil {
			return nil, err
		}
		after, err := c.moneyAbove(ctx, is.ID, func(r recordChange) schema.EntityRecord { return r.is }, c.itemAfter)
		if err != nil {
			return nil, err
		}
		for _, was := range before {
			if !slices.ContainsFunc(after, func(is moneyLimit) bool { return is.resource == was.resource && takesPlaceOf(is.limit, was.limit) }) {
				losses = append(losses, Loss{Scope: Scope{Entity: is.ID}, Resource: was.resource, Name: was.limit.Name, Money: true, Parent: was.parent})
			}
		}
	}
	return losses, nil
}

// moneyLimit is a limit of money that calls charge at a parent on a resource.
type moneyLimit struct {
	parent, resource string
	limit            schema.ConfigLimit
}

// moneyAbove returns the limits of money, except those in shadow, that calls of an entity charge at its
// parents, the nearest first. The functions record and item choose records and sources before or after the
// changes. It reads missing records and sources into c, and leaves out parents with an unreadable source.
func (c *comparison) moneyAbove(ctx context.Context, id string, record func(recordChange) schema.EntityRecord, item func(schema.ConfigOwner) schema.Item) (money []moneyLimit, err error) {
	at := record(c.records[id])
	for depth := 1; depth < schema.MaxDepth && at.Counts(); depth++ {
		parent, own := at.ParentID, at.CountsByOwn()
		if err := c.readRecords(ctx, parent); err != nil {
			return nil, err
		}
		at = record(c.records[parent])
		views, err := c.parentViews(ctx, view{at: Scope{Entity: parent}, plan: at.Plan, planAfter: at.Plan, own: own})
		if err != nil {
			return nil, err
		}
		for _, v := range views {
			verdict, err := config.Resolve(v.sourceItems(at.Plan, item))
			if err != nil {
				continue // calls that meet it are refused
			}
			for _, limit := range verdict.Limits {
				if limit.Unit != "" && !limit.Shadow {
					money = append(money, moneyLimit{parent, v.resource, limit.ConfigLimit})
				}
			}
		}
	}
	return money, nil
}

// parentViews returns a copy of v, the view of a parent, for every resource with a list, also a list of the
// parent. It reads their sources.
func (c *comparison) parentViews(ctx context.Context, v view) ([]view, error) {
	views, err := c.addPerResource(ctx, nil, v)
	if err != nil {
		return nil, err
	}
	keys, err := c.d.Table.Keys(ctx, table.Query{Op: opCompare, Hash: schema.PK, Value: c.d.Keys.Entity(v.at.Entity), Prefix: schema.ConfigsOf})
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		v.resource = strings.TrimPrefix(key.SK, schema.ConfigsOf)
		if v.resource != schema.DefaultResource && !slices.ContainsFunc(views, func(is view) bool { return is.resource == v.resource }) {
			views = append(views, v)
		}
	}
	return views, c.readSources(ctx, views)
}
