package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/levels"
)

// Loss is a limit that is in force and would not be after changes of configuration. As JSON it has
// the names of its fields in lower case.
type Loss struct {
	// Scope is the level that changes or, if an entity comes to another plan, the entity's default.
	Scope Scope `json:"scope"`
	// Resource is the resource on which the limit is in force; empty for every resource that has no
	// limits of its own.
	Resource string `json:"resource,omitempty"`
	// Name is the limit's.
	Name string `json:"name"`
	// Level is the most specific level that would have the limit and not be in force; empty if no
	// level would have it.
	Level levels.Level `json:"level,omitempty"`
	// Money means that the limit is one of money (dynalimit.Limit.Unit).
	Money bool `json:"money,omitempty"`
}

// String returns the limit with its level and scope: "usd of level plan_default for entity acme on gpt-4".
func (l Loss) String() string {
	text := l.Name
	if l.Level != "" {
		text += " of level " + string(l.Level)
	}
	return text + " for " + l.scopeOnResource().String()
}

// scopeOnResource returns the scope on the resource where the limit is in force.
func (l Loss) scopeOnResource() Scope {
	at := l.Scope
	at.Resource = cmp.Or(at.Resource, l.Resource)
	return at
}

// mostLossResources bounds the resources on which a change of a default is compared.
const mostLossResources = 1000

const opCompare = "compare the limits in force"

// Losses are the limits in force that changes would take out of force: those of less specific
// levels that a list hides, and those that nobody has any more. plans are the plans that entities
// are to come to, by the entity's id; nil for none. It compares the table with the table after all
// changes, and changes nothing. It leaves out limits in shadow, and limits without money that the
// level itself drops by a new list. A default is compared on each resource that has a list for
// everyone or for a plan, as the index shows them; more than 1,000 are refused.
func (l Limits) Losses(ctx context.Context, changes []ScopedConfig, plans map[string]string) ([]Loss, error) {
	if err := l.d.Usable(ctx); err != nil {
		return nil, err
	}
	return l.d.compareLimits(ctx, changes, plans)
}

// compareLimits returns the limits in force that changes would take out of force.
func (d *desk) compareLimits(ctx context.Context, changes []ScopedConfig, plans map[string]string) ([]Loss, error) {
	c := comparison{d: d, changes: changes, next: map[schema.ConfigOwner]schema.Item{}, plans: plans}
	for i, change := range changes {
		next, err := change.item(fmt.Sprintf("changes[%d].", i))
		if err != nil {
			return nil, err
		}
		owner := change.Scope.owner()
		if c.next[owner] = nil; next != nil {
			c.next[owner] = next.Item(d.Keys, owner, nil)
		}
		c.scopes = append(c.scopes, change.Scope.normal())
	}
	for id := range plans {
		c.scopes = append(c.scopes, Scope{Entity: id})
	}
	return c.findLosses(ctx)
}

// comparison compares the limits in force before and after changes.
type comparison struct {
	d *desk
	// changes are those of levels; scopes has theirs, and the entities that come to another plan.
	changes []ScopedConfig
	scopes  []Scope
	// next are the items after the changes, nil for one that is removed. plans are those to come.
	next  map[schema.ConfigOwner]schema.Item
	plans map[string]string
	// stored are the items before, and of the plans of entities before.
	stored map[schema.ConfigOwner]schema.Item
	of     map[string]string
}

// view is a scope on one resource, "" for those without lists of their own.
type view struct {
	at       Scope
	resource string
	// group means that the resource is a group: only levels made for it count.
	group bool
}

// findLosses reads the levels and compares each view.
func (c *comparison) findLosses(ctx context.Context) ([]Loss, error) {
	if err := c.readPlans(ctx); err != nil {
		return nil, err
	}
	views, err := c.listViews(ctx)
	if err != nil {
		return nil, err
	}
	var owners []schema.ConfigOwner
	for _, v := range views {
		for _, plan := range []string{c.of[v.at.Entity], c.planAfter(v.at.Entity)} {
			owners = append(owners, v.levelOwners(plan)...)
		}
	}
	c.stored, err = c.d.storedLevels(ctx, opCompare, owners)
	if isValidation(err) {
		return nil, nil // limits of the older layout that cannot be read can be replaced
	}
	if err != nil {
		return nil, err
	}
	groups := sync.OnceValues(func() (map[string]bool, error) { // seldom needed
		groups, _, err := c.d.grouped(ctx, c.changes)
		return groups, err
	})
	var losses []Loss
	for _, v := range views {
		if v.resource != "" {
			known, err := groups()
			if err != nil {
				return nil, err
			}
			v.group = known[v.resource]
		}
		lost, err := c.compare(v)
		if err != nil {
			return nil, err
		}
		losses = append(losses, lost...)
	}
	return losses, nil
}

// storedLevels reads levels, each once.
func (d *desk) storedLevels(ctx context.Context, op string, owners []schema.ConfigOwner) (map[schema.ConfigOwner]schema.Item, error) {
	owners = slices.Clone(owners)
	slices.SortFunc(owners, func(a, b schema.ConfigOwner) int {
		return compareScopes(Scope{Entity: a.Entity, Plan: a.Plan, Resource: a.Resource}, Scope{Entity: b.Entity, Plan: b.Plan, Resource: b.Resource})
	})
	owners = slices.Compact(owners)
	items, err := d.configs(ctx, op, owners)
	if err != nil {
		return nil, err
	}
	stored := make(map[schema.ConfigOwner]schema.Item, len(owners))
	for i, owner := range owners {
		stored[owner] = items[i]
	}
	return stored, nil
}

// readPlans reads the plans of the entities.
func (c *comparison) readPlans(ctx context.Context) error {
	var ids []string
	for _, at := range c.scopes {
		if at.Entity != "" {
			ids = append(ids, at.Entity)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	keys := make([]schema.Key, len(ids))
	for i, id := range ids {
		keys[i] = c.d.Keys.Meta(id)
	}
	items, err := c.d.Table.GetMany(ctx, opCompare, keys)
	if err != nil {
		return err
	}
	c.of = make(map[string]string, len(ids))
	for i, id := range ids {
		c.of[id] = schema.DecodeLink(items[i]).Plan
	}
	return nil
}

// planAfter is the plan of an entity after the changes.
func (c *comparison) planAfter(id string) string {
	if plan, comes := c.plans[id]; comes {
		return plan
	}
	return c.of[id]
}

// listViews returns the scopes with the resources on which they are compared.
func (c *comparison) listViews(ctx context.Context) (views []view, err error) {
	var resources []string
	for _, at := range c.scopes {
		switch {
		case at.Resource != "":
			views = append(views, view{at: at, resource: at.Resource})
			continue
		case at.Entity+at.Plan == "": // the system's list hides nothing
			views = append(views, view{at: at})
			continue
		case resources == nil:
			if resources, err = c.listResources(ctx); err != nil {
				return nil, err
			}
		}
		for _, resource := range resources {
			views = append(views, view{at: at, resource: resource})
		}
	}
	return views, nil
}

// listResources returns "" and the resources that have a list for everyone or for a plan, before or
// after the changes.
func (c *comparison) listResources(ctx context.Context) ([]string, error) {
	resources, err := c.d.resources(ctx)
	if err != nil {
		return nil, err
	}
	resources = append(resources, "")
	for item, err := range c.d.Table.Items(ctx, queryPlans(c.d.Keys)) {
		if err != nil {
			return nil, err
		}
		if _, resource, _ := strings.Cut(schema.Text(item, schema.GSI3SK), "#"); resource != schema.DefaultResource {
			resources = append(resources, resource)
		}
	}
	for owner := range c.next {
		if owner.Entity == "" && owner.Resource != schema.DefaultResource {
			resources = append(resources, owner.Resource)
		}
	}
	slices.Sort(resources)
	if resources = slices.Compact(resources); len(resources) > mostLossResources {
		return nil, invalid("config.only", "is not set for a default, which cannot be compared on the more than %d resources that have limits; set it if what the list hides is meant to go", mostLossResources)
	}
	return resources, nil
}

// levelOwners returns the owners of the levels that decide a view, if the entity has a plan.
func (v view) levelOwners(plan string) (owners []schema.ConfigOwner) {
	if v.at.Plan != "" {
		plan = v.at.Plan
	}
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

// items are those of a view, for a plan of the entity.
func (v view) items(plan string, of func(schema.ConfigOwner) schema.Item) (items config.Items) {
	for _, o := range v.levelOwners(plan) {
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
		case o.Resource != "":
			items.Resource = item
		default:
			items.System = item
		}
	}
	return items
}

// compare returns the losses of a view. It skips levels that cannot be read: calls that meet one are
// refused.
func (c *comparison) compare(v view) (losses []Loss, err error) {
	before, errBefore := config.Resolve(v.items(c.of[v.at.Entity], func(o schema.ConfigOwner) schema.Item { return c.stored[o] }))
	after, errAfter := config.Resolve(v.items(c.planAfter(v.at.Entity), func(o schema.ConfigOwner) schema.Item {
		if next, changes := c.next[o]; changes {
			return next
		}
		return c.stored[o]
	}))
	if errBefore != nil || errAfter != nil {
		return nil, nil //nolint:nilerr // calls that meet it are refused
	}
	if n := len(after.Limits); n > schema.MaxLimits && len(before.Limits) <= schema.MaxLimits {
		return nil, invalid("limits", "make %d with those of less specific levels for %s; a bucket holds at most %d", n, Loss{Scope: v.at, Resource: v.resource}.scopeOnResource(), schema.MaxLimits)
	}
	for _, was := range before.Limits {
		if was.Shadow || slices.ContainsFunc(after.Limits, func(is config.Limit) bool { return holds(is.ConfigLimit, was.ConfigLimit) }) {
			continue
		}
		loss := Loss{Scope: v.at, Name: was.Name, Money: was.Unit != ""}
		if v.at.Resource == "" {
			loss.Resource = v.resource
		}
		if i := slices.IndexFunc(after.Hidden, func(h config.Hidden) bool { return h.Name == was.Name }); i >= 0 {
			loss.Level = after.Hidden[i].Level
		}
		if loss.Money || loss.Level != "" {
			losses = append(losses, loss)
		}
	}
	return losses, nil
}

// holds reports whether a limit takes the place of one that was in force: of money only money that
// is not in shadow does.
func holds(is, was schema.ConfigLimit) bool {
	return is.Name == was.Name && (was.Unit == "" || is.Unit == was.Unit && !is.Shadow)
}

// refuseLosses refuses changes that take limits out of force and do not say so by Only: those of
// money, and of a list that replaces also those of less specific levels that it hides.
func (d *desk) refuseLosses(ctx context.Context, changes ...ScopedConfig) error {
	unsaid := slices.DeleteFunc(slices.Clone(changes), func(c ScopedConfig) bool { return c.Config.Only })
	if len(unsaid) == 0 {
		return nil
	}
	for _, c := range unsaid {
		if err := c.Scope.check("scope."); err != nil {
			return err
		}
	}
	if err := d.mayChange(ctx); err != nil {
		return err
	}
	losses, err := d.compareLimits(ctx, unsaid, nil)
	if err != nil {
		return err
	}
	replaces := map[Scope]bool{}
	for _, c := range unsaid {
		replaces[c.Scope.normal()] = len(c.Config.Limits) > 0 && !c.Config.Extends
	}
	var names []string
	for _, loss := range losses {
		if text := loss.String(); (loss.Money || replaces[loss.Scope]) && !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	const most = 5
	switch n := len(names); {
	case n == 0:
		return nil
	case n > most:
		names = append(names[:most], fmt.Sprintf("%d more", n-most))
	}
	return fixable(invalid("config.only", "is not set, and these limits would no longer apply: %s; set it if they are to go, or keep them", strings.Join(names, ", ")), fault.AddLimits)
}

// queryPlans lists the levels of plans, by plan and resource.
func queryPlans(keys schema.Keys) table.Query {
	return table.Query{Op: "list the plans", Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: keys.Plans()}
}
