package dynalimit

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/internal/cache"
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

type configLoad = cache.Load[*resolvedConfig]

// configCache remembers resolved configurations. Past its TTL one is used for at
// most another, while one caller reads it again or because that read failed; while
// the table does not answer, for as long as RepositoryOptions.MaxStale says.
type configCache struct {
	loading *cache.Loading[configKey, *resolvedConfig]
}

func newConfigCache(size int, ttl time.Duration, now func() time.Time) *configCache {
	loading, err := cache.NewLoading[configKey](size, cache.Options[*resolvedConfig]{
		Now: now, TTL: ttl, Grace: ttl,
		Definite: isValidation,
		Negative: func(cfg *resolvedConfig) bool { return cfg.level == "" },
	})
	if err != nil { // a size below 1, which NewRepository refuses
		panic(err)
	}
	return &configCache{loading}
}

// outlive lets configurations be used for maxStale past their TTL while away says
// why the table does not answer. It is called before the cache is used.
func (c *configCache) outlive(away func() error, maxStale time.Duration) {
	c.loading.Away, c.loading.MaxStale = away, maxStale
}

// ttl is how long a configuration is fresh.
func (c *configCache) ttl() time.Duration { return c.loading.TTL }

// fresh returns the configuration if it needs no read, else nil.
func (c *configCache) fresh(key configKey) *resolvedConfig { return c.loading.Fresh(key) }

// get returns the configuration, reading it if there is no fresh one.
func (c *configCache) get(ctx context.Context, key configKey, load configLoad) (*resolvedConfig, error) {
	return c.loading.Get(ctx, key, load)
}

// reload returns the configuration by a read that begins after the call.
func (c *configCache) reload(ctx context.Context, key configKey, load configLoad) (*resolvedConfig, error) {
	return c.loading.Reload(ctx, key, load)
}

// evict forgets the configurations whose key matches, and the reads of them under
// way.
func (c *configCache) evict(match func(configKey) bool) { c.loading.Evict(match) }

// drop is evict of one key.
func (c *configCache) drop(key configKey) { c.loading.Drop(key) }

func (c *configCache) snapshot() ConfigCacheStats { return ConfigCacheStats(c.loading.Stats()) }

func isValidation(err error) bool {
	var v *ValidationError
	return errors.As(err, &v)
}
