package config

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Found is a configuration. Read means that it was read for this caller. Bucket is then the item of the
// bucket, from the same read; nil if it does not exist.
type Found struct {
	*Resolved
	Bucket schema.Item
	Read   bool
}

// Ask is a request for a configuration.
type Ask struct {
	GivenKey
	// Last is the configuration past its TTL, by RecentlyExpired; nil without one.
	Last *Resolved
	// Beside means that the bucket is written meanwhile, so it is not read.
	Beside bool
}

// Load returns the configuration of an entity on a resource, from the cache if it is fresh. Else it reads it,
// with the bucket, and fails with the reason that the limits are unknown, or with an error of the store. At the
// time until, unless that is zero, it fails with ErrOutOfTime, and the read continues for other callers.
func (c *Cache) Load(ctx context.Context, ask Ask, until time.Time) (found Found, err error) {
	caller := ctx
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(caller, until)
		defer cancel()
	}
	read := &configRead{of: c, key: ask.GivenKey, last: ask.Last, beside: ask.Beside} // the caller may leave it
	if ask.Plan != "" {
		found.Resolved, err = c.given.get(ctx, read)
	} else {
		found.Resolved, err = c.loading.Get(ctx, ask.Key, read.load)
	}
	switch own := read.done.Load(); {
	case err != nil && ctx.Err() != nil && caller.Err() == nil:
		return Found{}, ErrOutOfTime
	case err != nil:
		return Found{}, err
	case own != nil && own.Resolved == found.Resolved:
		found.Bucket, found.Read = own.Bucket, !ask.Beside
	}
	if found.seldom != nil {
		found.Resolved = c.inForce(found.Resolved)
	}
	return found, nil
}

// Reread reads the configuration by a read that begins after the call, and stores it in the cache. It fails
// with the reason that the limits are unknown, or with an error of the store.
func (c *Cache) Reread(ctx context.Context, key GivenKey) (cfg *Resolved, err error) {
	read := &configRead{of: c, key: key, forced: true}
	if key.Plan != "" {
		cfg, err = c.given.resolved.Reload(ctx, key, read.load)
	} else {
		cfg, err = c.loading.Reload(ctx, key.Key, read.load)
	}
	if err != nil {
		return nil, err
	}
	return c.inForce(cfg), nil
}

// Said is the verdict of the sources about an entity on a resource, with the entity's record.
type Said struct {
	Verdict
	Record schema.EntityRecord
}

// Read reads the sources of an entity on a resource, and returns the limits in force by them, without their
// raises, and the entity's record. It neither uses nor changes the cache. It fails with the reason that the
// limits are unknown, or with an error of the store.
func (c *Cache) Read(ctx context.Context, key Key) (Said, error) {
	read := &configRead{of: c, key: GivenKey{Key: key}, forced: true}
	items, _, err := read.readItems(ctx)
	if err != nil {
		return Said{}, err
	}
	v, err := items.resolveSources()
	return Said{v, items.record}, err
}

// sourceRead is one read of a configuration, and of the bucket that it configures.
type configRead struct {
	of  *Cache
	key GivenKey
	// forced means that it is read regardless of the cache: without the bucket, and a failure goes to its
	// caller alone.
	forced bool
	// last is the expired configuration; nil without one. beside means that the bucket is not read.
	last   *Resolved
	beside bool
	// fromMemory are the keys of the items that were not read.
	fromMemory []schema.Key
	// done is the result, once the read has ended.
	done atomic.Pointer[Found]
}

// load reads and resolves a configuration for the cache, stores it in r.done, and calls Options.Loaded with the
// time and the error. If items from memory show a changed configuration, it reads all items again. It logs a
// failure that leaves an older configuration in use.
func (r *configRead) load(ctx context.Context) (*Resolved, error) {
	c := r.of
	began := c.now()
	items, bucket, err := r.readItems(ctx)
	var cfg *Resolved
	if err == nil {
		cfg, err = c.kinds.resolve(items)
	}
	if err == nil && items.mixed && !cfg.HasSameContent(r.last) { // old and new items: it may never have been in force
		r.last, r.fromMemory = nil, nil
		return r.load(ctx)
	}
	c.loaded(r.key.Key, c.now().Sub(began), err)
	if err == nil {
		r.done.Store(&Found{cfg, bucket, true})
		return cfg, nil
	}
	if !r.forced && c.Last(r.key) != nil {
		c.log.WarnContext(ctx, "configuration not refreshed; the cached one is used while it may be",
			slog.String("entity", r.key.Entity), slog.String("resource", r.key.Resource), slog.Any("error", err))
	}
	return nil, err
}

// readItems reads the items of a configuration and, unless the read is forced or beside a write, the bucket's
// item, which it returns second. The items of the plan follow the entity's record, which names it; a plan that
// the call gives is noted for noteDispute. A read of an expired configuration takes recent items of sources
// that other entities share from memory.
func (r *configRead) readItems(ctx context.Context) (*storedItems, schema.Item, error) {
	c, key := r.of, r.key
	items := &storedItems{readAt: c.clock.NowMS(), tick: c.clock.Tick(), group: key.Group}
	var (
		meta          = c.keys.Meta(key.Entity)
		entity        = c.keys.EntityConfig(key.Entity, key.Resource)
		entityDefault = c.keys.EntityConfig(key.Entity, "")
		resource      = c.keys.ResourceConfig(key.Resource)
		system        = c.keys.SystemConfig()
		bucket        = c.keys.Bucket(key.Entity, key.Resource)
	)
	keys := []schema.Key{meta, entity, entityDefault, resource, system}
	switch {
	case c.own: // no source applies to this project's own counters
		keys = nil
	case key.Group:
		keys = []schema.Key{meta, entity, resource}
	}
	if !r.forced && !r.beside {
		keys = append(keys, bucket)
	}
	var found map[schema.Key]schema.Item
	var err error
	if r.last == nil {
		found, err = c.store.ReadSources(ctx, keys, r.ownersToConvert)
	} else {
		found, err = r.readShared(items, keys, []schema.Key{resource, system}, func(keys []schema.Key) (map[schema.Key]schema.Item, error) {
			return c.store.ReadSources(ctx, keys, r.ownersToConvert)
		})
	}
	if err != nil {
		return nil, nil, err
	}
	items.Resource, items.System = found[resource], found[system]
	items.Entity, items.EntityDefault = pickItems(found, entity, entityDefault)
	if item := found[meta]; item != nil {
		items.record, items.recorded = schema.DecodeLink(item), true
	}
	record := items.record
	if key.Plan != "" && (record.Plan == "" || record.Deleting) { // the record names no plan
		if items.given, err = c.given.readPlanItems(ctx, r); err != nil {
			return nil, nil, err
		}
		items.Plan, items.PlanDefault = items.given.own, items.given.all
		c.given.noteDispute(ctx, c.log, key.Entity, key.Plan)
		return items, found[bucket], nil
	}
	if record.Plan != "" {
		items.Plan, items.PlanDefault, err = r.readPlan(ctx, record.Plan, items)
	}
	return items, found[bucket], err
}

// readShared returns the items of keys: recent ones of the shared keys from memory, the others by read. It
// stores the read shared items for other entities. It adds the keys from memory to r.fromMemory, and sets the
// oldest time of a read in items.
func (r *configRead) readShared(items *storedItems, keys, shared []schema.Key, read func(keys []schema.Key) (map[schema.Key]schema.Item, error)) (map[schema.Key]schema.Item, error) {
	c := r.of
	shared = slices.DeleteFunc(shared, func(key schema.Key) bool { return !slices.Contains(keys, key) })
	evictions, now := c.shared.countEvictions(), sharedItem{read: c.now(), readAt: items.readAt, tick: items.tick}
	known, oldest := c.shared.takeRecent(shared, now)
	items.readAt, items.tick, items.elder = oldest.readAt, oldest.tick, max(items.elder, now.read.Sub(oldest.read))
	items.mixed = items.mixed || len(known) > 0
	isKnown := func(key schema.Key) bool { _, is := known[key]; return is }
	r.fromMemory = slices.AppendSeq(r.fromMemory, maps.Keys(known))
	found := map[schema.Key]schema.Item{}
	if unread := slices.DeleteFunc(slices.Clone(keys), isKnown); len(unread) > 0 {
		var err error
		if found, err = read(unread); err != nil {
			return nil, err
		}
	}
	c.shared.storeRead(slices.DeleteFunc(shared, isKnown), found, now, evictions)
	for key, item := range known {
		if item != nil {
			found[key] = item
		}
	}
	return found, nil
}

// ownersToConvert returns the owners of the read's sources whose limits must also be looked for in the table's
// older layout. It leaves out the plan, and items from memory.
func (r *configRead) ownersToConvert() []schema.ConfigOwner {
	if r.of.own {
		return nil
	}
	owners := []schema.ConfigOwner{{Resource: r.key.Resource}, {Entity: r.key.Entity, Resource: r.key.Resource}}
	if !r.key.Group {
		owners = append(owners, schema.ConfigOwner{})
		if r.key.Resource != schema.DefaultResource {
			owners = append(owners, schema.ConfigOwner{Entity: r.key.Entity, Resource: schema.DefaultResource})
		}
	}
	if len(r.fromMemory) > 0 {
		owners = slices.DeleteFunc(owners, func(o schema.ConfigOwner) bool { return slices.Contains(r.fromMemory, r.of.keys.Config(o)) })
	}
	return owners
}

// readPlan reads the items of a plan for the resource and for every resource, each nil if it does not exist. It
// fails with *Invalid for a malformed name. For an expired configuration it uses recent items from memory,
// and sets the time of their read in items.
func (r *configRead) readPlan(ctx context.Context, plan string, items *storedItems) (own, all schema.Item, err error) {
	if reason := schema.EntityRule.Check(plan); reason != "" {
		return nil, nil, &Invalid{Field: "plan of the entity's record", Reason: reason}
	}
	ofResource, ofAll := r.of.keys.PlanConfig(plan, r.key.Resource), r.of.keys.PlanConfig(plan, "")
	keys := []schema.Key{ofResource, ofAll}
	if r.key.Group {
		keys = keys[:1]
	}
	var found map[schema.Key]schema.Item
	if r.last == nil {
		found, err = r.of.store.ReadPlan(ctx, keys)
	} else {
		found, err = r.readShared(items, keys, slices.Clone(keys), func(keys []schema.Key) (map[schema.Key]schema.Item, error) {
			return r.of.store.ReadPlan(ctx, keys)
		})
	}
	if err != nil {
		return nil, nil, err
	}
	own, all = pickItems(found, ofResource, ofAll)
	return own, all, nil
}

// pickItems returns the items of an owner for a resource and for every resource; nil for an absent one. A
// resource with the default's name has only the default's item.
func pickItems(found map[schema.Key]schema.Item, ofResource, ofAll schema.Key) (own, all schema.Item) {
	if ofResource != ofAll {
		own = found[ofResource]
	}
	return own, found[ofAll]
}
