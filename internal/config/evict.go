package config

import "github.com/dynalimit/dynalimit/internal/schema"

// Drop forgets one configuration, and ignores the reads of it that are under way.
func (c *Cache) Drop(key Key) { c.loading.Drop(key) }

// Invalidate forgets the configurations of an entity on a resource, and ignores the reads of them
// that are under way. "" is every entity, or every resource.
func (c *Cache) Invalidate(entity, resource string) {
	c.evict(func(k Key) bool {
		return (entity == "" || k.Entity == entity) && (resource == "" || k.Resource == resource)
	})
}

// InvalidateEntities is Invalidate for entities on every resource.
func (c *Cache) InvalidateEntities(ids map[string]bool) {
	c.evict(func(k Key) bool { return ids[k.Entity] })
}

// InvalidateLevels forgets the configurations that levels of the owners are part of. It looks at each
// once, however many the owners. It is called before a change is written, and after, because a read
// that began before the write ended may have seen the old items.
func (c *Cache) InvalidateLevels(owners ...schema.ConfigOwner) {
	levels, plans, ofPlans := map[schema.ConfigOwner]bool{}, map[string]bool{}, map[string]bool{}
	for _, o := range owners {
		if o = o.Normal(); o.Plan == "" {
			levels[o] = true
		} else {
			plans[o.Plan], ofPlans[o.Resource] = true, true
		}
	}
	if len(levels) > 0 {
		c.evict(func(k Key) bool {
			return levels[schema.ConfigOwner{}] || levels[schema.ConfigOwner{Resource: k.Resource}] ||
				levels[schema.ConfigOwner{Entity: k.Entity, Resource: k.Resource}] ||
				levels[schema.ConfigOwner{Entity: k.Entity}.Normal()]
		})
	}
	if len(plans) > 0 {
		c.evictPlans(plans, func(k Key) bool { return ofPlans[k.Resource] || ofPlans[schema.DefaultResource] })
	}
}

// evict forgets the configurations whose key matches, and ignores the reads of them that are under
// way.
func (c *Cache) evict(match func(Key) bool) {
	c.loading.Evict(match)
	c.given.evict(match)
	c.wake()
}

// evictPlans forgets configurations made of plans on the resources that match, and ignores the reads
// under way of those resources, for it is not known which plan they will meet.
func (c *Cache) evictPlans(plans map[string]bool, match func(Key) bool) {
	c.loading.EvictValues(match, func(cfg *Resolved) bool { return plans[cfg.Plan] })
	c.given.evictPlans(plans, match)
	c.wake()
}

// NextEviction is closed when configurations are next invalidated.
func (c *Cache) NextEviction() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicted == nil {
		c.evicted = make(chan struct{})
	}
	return c.evicted
}

// wake closes NextEviction.
func (c *Cache) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicted != nil {
		close(c.evicted)
		c.evicted = nil
	}
}
