package config

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Drop removes the configuration of a key without a given plan, and all shared items. It drops their reads in
// flight.
func (c *Cache) Drop(key Key) {
	c.shared.dropAll()
	c.loading.Drop(key)
}

// Invalidate removes the configurations of an entity on a resource and all shared items, drops their reads in
// flight, and wakes the waiters of NextEviction. "" means every entity, or every resource.
func (c *Cache) Invalidate(entity, resource string) {
	c.shared.dropAll()
	c.evict(func(k Key) bool {
		return (entity == "" || k.Entity == entity) && (resource == "" || k.Resource == resource)
	})
}

// InvalidateEntities removes the configurations of the entities in ids on every resource, drops their reads in
// flight, and wakes the waiters of NextEviction. Shared items stay.
func (c *Cache) InvalidateEntities(ids map[string]bool) {
	c.evict(func(k Key) bool { return ids[k.Entity] })
}

// InvalidateOwners removes the configurations that depend on sources of the owners, drops their reads in
// flight, and wakes the waiters of NextEviction. It checks each cached configuration once, for any number of
// owners. Call it before and after the write of a change, because a read that began before the end of the write
// may have the old items.
func (c *Cache) InvalidateOwners(owners ...schema.ConfigOwner) {
	if slices.ContainsFunc(owners, func(o schema.ConfigOwner) bool { return o.Entity == "" }) {
		c.shared.dropAll()
	}
	changed, plans, ofPlans := map[schema.ConfigOwner]bool{}, map[string]bool{}, map[string]bool{}
	for _, o := range owners {
		if o = o.Normal(); o.Plan == "" {
			changed[o] = true
		} else {
			plans[o.Plan], ofPlans[o.Resource] = true, true
		}
	}
	if len(changed) > 0 {
		c.evict(func(k Key) bool {
			return changed[schema.ConfigOwner{}] || changed[schema.ConfigOwner{Resource: k.Resource}] ||
				changed[schema.ConfigOwner{Entity: k.Entity, Resource: k.Resource}] ||
				changed[schema.ConfigOwner{Entity: k.Entity}.Normal()]
		})
	}
	if len(plans) > 0 {
		c.evictPlans(plans, func(k Key) bool { return ofPlans[k.Resource] || ofPlans[schema.DefaultResource] })
	}
}

// evict removes the configurations with matching keys, also those with a given plan, drops their reads in
// flight, and wakes the waiters of NextEviction.
func (c *Cache) evict(match func(Key) bool) {
	c.loading.Evict(match)
	c.given.evict(match)
	c.wakeWaiters()
}

// evictPlans removes the configurations made from plans, and cached items of these plans, on the matching
// resources, and wakes the waiters of NextEviction. It drops all reads in flight of those resources, because
// their plans are not known yet.
func (c *Cache) evictPlans(plans map[string]bool, match func(Key) bool) {
	c.loading.EvictValues(match, func(cfg *Resolved) bool { return plans[cfg.Plan] })
	c.given.evictPlans(plans, match)
	c.wakeWaiters()
}

// NextEviction returns a channel that is closed at the next invalidation, of any configuration. All waiters
// share it. Drop, and removals for lack of room, do not close it.
func (c *Cache) NextEviction() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicted == nil {
		c.evicted = make(chan struct{})
	}
	return c.evicted
}

// wakeWaiters closes the channel of NextEviction, if a caller waits for it.
func (c *Cache) wakeWaiters() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicted != nil {
		close(c.evicted)
		c.evicted = nil
	}
}
