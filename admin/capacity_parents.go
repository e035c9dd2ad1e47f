package admin

import (
	"context"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// chargesParent reports whether calls of an entity charge its parent.
func chargesParent(e Entity) bool { return e.ParentID != "" && !e.Detached }

// chargedParent is a parent that calls charge too: by all of its sources, or by those made
// for it or for its plan.
type chargedParent struct {
	id  string
	all bool
}

// chargedParents returns the parents that a call of an entity charges, the nearest first, at most 7. It follows
// the chain in records, without repetition, and reads nothing.
func chargedParents(entity string, records map[string]Entity) (above []chargedParent) {
	seen := []string{entity}
	for e := records[entity]; chargesParent(e) && !slices.Contains(seen, e.ParentID) && len(seen) < schema.MaxDepth; e = records[e.ParentID] {
		above, seen = append(above, chargedParent{e.ParentID, e.Cascade}), append(seen, e.ParentID)
	}
	return above
}

// chargedLimits returns, for parents in holders that count only by limits made for them, the set of limit names
// that calls of children charge. It reads the sources of these limits; nil without such parents. A parent with
// an unreadable source gets an empty set, because calls below it fail.
func (b Buckets) chargedLimits(ctx context.Context, resource string, holders []EntityCapacity, records map[string]Entity) (map[string]map[string]bool, error) {
	asked := map[string]bool{}
	for _, e := range records {
		asked[e.ParentID] = asked[e.ParentID] || chargesParent(e) && !e.Cascade
	}
	var views []view
	var owners []schema.ConfigOwner
	for _, holder := range holders {
		if asked[holder.EntityID] {
			v := view{at: Scope{Entity: holder.EntityID}, resource: resource}
			views, owners = append(views, v), append(owners, v.sourceOwners(records[v.at.Entity].Plan)...)
		}
	}
	// Without the others' sources a verdict has the parent's own limits alone.
	owners = slices.DeleteFunc(owners, func(o schema.ConfigOwner) bool { return o.Entity+o.Plan == "" })
	if len(views) == 0 {
		return nil, nil
	}
	stored, err := b.d.storedSources(ctx, "read the sources of parents", owners)
	if err != nil {
		return nil, err
	}
	groups := sync.OnceValues(func() (map[string]bool, error) {
		groups, _, err := b.d.readGroups(ctx, nil)
		return groups, err
	})
	charged := map[string]map[string]bool{}
	for _, v := range views {
		plan := records[v.at.Entity].Plan
		names := v.ownLimits(plan, stored, false)
		if asGroup := v.ownLimits(plan, stored, true); !slices.Equal(names, asGroup) { // seldom
			known, err := groups()
			if err != nil {
				return nil, err
			}
			if known[resource] {
				names = asGroup
			}
		}
		charged[v.at.Entity] = map[string]bool{}
		for _, name := range names {
			charged[v.at.Entity][name] = true
		}
	}
	return charged, nil
}

// ownLimits returns the names of the limits in force by the stored sources of the view's entity and plan; nil
// if they cannot be resolved. If group is true, the resource is a group, and sources for all resources do not
// count.
func (v view) ownLimits(plan string, stored map[schema.ConfigOwner]schema.Item, group bool) (names []string) {
	v.group = group
	verdict, _ := config.Resolve(v.sourceItems(plan, func(o schema.ConfigOwner) schema.Item { return stored[o] })) // none if it fails
	for i := range verdict.Limits {
		names = append(names, verdict.Limits[i].Name)
	}
	return names
}
