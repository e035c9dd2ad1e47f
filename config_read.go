package dynalimit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/observe"
)

// config returns the stored configuration of an entity on a resource, from the
// cache when it is fresh. On a miss one consistent BatchGetItem brings the
// entity's record, the four levels and the bucket, and a second one the plan's two levels
// if the record names a plan: the caller whose read it was
// also gets the bucket item (nil when there is none) and true. The caller waits
// until then, if it is not zero; the read goes on for others.
func (r *Repository) config(ctx context.Context, key givenKey, until time.Time) (*resolvedConfig, schema.Item, bool, error) {
	if cfg := r.configs.fresh(key); cfg != nil {
		return cfg, nil, false, nil
	}
	caller := ctx
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(caller, until)
		defer cancel()
	}
	read := configRead{repo: r, key: key} // the caller may leave it
	cfg, err := r.configs.get(ctx, key, &read)
	if ctx.Err() != nil && caller.Err() == nil && err != nil {
		return nil, nil, false, &UnavailableError{Op: readConfig, Err: errOutOfTime}
	}
	if err != nil {
		return nil, nil, false, err
	}
	now := r.configs.current(cfg)
	if own := read.done.Load(); own != nil && own.cfg == cfg {
		return now, own.bucket, true, nil
	}
	return now, nil, false, nil
}

// known returns the stored configuration if the cache has one that needs no read,
// else nil.
func (r *Repository) known(key givenKey) *resolvedConfig { return r.configs.fresh(key) }

// rereadConfig returns the configuration by a read that began after the call,
// and stores it in the cache.
func (r *Repository) rereadConfig(ctx context.Context, key givenKey) (*resolvedConfig, error) {
	read := configRead{repo: r, key: key, forced: true}
	cfg, err := r.configs.reload(ctx, key, read.load)
	return r.configs.current(cfg), err
}

// ConfigCacheStats returns what the configuration cache did so far; nothing for a
// repository that NewRepository did not make.
func (r *Repository) ConfigCacheStats() ConfigCacheStats {
	if !r.made() {
		return ConfigCacheStats{}
	}
	return r.configs.snapshot()
}

// refused is the error of a call in a namespace that was seen inactive within the TTL of
// the configuration: then nobody looks again.
func (r *Repository) refused() error {
	seen := r.namespace.seen.Load()
	if seen == nil || seen.inactive == nil { // the usual case
		return nil
	}
	if age := r.clock.Source().Sub(seen.at); age < 0 || age >= r.configs.ttl() {
		return nil
	}
	return seen.inactive
}

// refusedBy is the error of a call whose configuration was read, or could not be: that of
// a namespace that is known to be inactive, whatever a policy says, or the read's own.
func (r *Repository) refusedBy(ctx context.Context, err error) error {
	if inactive := r.namespace.inactive(); inactive != nil && ctx.Err() == nil && (err == nil || unavailable(err)) {
		return inactive
	}
	return err
}

// configRead is one read of a configuration, and of the bucket that goes by it.
type configRead struct {
	repo *Repository
	key  givenKey
	// forced means that it is read whatever is cached: without the bucket, and its failure
	// is its caller's alone.
	forced bool
	// done is what it brought, once it has ended.
	done atomic.Pointer[configFound]
}

// configFound is what a read brought: a configuration, and the bucket that goes by it.
type configFound struct {
	cfg    *resolvedConfig
	bucket schema.Item
}

// load reads and resolves, and tells the observers of it.
func (c *configRead) load(ctx context.Context) (*resolvedConfig, error) {
	began := c.repo.clock.Source()
	cfg, err := c.resolve(ctx)
	c.repo.listeners.loaded(observe.ConfigLoad{
		EntityID: c.key.entity, Resource: c.key.resource, Duration: c.repo.clock.Source().Sub(began), Err: err,
	})
	return cfg, err
}

// resolve reads and resolves.
func (c *configRead) resolve(ctx context.Context) (*resolvedConfig, error) {
	r := c.repo
	items, bucket, err := c.items(ctx, !c.forced)
	var cfg *resolvedConfig
	if err == nil {
		if cfg, err = resolveConfig(items); err != nil {
			err = kindError(r.layout, err)
		}
	}
	if err != nil {
		if !c.forced && r.configs.last(c.key) != nil {
			r.log.WarnContext(ctx, "configuration not refreshed; the cached one is used while it may be",
				slog.String("entity", c.key.entity), slog.String("resource", c.key.resource), slog.Any("error", err))
		}
		return nil, err
	}
	kind := r.kinds.share(cfg.configKind)
	for phase := cfg; phase != nil; phase = phase.afterRaise() {
		phase.configKind = kind
	}
	c.done.Store(&configFound{cfg, bucket})
	return cfg, nil
}

// items reads the items that a configuration is resolved from, and the bucket
// if asked for. The plan's are read once the entity's record has named it.
func (c *configRead) items(ctx context.Context, withBucket bool) (*configItems, schema.Item, error) {
	r, key := c.repo, c.key
	items := &configItems{readAt: r.clock.NowMS(), tick: r.tick(), group: key.group}
	var (
		meta          = r.keys.Meta(key.entity)
		entity        = r.keys.EntityConfig(key.entity, key.resource)
		entityDefault = r.keys.EntityConfig(key.entity, "")
		resource      = r.keys.ResourceConfig(key.resource)
		system        = r.keys.SystemConfig()
		bucket        = r.keys.Bucket(key.entity, key.resource)
	)
	keys := []schema.Key{meta, entity, entityDefault, resource, system}
	switch {
	case schema.IsOwn(r.keys.Prefix()): // no level applies to this project's own counters
		keys = nil
	case key.group:
		keys = []schema.Key{meta, entity, resource}
	}
	if withBucket {
		keys = append(keys, bucket)
	}
	found, err := c.current(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	items.meta, items.Resource, items.System = found[meta], found[resource], found[system]
	items.Entity, items.EntityDefault = mostSpecific(found, entity, entityDefault)
	record := schema.DecodeLink(items.meta)
	if key.plan != "" && (record.Plan == "" || record.Deleting) { // the record says nothing of a plan
		if items.given, err = r.configs.given.items(ctx, key, c); err != nil {
			return nil, nil, err
		}
		items.Plan, items.PlanDefault = items.given.own, items.given.all
		r.configs.given.noteDispute(ctx, r.log, key.entity, key.plan)
		return items, found[bucket], nil
	}
	items.Plan, items.PlanDefault, err = c.plan(ctx, record.Plan)
	if err != nil {
		return nil, nil, err
	}
	return items, found[bucket], nil
}

// current reads the items of a configuration, with the limits that are in an older layout,
// and the bucket if it is among the keys; with them the record of the namespace and, where it
// is due, the version record. Limits of the older layout are read first, for others may turn
// them meanwhile. The first read of a repository does not know the layout: it reads again.
func (c *configRead) current(ctx context.Context, keys []schema.Key) (found map[schema.Key]schema.Item, err error) {
	r := c.repo
	first := r.layout.Due()
	if first {
		if found, err = c.batch(ctx, keys); err != nil || r.layout.CompositeOnly() {
			return found, err
		}
	}
	older, looked, err := r.buckets.Takeover.Limits(ctx, c.owners()...)
	if err == nil && (looked || !first) {
		found, err = c.batch(ctx, keys)
	}
	if err != nil {
		return nil, err
	}
	return found, store.UnreadableError(older.Merge(found))
}

// batch reads items, the record of the namespace and, where it is due, the version record.
func (c *configRead) batch(ctx context.Context, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	r := c.repo
	version := schema.VersionKey()
	asked, due := slices.Clone(keys), r.layout.Due()
	if due {
		asked = append(asked, version)
	}
	namespace, bound := r.keys.Namespace()
	if bound {
		asked = append(asked, namespace)
	}
	began, tick := r.clock.Source(), r.tick()
	found, err := r.store.BatchGet(ctx, readConfig, asked)
	if err != nil {
		return nil, err
	}
	if bound {
		r.namespace.note(&namespaceSeen{at: began, tick: tick, inactive: shared.Inactive(r.keys.Name(), found[namespace])})
	}
	if due {
		err = r.layout.Note(ctx, found[version])
	}
	return found, err
}

// owners are those whose levels a configuration is made of, but for the plan.
func (c *configRead) owners() []schema.ConfigOwner {
	if schema.IsOwn(c.repo.keys.Prefix()) {
		return nil
	}
	owners := []schema.ConfigOwner{{Resource: c.key.resource}, {Entity: c.key.entity, Resource: c.key.resource}}
	if c.key.group {
		return owners
	}
	owners = append(owners, schema.ConfigOwner{})
	if c.key.resource != schema.DefaultResource {
		owners = append(owners, schema.ConfigOwner{Entity: c.key.entity, Resource: schema.DefaultResource})
	}
	return owners
}

// plan reads the items of a plan for the resource and for every resource; it asks
// nobody if there is no plan.
func (c *configRead) plan(ctx context.Context, plan string) (own, all schema.Item, err error) {
	if plan == "" {
		return nil, nil, nil
	}
	if err := checkEntityID("plan of the entity's record", plan); err != nil {
		return nil, nil, err
	}
	ofResource, ofAll := c.repo.keys.PlanConfig(plan, c.key.resource), c.repo.keys.PlanConfig(plan, "")
	keys := []schema.Key{ofResource, ofAll}
	if c.key.group {
		keys = keys[:1]
	}
	found, err := c.repo.store.BatchGet(ctx, "read the plan", keys)
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

// ResolveLimits returns what applies to an entity on a resource and its groups, and where it
// comes from. It reads the table consistently, and neither reads nor changes the cache: one
// request, one more for each group, and for each a second one if the entity is on a plan. The
// entity needs no record. It fails with a *ValidationError for bad input, and for a stored
// level that cannot be read.
func (r *Repository) ResolveLimits(ctx context.Context, entity, resource string) (ResolvedLimits, error) {
	if err := r.usable(ctx); err != nil {
		return ResolvedLimits{}, err
	}
	if err := checkEntityID("entity", entity); err != nil {
		return ResolvedLimits{}, err
	}
	if err := checkResource(resource); err != nil {
		return ResolvedLimits{}, err
	}
	read := configRead{repo: r, key: givenKey{configKey: configKey{entity: entity, resource: resource}}}
	resolved, groups, err := read.resolved(ctx)
	for _, group := range groups {
		var of ResolvedLimits
		read = configRead{repo: r, key: givenKey{configKey: configKey{entity, group, true}}}
		if of, _, err = read.resolved(ctx); err != nil {
			break
		}
		resolved.Groups = append(resolved.Groups, of)
	}
	return resolved, err
}

// resolved reads what applies, and the groups of the resource.
func (c *configRead) resolved(ctx context.Context) (resolved ResolvedLimits, groups []string, err error) {
	items, _, err := c.items(ctx, false)
	if err != nil {
		return ResolvedLimits{}, nil, err
	}
	v, limits, from, err := items.verdict()
	if err != nil {
		return ResolvedLimits{}, nil, kindError(c.repo.layout, err)
	}
	record := schema.DecodeLink(items.meta)
	resolved = ResolvedLimits{
		EntityID: c.key.entity, Resource: c.key.resource, Limits: limits, From: from, Level: v.Level, Plan: record.Plan,
		Unlimited: v.Unlimited, Counted: v.Counted, Blocked: v.Blocked, Admitted: v.Admitted,
		OnUnavailable: UnavailablePolicy(v.Policy), PolicyLevel: v.PolicyLevel,
		ParentID: record.ParentID, Cascade: record.Cascade, Detached: record.Detached,
	}
	for _, h := range v.Hidden {
		resolved.Hidden = append(resolved.Hidden, HiddenLimit(h))
	}
	for _, h := range v.Lifted {
		resolved.Lifted = append(resolved.Lifted, HiddenLimit(h))
	}
	if !c.key.group {
		groups = v.Groups
	}
	return resolved, groups, resolved.raise(&v, c.repo.clock.LatestMS())
}

// InvalidateConfig makes the next use of what is cached about an entity on a resource read
// the table again; "" means every entity, or every resource. Changes made through this
// Repository need no such call. It asks nobody. What was cached is used on only if the
// reading brings no answer (RepositoryOptions.MaxStale).
func (r *Repository) InvalidateConfig(entity, resource string) {
	if !r.made() {
		return
	}
	r.configs.evict(func(k configKey) bool {
		return (entity == "" || k.entity == entity) && (resource == "" || k.resource == resource)
	})
}

// laneConfigs are the configurations of a limiter's buckets as its lanes see them.
type laneConfigs struct {
	repo *Repository
	// fallback are the limiter's own limits, nil for none.
	fallback *fallbackLimits
}

// Reread implements lane.Configs.
func (c laneConfigs) Reread(ctx context.Context, entity, resource string, group bool) (*plan.Config, error) {
	resolved, err := c.repo.rereadConfig(ctx, givenKey{configKey: configKey{entity, resource, group}})
	var wrong *ValidationError
	switch {
	case errors.As(err, &wrong):
		return nil, &lane.Failure{Reason: lane.Misconfigured, Err: err}
	case err != nil:
		return nil, err
	}
	return c.fallback.compile(resolved, false), nil
}

// Forget implements lane.Configs.
func (c laneConfigs) Forget(entity, resource string, group bool) {
	c.repo.configs.drop(configKey{entity, resource, group})
}
