package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// mostLossResources bounds the resources on which a change of a default is compared.
const mostLossResources = 1000

const opCompare = "compare the limits in force"

// compareSources validates changes of sources and returns a comparison of the table before and after them. It
// reads nothing yet. The argument keepsGroups means that no change alters the groups of a resource.
func (d *desk) compareSources(changes []ScopedConfig, keepsGroups bool) (*comparison, error) {
	c := &comparison{
		d: d, changes: changes, keepsGroups: keepsGroups, next: map[schema.ConfigOwner]schema.Item{}, records: map[string]recordChange{},
		stored: map[schema.ConfigOwner]schema.Item{}, unreadable: map[schema.ConfigOwner]bool{}, lose: map[planChange]bool{},
	}
	for i, change := range changes {
		next, err := change.newItem(fmt.Sprintf("changes[%d].", i))
		if err != nil {
			return nil, err
		}
		owner := change.Scope.asOwner()
		if c.next[owner] = nil; next != nil {
			c.next[owner] = next.Item(d.Keys, owner, nil)
		}
		c.scopes = append(c.scopes, change.Scope.normalized())
	}
	return c, nil
}

// comparison compares the limits in force before and after changes.
type comparison struct {
	d *desk
	// changes are those of sources, scopes theirs.
	changes     []ScopedConfig
	scopes      []Scope
	keepsGroups bool
	// next are the items after the changes, nil for one that is removed. records are those of
	// entities, by their ids.
	next    map[schema.ConfigOwner]schema.Item
	records map[string]recordChange
	// stored are the items before; unreadable ones are of the older layout.
	stored     map[schema.ConfigOwner]schema.Item
	unreadable map[schema.ConfigOwner]bool
	// resources are those on which defaults are compared, plans the sources of plans, and known the
	// groups of resources, once they are read.
	resources []string
	plans     []Scope
	known     map[string]bool
	// lose are the changes of a plan that lose something for an entity without sources of its own.
	lose map[planChange]bool
}

// planChange is an entity's plan before and after the changes.
type planChange struct{ before, after string }

// recordChange is a record before and after the changes.
type recordChange struct{ was, is schema.EntityRecord }

// view is a scope on one resource, "" for those without lists of their own.
type view struct {
	at       Scope
	resource string
	// plan and planAfter are those of the scope before and after the changes.
	plan, planAfter string
	// group means that the resource is a group: only sources made for it count.
	group bool
	// own means that only sources made for the entity or for its plan count.
	own bool
}

// findLosses returns the limits in force that the given changes of records, and those of sources, would take
// out of force. It stores the changes of records in c, and reads the sources that it needs. A loss on every
// resource stands for the same loss on single ones.
func (c *comparison) findLosses(ctx context.Context, records []recordChange) ([]Loss, error) {
	for _, r := range records {
		c.records[r.is.ID] = r
	}
	if err := c.readRecords(ctx); err != nil {
		return nil, err
	}
	views, err := c.listViews(ctx)
	if err != nil {
		return nil, err
	}
	moved, err := c.movedViews(ctx, records)
	if err != nil {
		return nil, err
	}
	losses, err := c.compareViews(ctx, append(views, moved...))
	if err != nil {
		return nil, err
	}
	left, err := c.findGroupLosses(ctx)
	if err != nil {
		return nil, err
	}
	above, err := c.findParentLosses(ctx, records)
	losses = slices.Concat(losses, left, above)
	return slices.DeleteFunc(slices.Clone(losses), func(l Loss) bool { // reported for every resource
		everywhere := l
		everywhere.Resource = ""
		return l.Resource != "" && slices.Contains(losses, everywhere)
	}), err
}

// readRecords reads into c.records the records of entities with changed sources, and of those in others, unless
// they were read before. Each is stored as the record before and after the changes. An entity without a record
// gets one with its id alone.
func (c *comparison) readRecords(ctx context.Context, others ...string) error {
	for _, at := range c.scopes {
		others = append(others, at.Entity)
	}
	slices.Sort(others)
	others = slices.DeleteFunc(slices.Compact(others), func(id string) bool {
		_, read := c.records[id]
		return read || id == ""
	})
	stored, err := c.d.readEntities(ctx, opCompare, others, c.d.Table.GetMany)
	for _, e := range stored {
		c.records[e.ID] = recordChange{recordOf(e), recordOf(e)}
	}
	return err
}

// compareViews reads the sources of views, each a scope on one resource. It returns the limits that are in
// force in one of them before the changes and not after.
func (c *comparison) compareViews(ctx context.Context, views []view) (losses []Loss, err error) {
	if err := c.readSources(ctx, views); err != nil {
		return nil, err
	}
	for _, v := range views {
		lost, err := c.compareView(v)
		if err != nil {
			return nil, err
		}
		losses = append(losses, lost...)
	}
	return losses, nil
}

// readSources reads into c.stored the sources that apply in views, for their plans before and after the
// changes. It sets group in views of a group, in place; at the first such question it reads all groups into
// c.known.
func (c *comparison) readSources(ctx context.Context, views []view) error {
	var owners []schema.ConfigOwner
	for i, v := range views {
		owners = append(owners, v.sourceOwners(v.plan)...)
		owners = append(owners, v.sourceOwners(v.planAfter)...)
		if v.resource == "" {
			continue
		}
		if c.known == nil { // seldom needed
			known, _, err := c.d.readGroups(ctx, c.changes)
			if err != nil {
				return err
			}
			c.known = known
		}
		views[i].group = c.known[v.resource]
	}
	return c.readOwners(ctx, owners)
}

// readOwners reads into c.stored the sources that were not read yet; it reorders the slice owners. A source of
// the older layout that cannot be read is added to c.unreadable instead, because a change may replace it.
func (c *comparison) readOwners(ctx context.Context, owners []schema.ConfigOwner) error {
	owners = slices.DeleteFunc(owners, func(o schema.ConfigOwner) bool {
		_, read := c.stored[o]
		return read
	})
	stored, err := c.d.storedSources(ctx, opCompare, owners)
	if !isValidation(err) {
		maps.Copy(c.stored, stored)
		return err
	}
	if len(owners) == 1 {
		c.stored[owners[0]], c.unreadable[owners[0]] = nil, true
		return nil
	}
	for _, o := range owners {
		if err := c.readOwners(ctx, []schema.ConfigOwner{o}); err != nil {
			return err
		}
	}
	return nil
}

// storedSources reads sources consistently, each once, and returns their items by owner, with limits of the
// older layout merged in. A missing source has a nil item.
func (d *desk) storedSources(ctx context.Context, op string, owners []schema.ConfigOwner) (map[schema.ConfigOwner]schema.Item, error) {
	owners = slices.Clone(owners)
	slices.SortFunc(owners, func(a, b schema.ConfigOwner) int {
		return compareScopes(Scope{Entity: a.Entity, Plan: a.Plan, Resource: a.Resource}, Scope{Entity: b.Entity, Plan: b.Plan, Resource: b.Resource})
	})
	owners = slices.Compact(owners)
	items, err := d.readConfigsOf(ctx, op, owners)
	if err != nil {
		return nil, err
	}
	stored := make(map[schema.ConfigOwner]schema.Item, len(owners))
	for i, owner := range owners {
		stored[owner] = items[i]
	}
	return stored, nil
}

// listViews returns the entities and plans, each on a resource, for which the changed sources may decide;
// c.records must have the entities. A default is compared on each resource with a list, which listResources
// reads.
func (c *comparison) listViews(ctx context.Context) (views []view, err error) {
	for _, at := range c.scopes {
		v := view{at: at, resource: at.Resource, plan: at.Plan, planAfter: at.Plan}
		if at.Entity != "" {
			v.plan, v.planAfter = c.records[at.Entity].was.Plan, c.records[at.Entity].is.Plan
		}
		if at.Resource != "" || at.Entity+at.Plan == "" { // the system's list hides nothing
			views = append(views, v)
			continue
		}
		if views, err = c.addPerResource(ctx, views, v); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// addPerResource appends copies of the view v, a scope on one resource, to views. There is one for each
// resource with a list, and one with the resource "", for all others.
func (c *comparison) addPerResource(ctx context.Context, views []view, v view) ([]view, error) {
	resources, err := c.listResources(ctx)
	for _, v.resource = range resources {
		views = append(views, v)
	}
	return views, err
}

// movedViews returns the views, scopes on one resource each, of entities that get another plan. It reads
// sources for that, and caches the result for each change of plan in c.lose. It leaves out a change that takes
// no limit from an entity without own sources, because then it takes none from any.
func (c *comparison) movedViews(ctx context.Context, records []recordChange) (views []view, err error) {
	for _, r := range records {
		pair, at := planChange{r.was.Plan, r.is.Plan}, Scope{Entity: r.is.ID}
		if pair.before == pair.after || slices.Contains(c.scopes, at) {
			continue
		}
		if _, known := c.lose[pair]; !known {
			of, err := c.addPerResource(ctx, nil, view{plan: pair.before, planAfter: pair.after})
			if err != nil {
				return nil, err
			}
			losses, err := c.compareViews(ctx, of)
			if err != nil {
				return nil, err
			}
			c.lose[pair] = len(losses) > 0
		}
		if !c.lose[pair] {
			continue
		}
		if views, err = c.addPerResource(ctx, views, view{at: at, plan: pair.before, planAfter: pair.after}); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// listResources returns the resources with a list for everyone or for a plan, before or after the changes, and
// "", sorted. It caches them, and the scopes of plans in c.plans. It refuses more than mostLossResources.
func (c *comparison) listResources(ctx context.Context) ([]string, error) {
	if c.resources != nil {
		return c.resources, nil
	}
	resources, err := c.d.readResources(ctx)
	if err != nil {
		return nil, err
	}
	resources = append(resources, "")
	for at, err := range (sourceIndex{c.d.Table, c.d.Keys}).listPlans(ctx) {
		if err != nil {
			return nil, err
		}
		c.plans, resources = append(c.plans, at), append(resources, at.Resource)
	}
	for owner := range c.next {
		if owner.Entity == "" && owner.Resource != schema.DefaultResource {
			resources = append(resources, owner.Resource)
		}
	}
	slices.Sort(resources)
	if resources = slices.Compact(resources); len(resources) > mostLossResources {
		return nil, invalid("config.only", "is not set for a default, which cannot be compared on the more than %d resources that have limits; set it to let the hidden limits go", mostLossResources)
	}
	c.resources = resources
	return resources, nil
}

// sourceOwners returns the owners of the sources that apply to the view's entity and resource, the most
// specific first. The argument plan is the entity's, or empty.
func (v view) sourceOwners(plan string) (owners []schema.ConfigOwner) {
	add := func(o schema.ConfigOwner) { owners = append(owners, o.Normal()) }
	if v.at.Entity != "" {
		add(schema.ConfigOwner{Entity: v.at.Entity, Resource: v.resource})
		add(schema.ConfigOwner{Entity: v.at.Entity})
	}
	if plan != "" {
		add(schema.ConfigOwner{Plan: plan, Resource: v.resource})
		add(schema.ConfigOwner{Plan: plan})
	}
	if v.resource != "" {
		add(schema.ConfigOwner{Resource: v.resource})
	}
	add(schema.ConfigOwner{})
	return owners
}

// sourceItems returns the items of the view's sources, by kind of source; of returns the item of an owner. It
// leaves out defaults for a group, and sources for everyone if v.own is set.
func (v view) sourceItems(plan string, of func(schema.ConfigOwner) schema.Item) (items config.Items) {
	for _, o := range v.sourceOwners(plan) {
		item, all := of(o), o.Resource == schema.DefaultResource || o.Resource == ""
		switch {
		case v.group && all:
		case o.Entity != "" && all:
			items.EntityDefault = item
		case o.Entity != "":
			items.Entity = item
		case o.Plan != "" && all:
			items.PlanDefault = item
		case o.Plan != "":
			items.Plan = item
		case v.own:
		case o.Resource != "":
			items.Resource = item
		default:
			items.System = item
		}
	}
	return items
}

// itemBefore returns the item of a source before the changes.
func (c *comparison) itemBefore(o schema.ConfigOwner) schema.Item { return c.stored[o] }

// itemAfter returns the stored item of a source as the changes would leave it, nil if missing
// then.
func (c *comparison) itemAfter(o schema.ConfigOwner) schema.Item {
	if next, changes := c.next[o]; changes {
		return next
	}
	return c.stored[o]
}

// compareView returns the limits that the changes take out of force for a scope on one resource. It reports
// only money and limits that a more specific list hides, and none in shadow. It returns nil for a view with an
// unreadable source, because calls refuse it, and an error if a bucket would have too many limits.
func (c *comparison) compareView(v view) (losses []Loss, err error) {
	if slices.ContainsFunc(v.sourceOwners(v.plan), func(o schema.ConfigOwner) bool { return c.unreadable[o] }) {
		return nil, nil
	}
	before, errBefore := config.Resolve(v.sourceItems(v.plan, c.itemBefore))
	after, errAfter := config.Resolve(v.sourceItems(v.planAfter, c.itemAfter))
	if errBefore != nil || errAfter != nil {
		return nil, nil //nolint:nilerr // calls that meet it are refused
	}
	if n := len(after.Limits); n > schema.MaxLimits && len(before.Limits) <= schema.MaxLimits {
		return nil, invalid("limits", "make %d with those of less specific sources for %s; a bucket holds at most %d", n, Loss{Scope: v.at, Resource: v.resource}.scopeOnResource(), schema.MaxLimits)
	}
	for _, was := range before.Limits {
		if was.Shadow || isReplaced(after, was) || !c.isOwnLoss(v, was) {
			continue
		}
		loss := Loss{Scope: v.at, Name: was.Name, Money: was.Unit != ""}
		if v.at.Resource == "" {
			loss.Resource = v.resource
		}
		if i := slices.IndexFunc(after.Hidden, func(h config.Hidden) bool { return h.Name == was.Name }); i >= 0 {
			loss.Source = after.Hidden[i].Source
		}
		if loss.Money || loss.Source != "" {
			losses = append(losses, loss)
		}
	}
	return losses, nil
}

// isOwnLoss reports whether the change of the view's own scope, or of a more specific source, takes the limit
// out of force. It returns false if changes of less specific sources do, because these report it.
func (c *comparison) isOwnLoss(v view, limit config.Limit) bool {
	owners := v.sourceOwners(v.plan)
	own := slices.Index(owners, v.at.asOwner().Normal())
	without, err := config.Resolve(v.sourceItems(v.plan, func(o schema.ConfigOwner) schema.Item {
		if slices.Index(owners, o) <= own {
			return c.itemBefore(o)
		}
		return c.itemAfter(o)
	}))
	return err != nil || isReplaced(without, limit)
}

// isReplaced reports whether the limits in force after a change have one that takes the place of the given
// limit, so that it is not lost.
func isReplaced(v config.Verdict, limit config.Limit) bool {
	return slices.ContainsFunc(v.Limits, func(is config.Limit) bool { return takesPlaceOf(is.ConfigLimit, limit.ConfigLimit) })
}

// takesPlaceOf reports whether the limit is replaces was: by the same name, and money only by
// money that is not in shadow.
func takesPlaceOf(is, was schema.ConfigLimit) bool {
	return is.Name == was.Name && (was.Unit == "" || is.Unit == was.Unit && !is.Shadow)
}
