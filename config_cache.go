package dynalimit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// configKey names one resolved configuration.
type configKey struct{ entity, resource string }

// String is the key as text; '#' is in no identifier.
func (k configKey) String() string { return k.entity + "#" + k.resource }

// ConfigCacheStats counts what the configuration cache of a Repository did
// since it was made. It is a snapshot: Requests = Hits + StaleHits + Misses.
type ConfigCacheStats struct {
	// Hits were answered from a fresh entry.
	Hits int64
	// NegativeHits are the Hits on "no level has limits".
	NegativeHits int64
	// StaleHits were answered from an entry past its TTL, while one other
	// caller reads it again or because that read failed.
	StaleHits int64
	// Misses had to wait for a read.
	Misses int64
	// Coalesced shared the read of another caller.
	Coalesced int64
	// Loads is how many reads were begun, forced ones included.
	Loads int64
	// Evictions is how many entries left for lack of room or because their
	// configuration was set through this Repository.
	Evictions int64
	// Size is how many entries are held now.
	Size int
}

// readConfig is what the reads of the cache do, for errors.
const readConfig = "read the configuration"

// configCache keeps resolved configurations. A configuration past its TTL is used for at
// most another TTL, while one caller reads it again or because that read failed. If its
// read brings no answer, it is used as long as RepositoryOptions.MaxStale says, whether
// the table is open or not: otherwise Allow would admit without any limit although the
// buckets answer.
type configCache struct {
	loading *cache.Loading[configKey, *resolvedConfig]
	// evicted is closed at the next eviction; nil if nobody waits for it.
	mu      sync.Mutex
	evicted chan struct{}
}

func newConfigCache(size int, ttl time.Duration, now func() time.Time) *configCache {
	loading, err := cache.NewLoading[configKey](size, cache.Options[*resolvedConfig]{
		Now: now, TTL: ttl, Grace: ttl,
		Definite: isDefinite, Unanswered: unavailable,
		Negative: func(cfg *resolvedConfig) bool { return cfg.level == "" },
	})
	if err != nil { // a size below 1, which NewRepository refuses
		panic(err)
	}
	return &configCache{loading: loading}
}

// useStaleDuring lets configurations be used for maxStale past their TTL while away
// returns why the table does not answer, and while their reads bring no answer. It must
// be called before the cache is used.
func (c *configCache) useStaleDuring(away func() error, maxStale time.Duration) {
	c.loading.Away, c.loading.MaxStale = away, maxStale
}

// ttl is how long a configuration is fresh.
func (c *configCache) ttl() time.Duration { return c.loading.TTL }

// fresh returns the configuration if it need not be read; nil otherwise.
func (c *configCache) fresh(key configKey) *resolvedConfig { return c.loading.Fresh(key) }

// readSince is when the oldest read of a configuration that is under way began.
func (c *configCache) readSince(key configKey) time.Time { return c.loading.ReadSince(key) }

// last returns the configuration as last read, however old; nil if it is not kept.
func (c *configCache) last(key configKey) *resolvedConfig { return c.loading.Last(key) }

// evictPlans forgets what was made of plans on the resources that match, and ignores the
// reads under way of those resources, for it is not known which plan they will meet.
func (c *configCache) evictPlans(plans map[string]bool, match func(configKey) bool) {
	c.loading.EvictValues(match, func(cfg *resolvedConfig) bool { return plans[cfg.plan] })
	c.tell()
}

// evict forgets the configurations whose key matches, and ignores the reads of them that
// are under way.
func (c *configCache) evict(match func(configKey) bool) {
	c.loading.Evict(match)
	c.tell()
}

// nextEviction is closed when configuration is next changed through the repository.
func (c *configCache) nextEviction() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicted == nil {
		c.evicted = make(chan struct{})
	}
	return c.evicted
}

func (c *configCache) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicted != nil {
		close(c.evicted)
		c.evicted = nil
	}
}

// drop does what evict does, for one key.
func (c *configCache) drop(key configKey) { c.loading.Drop(key) }

func (c *configCache) snapshot() ConfigCacheStats { return ConfigCacheStats(c.loading.Stats()) }

// isDefinite reports whether the error of a read says that the table, or what is stored in
// it, cannot be used.
func isDefinite(err error) bool { return isValidation(err) || errors.Is(err, ErrVersion) }

func isValidation(err error) bool {
	var v *ValidationError
	return errors.As(err, &v)
}

// config returns the stored configuration of an entity on a resource, from the
// cache when it is fresh. On a miss one consistent BatchGetItem brings the
// entity's record, the four levels and the bucket, and a second one the plan's two levels
// if the record names a plan: the caller whose read it was
// also gets the bucket item (nil when there is none) and true. The caller waits
// until then, if it is not zero; the read goes on for others.
func (r *Repository) config(ctx context.Context, entity, resource string, until time.Time) (*resolvedConfig, schema.Item, bool, error) {
	key := configKey{entity, resource}
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
	cfg, err := r.configs.loading.Get(ctx, key, read.load)
	if ctx.Err() != nil && caller.Err() == nil && err != nil {
		return nil, nil, false, &UnavailableError{Op: readConfig, Err: errOutOfTime}
	}
	if err != nil {
		return nil, nil, false, err
	}
	if own := read.done.Load(); own != nil && own.cfg == cfg {
		return cfg, own.bucket, true, nil
	}
	return cfg, nil, false, nil
}

// configRead is one read of a configuration, and of the bucket that goes by it.
type configRead struct {
	repo *Repository
	key  configKey
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

// load reads and resolves.
func (c *configRead) load(ctx context.Context) (*resolvedConfig, error) {
	r := c.repo
	items, bucket, err := r.readConfigItems(ctx, c.key, !c.forced)
	var cfg *resolvedConfig
	if err == nil {
		if cfg, err = resolveConfig(items); err != nil {
			err = r.configKindError(err)
		}
	}
	if err != nil {
		if !c.forced && r.configs.last(c.key) != nil {
			r.log.WarnContext(ctx, "configuration not refreshed; the cached one is used while it may be",
				slog.String("entity", c.key.entity), slog.String("resource", c.key.resource), slog.Any("error", err))
		}
		return nil, err
	}
	cfg.configKind = r.kinds.share(cfg.configKind)
	c.done.Store(&configFound{cfg, bucket})
	return cfg, nil
}

// known returns the stored configuration if the cache has one that needs no read,
// else nil.
func (r *Repository) known(entity, resource string) *resolvedConfig {
	return r.configs.fresh(configKey{entity, resource})
}

// rereadConfig returns the configuration by a read that began after the call,
// and stores it in the cache.
func (r *Repository) rereadConfig(ctx context.Context, entity, resource string) (*resolvedConfig, error) {
	read := configRead{repo: r, key: configKey{entity, resource}, forced: true}
	return r.configs.loading.Reload(ctx, read.key, read.load)
}

// readConfigItems reads the items that a configuration is resolved from, and the bucket
// if asked for. The plan's are read once the entity's record has named it.
func (r *Repository) readConfigItems(ctx context.Context, key configKey, withBucket bool) (*configItems, schema.Item, error) {
	items := &configItems{readAt: r.clock.NowMS(), tick: r.tick()}
	var (
		meta          = r.keys.Meta(key.entity)
		entity        = r.keys.EntityConfig(key.entity, key.resource)
		entityDefault = r.keys.EntityConfig(key.entity, "")
		resource      = r.keys.ResourceConfig(key.resource)
		system        = r.keys.SystemConfig()
		bucket        = r.keys.Bucket(key.entity, key.resource)
	)
	keys := []schema.Key{meta, entity, entityDefault, resource, system}
	if withBucket {
		keys = append(keys, bucket)
	}
	found, err := r.readCurrent(ctx, key, keys, bucket)
	if err != nil {
		return nil, nil, err
	}
	items.meta, items.Resource, items.System = found[meta], found[resource], found[system]
	items.Entity, items.EntityDefault = mostSpecific(found, entity, entityDefault)
	items.Plan, items.PlanDefault, err = r.readPlan(ctx, schema.DecodeLink(items.meta).Plan, key.resource)
	if err != nil {
		return nil, nil, err
	}
	return items, found[bucket], nil
}

// readCurrent reads the items of a configuration, and the bucket if it is among the keys,
// once nothing of them is in an older layout; with them the record of the namespace and,
// where it is due, the version record. Whether anything may be in an older layout is known
// before the items are read, but for the reads that bring the version record: those read
// again.
func (r *Repository) readCurrent(ctx context.Context, key configKey, keys []schema.Key, bucket schema.Key) (map[schema.Key]schema.Item, error) {
	version, first := schema.VersionKey(), r.versionDue()
	namespace, bound := r.keys.Namespace()
	if !first {
		if _, err := r.takeOverConfigs(ctx, key); err != nil {
			return nil, err
		}
	}
	for try := 1; ; try++ {
		asked, due := slices.Clone(keys), r.versionDue()
		if due {
			asked = append(asked, version)
		}
		if bound {
			asked = append(asked, namespace)
		}
		began, tick := r.clock.Source(), r.tick()
		found, err := r.store.BatchGet(ctx, readConfig, asked)
		if err == nil && bound {
			r.namespace.note(&namespaceSeen{at: began, tick: tick, inactive: admin.Inactive(r.keys.Name(), found[namespace])})
		}
		if err == nil && due {
			err = r.noteVersion(ctx, found[version])
		}
		if err != nil || try == 2 {
			return found, err
		}
		again, err := r.moved(ctx, key, first, found[bucket] == nil && slices.Contains(keys, bucket))
		if err != nil || !again {
			return found, err
		}
	}
}

// moved reports whether items of an older layout were taken over while a configuration was
// read, so that it is read again: those of the configuration if they were not looked for
// before, and the bucket if it was not found.
func (r *Repository) moved(ctx context.Context, key configKey, configs, bucket bool) (moved bool, err error) {
	if configs {
		moved, err = r.takeOverConfigs(ctx, key)
	}
	if err == nil && bucket {
		var there bool
		there, err = r.bucketElsewhere(ctx, key)
		moved = moved || there
	}
	return moved, err
}

// readPlan reads the items of a plan for a resource and for every resource; it asks
// nobody if there is no plan.
func (r *Repository) readPlan(ctx context.Context, plan, resource string) (own, all schema.Item, err error) {
	if plan == "" {
		return nil, nil, nil
	}
	if err := checkEntityID("plan of the entity's record", plan); err != nil {
		return nil, nil, err
	}
	ofResource, ofAll := r.keys.PlanConfig(plan, resource), r.keys.PlanConfig(plan, "")
	found, err := r.store.BatchGet(ctx, "read the plan", []schema.Key{ofResource, ofAll})
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

// ConfigCacheStats returns what the configuration cache did so far; nothing for a
// repository that NewRepository did not make.
func (r *Repository) ConfigCacheStats() ConfigCacheStats {
	if !r.made() {
		return ConfigCacheStats{}
	}
	return r.configs.snapshot()
}
