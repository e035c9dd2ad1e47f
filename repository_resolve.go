package dynalimit

import (
	"context"
	"log/slog"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// config returns the stored configuration of an entity on a resource, from the
// cache when it is fresh. On a miss one consistent BatchGetItem brings the
// entity's record, the four levels and the bucket: the caller whose read it was
// also gets the bucket item (nil when there is none) and true. The caller waits
// until then, if it is not zero; the read goes on for others.
func (r *Repository) config(ctx context.Context, entity, resource string, until time.Time) (*resolvedConfig, schema.Item, bool, error) {
	key := configKey{entity, resource}
	if cfg := r.configs.fresh(key); cfg != nil {
		return cfg, nil, false, nil
	}
	// Written by the read below, which another goroutine runs: to be looked at
	// only when get has succeeded, for then it has ended or never begun.
	var bucket schema.Item
	var executed bool
	var readErr error
	caller := ctx
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(caller, until)
		defer cancel()
	}
	cfg, err := r.configs.get(ctx, key, func(ctx context.Context) (*resolvedConfig, error) {
		executed = true
		var cfg *resolvedConfig
		cfg, bucket, readErr = r.readConfig(ctx, key, true)
		return cfg, readErr
	})
	if ctx.Err() != nil && caller.Err() == nil && err != nil {
		return nil, nil, false, &UnavailableError{Op: "read the configuration", Err: errPatience}
	}
	if err != nil {
		return nil, nil, false, err
	}
	if readErr != nil {
		r.log.WarnContext(ctx, "configuration not refreshed; the cached one is used",
			slog.String("entity", entity), slog.String("resource", resource), slog.Any("error", readErr))
	}
	return cfg, bucket, executed && readErr == nil, nil
}

// known returns the stored configuration if the cache has one that needs no read,
// else nil.
func (r *Repository) known(entity, resource string) *resolvedConfig {
	return r.configs.fresh(configKey{entity, resource})
}

// rereadConfig returns the configuration by a read that began after the call,
// and stores it in the cache.
func (r *Repository) rereadConfig(ctx context.Context, entity, resource string) (*resolvedConfig, error) {
	key := configKey{entity, resource}
	return r.configs.reload(ctx, key, func(ctx context.Context) (*resolvedConfig, error) {
		cfg, _, err := r.readConfig(ctx, key, false)
		return cfg, err
	})
}

// readConfig reads and resolves; with the bucket item if asked for.
func (r *Repository) readConfig(ctx context.Context, key configKey, withBucket bool) (*resolvedConfig, schema.Item, error) {
	readAt, tick := r.clock.NowMS(), r.tick()
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
	found, err := r.batchGet(ctx, "read the configuration", keys)
	if err != nil {
		return nil, nil, err
	}
	items := configItems{meta: found[meta], entityDefault: found[entityDefault], resource: found[resource], system: found[system]}
	if entity != entityDefault { // a resource of the default's name has no limits besides the default
		items.entity = found[entity]
	}
	cfg, err := resolveConfig(items)
	if err != nil {
		return nil, nil, err
	}
	cfg.readAt, cfg.tick = readAt, tick
	if len(cfg.limits) > 0 {
		cfg.compiled = newBucketConfig(cfg.limits, cfg.level, cfg.permanent, readAt, tick)
	}
	return cfg, found[bucket], nil
}

// ConfigCacheStats returns what the configuration cache did so far.
func (r *Repository) ConfigCacheStats() ConfigCacheStats { return r.configs.snapshot() }
