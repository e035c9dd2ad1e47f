package config

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Found is a configuration. Read means that it was read for this caller, and Bucket is then the
// bucket's item, nil for none: it was read with it.
type Found struct {
	*Resolved
	Bucket schema.Item
	Read   bool
}

// Load returns the stored configuration of an entity on a resource that is not fresh. One consistent
// read brings the entity's record, the four levels and the bucket, and a second one the plan's two
// levels if the record names a plan. The caller waits until then, if it is not zero; the read goes on
// for others. It fails with a reason, or with an error of the store.
func (c *Cache) Load(ctx context.Context, key GivenKey, until time.Time) (Found, error) {
	caller := ctx
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(caller, until)
		defer cancel()
	}
	read := &levelRead{of: c, key: key} // the caller may leave it
	var cfg *Resolved
	var err error
	if key.Plan != "" {
		cfg, err = c.given.get(ctx, read)
	} else {
		cfg, err = c.loading.Get(ctx, key.Key, read.load)
	}
	switch {
	case err == nil:
		return read.found(cfg), nil
	case ctx.Err() != nil && caller.Err() == nil:
		return Found{}, ErrOutOfTime
	}
	return Found{}, err
}

// Reread returns the configuration by a read that began after the call, and stores it in the cache.
func (c *Cache) Reread(ctx context.Context, key GivenKey) (cfg *Resolved, err error) {
	read := &levelRead{of: c, key: key, forced: true}
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

// Said is what the levels say about an entity on a resource, with what the entity's record says.
type Said struct {
	Verdict
	Record schema.EntityRecord
}

// Read reads what the levels say. It neither reads nor changes the cache.
func (c *Cache) Read(ctx context.Context, key Key) (Said, error) {
	read := &levelRead{of: c, key: GivenKey{Key: key}, forced: true}
	items, _, err := read.items(ctx)
	if err != nil {
		return Said{}, err
	}
	v, err := items.verdict()
	return Said{v, items.record}, err
}

// levelRead is one read of a configuration, and of the bucket that goes by it.
type levelRead struct {
	of  *Cache
	key GivenKey
	// forced means that it is read whatever is cached: without the bucket, and its failure
	// is its caller's alone.
	forced bool
	// done is what it brought, once it has ended.
	done atomic.Pointer[Found]
}

// found returns a configuration that the cache brought, with the bucket if this read brought it.
func (r *levelRead) found(cfg *Resolved) Found {
	now := cfg
	if cfg.seldom != nil {
		now = r.of.inForce(cfg)
	}
	if own := r.done.Load(); own != nil && own.Resolved == cfg {
		return Found{now, own.Bucket, true}
	}
	return Found{Resolved: now}
}

// load reads and resolves, and tells Options.Loaded.
func (r *levelRead) load(ctx context.Context) (*Resolved, error) {
	c := r.of
	began := c.clock.Source()
	items, bucket, err := r.items(ctx)
	var cfg *Resolved
	if err == nil {
		cfg, err = c.kinds.resolve(items)
	}
	c.loaded(r.key.Key, c.clock.Source().Sub(began), err)
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

// items reads the items that a configuration is resolved from, and the bucket unless the read is
// forced. The plan's are read once the entity's record has named it.
func (r *levelRead) items(ctx context.Context) (*levelItems, schema.Item, error) {
	c, key := r.of, r.key
	items := &levelItems{readAt: c.clock.NowMS(), tick: c.tick(), group: key.Group}
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
	case c.own: // no level applies to this project's own counters
		keys = nil
	case key.Group:
		keys = []schema.Key{meta, entity, resource}
	}
	if !r.forced {
		keys = append(keys, bucket)
	}
	found, err := c.store.ReadLevels(ctx, keys, r.owners)
	if err != nil {
		return nil, nil, err
	}
	items.Resource, items.System = found[resource], found[system]
	items.Entity, items.EntityDefault = mostSpecific(found, entity, entityDefault)
	if item := found[meta]; item != nil {
		items.record, items.recorded = schema.DecodeLink(item), true
	}
	record := items.record
	if key.Plan != "" && (record.Plan == "" || record.Deleting) { // the record says nothing of a plan
		if items.given, err = c.given.items(ctx, r); err != nil {
			return nil, nil, err
		}
		items.Plan, items.PlanDefault = items.given.own, items.given.all
		c.given.noteDispute(ctx, c.log, key.Entity, key.Plan)
		return items, found[bucket], nil
	}
	if record.Plan != "" {
		items.Plan, items.PlanDefault, err = r.plan(ctx, record.Plan)
	}
	return items, found[bucket], err
}

// owners are those whose levels a configuration is made of, but for the plan.
func (r *levelRead) owners() []schema.ConfigOwner {
	if r.of.own {
		return nil
	}
	owners := []schema.ConfigOwner{{Resource: r.key.Resource}, {Entity: r.key.Entity, Resource: r.key.Resource}}
	if r.key.Group {
		return owners
	}
	owners = append(owners, schema.ConfigOwner{})
	if r.key.Resource != schema.DefaultResource {
		owners = append(owners, schema.ConfigOwner{Entity: r.key.Entity, Resource: schema.DefaultResource})
	}
	return owners
}

// plan reads the items of a plan for the resource and for every resource.
func (r *levelRead) plan(ctx context.Context, plan string) (own, all schema.Item, err error) {
	if reason := schema.CheckEntity(plan); reason != "" {
		return nil, nil, &Invalid{Field: "plan of the entity's record", Reason: reason}
	}
	ofResource, ofAll := r.of.keys.PlanConfig(plan, r.key.Resource), r.of.keys.PlanConfig(plan, "")
	keys := []schema.Key{ofResource, ofAll}
	if r.key.Group {
		keys = keys[:1]
	}
	found, err := r.of.store.ReadPlan(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	own, all = mostSpecific(found, ofResource, ofAll)
	return own, all, nil
}

// mostSpecific are the items of an owner for a resource and for every resource. A
// resource of the default's name has no item besides the default's.
func mostSpecific(found map[schema.Key]schema.Item, ofResource, ofAll schema.Key) (own, all schema.Item) {
	if ofResource != ofAll {
		own = found[ofResource]
	}
	return own, found[ofAll]
}
