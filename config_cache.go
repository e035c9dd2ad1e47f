package dynalimit

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// ConfigCacheStats counts the reads of the configuration cache of a Repository since it was made. It is
// a snapshot: Requests = Hits + StaleHits + Misses.
type ConfigCacheStats struct {
	// Hits were answered from a fresh entry.
	Hits int64
	// NegativeHits are the Hits on "no source has limits".
	NegativeHits int64
	// StaleHits were answered from an entry past its TTL, while one other
	// caller reads it again or because that read failed.
	StaleHits int64
	// Misses had to wait for a read.
	Misses int64
	// Coalesced shared the read of another caller.
	Coalesced int64
	// Loads is the number of reads, forced ones included.
	Loads int64
	// Evictions is the number of entries that were dropped for lack of room, or because their
	// configuration was set through this Repository.
	Evictions int64
	// Size is the number of entries now.
	Size int
}

// ConfigCacheStats returns the statistics of the configuration cache. They are zero for a repository
// that NewRepository did not make.
func (r *Repository) ConfigCacheStats() ConfigCacheStats {
	if !r.made() {
		return ConfigCacheStats{}
	}
	return ConfigCacheStats(r.configs.Stats())
}

// InvalidateConfig marks the cached configuration of an entity on a resource as stale: the next use
// reads the table again. "" means every entity, or every resource. Changes made through this Repository
// need no such call. It does no I/O. If that read gets no answer, the old configuration is used
// (RepositoryOptions.MaxStale).
func (r *Repository) InvalidateConfig(entity, resource string) {
	if r.made() {
		r.configs.Invalidate(entity, resource)
	}
}

// configCache is the cache of configurations, with the errors that users see.
type configCache struct {
	*config.Cache
	layout *layout.Layout
}

// Get is Fresh, or Load without a bound.
func (c configCache) Get(ctx context.Context, key config.GivenKey) (config.Found, error) {
	if cfg := c.Fresh(key); cfg != nil {
		return config.Found{Resolved: cfg}, nil
	}
	return c.Load(ctx, key, time.Time{})
}

// Load is Cache.Load.
func (c configCache) Load(ctx context.Context, key config.GivenKey, until time.Time) (config.Found, error) {
	found, err := c.Cache.Load(ctx, key, until)
	if err != nil {
		err = configError(c.layout, err)
	}
	return found, err
}

// Reread is Cache.Reread.
func (c configCache) Reread(ctx context.Context, key config.GivenKey) (*config.Resolved, error) {
	found, err := c.Cache.Reread(ctx, key)
	if err != nil {
		err = configError(c.layout, err)
	}
	return found, err
}

// Read is Cache.Read.
func (c configCache) Read(ctx context.Context, key config.Key) (config.Said, error) {
	said, err := c.Cache.Read(ctx, key)
	if err != nil {
		err = configError(c.layout, err)
	}
	return said, err
}

// laneConfigs are the configurations of a limiter's buckets as its lanes see them.
type laneConfigs struct {
	configs configCache
	// fallback are the limiter's own limits; nil if it has no limits.
	fallback *config.Fallback
}

// Reread implements lane.Configs.
func (c laneConfigs) Reread(ctx context.Context, entity, resource string, group bool) (*plan.Config, error) {
	resolved, err := c.configs.Reread(ctx, config.GivenKey{Key: config.Key{Entity: entity, Resource: resource, Group: group}})
	switch {
	case isValidation(err):
		return nil, &lane.Failure{Reason: lane.Misconfigured, Err: err}
	case err != nil:
		return nil, err
	}
	return c.fallback.LimitsOf(resolved, false), nil
}

// Forget implements lane.Configs.
func (c laneConfigs) Forget(entity, resource string, group bool) {
	c.configs.Drop(config.Key{Entity: entity, Resource: resource, Group: group})
}
