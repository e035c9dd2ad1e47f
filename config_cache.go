package dynalimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// configKey names one resolved configuration: that of an entity on a resource or, with group,
// on a group of resources.
type configKey struct {
	entity, resource string
	group            bool
}

// String is the key as text; '#' is in no identifier.
func (k configKey) String() string {
	if k.group {
		return k.entity + "#" + k.resource + "#"
	}
	return k.entity + "#" + k.resource
}

// heldConfig is a configuration that was fresh when it was taken.
type heldConfig = cache.Held[configKey, *resolvedConfig]

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
//
// What is kept has the raises that were in force when it was read. What is returned has those that
// are in force now (current), but for held configurations, which say nothing once a raise has ended.
type configCache struct {
	loading *cache.Loading[configKey, *resolvedConfig]
	given   givenConfigs
	// clock says which raises have ended.
	clock *ddb.Clock
	// evicted is closed at the next eviction; nil if nobody waits for it.
	mu      sync.Mutex
	evicted chan struct{}
}

func newConfigCache(size int, ttl time.Duration, now func() time.Time) *configCache {
	o := cache.Options[*resolvedConfig]{
		Now: now, TTL: ttl, Grace: ttl,
		Definite: isDefinite, Unanswered: unavailable,
		Negative: func(cfg *resolvedConfig) bool { return cfg.level == "" },
	}
	loading, err := cache.NewLoading[configKey](size, o)
	if err != nil { // a size below 1, which NewRepository refuses
		panic(err)
	}
	return &configCache{loading: loading, given: newGivenConfigs(size, o)}
}

// useStaleDuring lets configurations be used for maxStale past their TTL while away
// returns why the table does not answer, and while their reads bring no answer. It must
// be called before the cache is used.
func (c *configCache) useStaleDuring(away func() error, maxStale time.Duration) {
	c.loading.Away, c.loading.MaxStale = away, maxStale
	c.given.useStaleDuring(away, maxStale)
}

// ttl is how long a configuration is fresh.
func (c *configCache) ttl() time.Duration { return c.loading.TTL }

// fresh returns the configuration if it need not be read; nil otherwise.
func (c *configCache) fresh(key givenKey) *resolvedConfig {
	if key.plan != "" {
		return c.current(c.given.fresh(key))
	}
	return c.current(c.loading.Fresh(key.configKey))
}

// get returns a configuration, which it reads unless the cache has a fresh one.
func (c *configCache) get(ctx context.Context, key givenKey, read configReader) (*resolvedConfig, error) {
	if key.plan != "" {
		return c.given.get(ctx, key, read)
	}
	return c.loading.Get(ctx, key.configKey, read.load)
}

// reload reads a configuration, whatever is cached, and caches what it brings.
func (c *configCache) reload(ctx context.Context, key givenKey, load cache.Load[*resolvedConfig]) (*resolvedConfig, error) {
	if key.plan != "" {
		return c.given.resolved.Reload(ctx, key, load)
	}
	return c.loading.Reload(ctx, key.configKey, load)
}

// hold is fresh for who asks for it again and again: see still.
func (c *configCache) hold(key configKey) (heldConfig, bool) {
	held, ok := c.loading.Hold(key)
	return held, ok && !held.Value.ended(c.clock.LatestMS)
}

// still reports whether fresh would return what is held, at now.
func (c *configCache) still(held *heldConfig, now time.Time) bool {
	return !held.Value.ended(c.clock.LatestMS) && c.loading.Still(held, now)
}

// readSince is when the oldest read of a configuration that is under way began.
func (c *configCache) readSince(key givenKey) time.Time {
	if key.plan != "" {
		return c.given.resolved.ReadSince(key)
	}
	return c.loading.ReadSince(key.configKey)
}

// last returns the configuration as last read, however old; nil if it is not kept.
func (c *configCache) last(key givenKey) *resolvedConfig {
	if key.plan != "" {
		return c.current(c.given.resolved.Last(key))
	}
	return c.current(c.loading.Last(key.configKey))
}

// evictPlans forgets what was made of plans on the resources that match, and ignores the
// reads under way of those resources, for it is not known which plan they will meet.
func (c *configCache) evictPlans(plans map[string]bool, match func(configKey) bool) {
	c.loading.EvictValues(match, func(cfg *resolvedConfig) bool { return plans[cfg.plan] })
	c.given.evictPlans(plans, match)
	c.tell()
}

// evict forgets the configurations whose key matches, and ignores the reads of them that
// are under way.
func (c *configCache) evict(match func(configKey) bool) {
	c.loading.Evict(match)
	c.given.evict(match)
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

func (c *configCache) snapshot() ConfigCacheStats {
	s, given := c.loading.Stats(), c.given.resolved.Stats()
	return ConfigCacheStats{
		Hits: s.Hits + given.Hits, NegativeHits: s.NegativeHits + given.NegativeHits, StaleHits: s.StaleHits + given.StaleHits,
		Misses: s.Misses + given.Misses, Coalesced: s.Coalesced + given.Coalesced, Loads: s.Loads + given.Loads,
		Evictions: s.Evictions + given.Evictions, Size: s.Size + given.Size,
	}
}

// isDefinite reports whether the error of a read says that the table, or what is stored in
// it, cannot be used.
func isDefinite(err error) bool { return isValidation(err) || errors.Is(err, fault.ErrVersion) }

func isValidation(err error) bool {
	var v *ValidationError
	return errors.As(err, &v)
}
