package dynalimit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dynalimit/dynalimit/internal/cache"
)

// configKey names one resolved configuration.
type configKey struct{ entity, resource string }

// name is the key as text; '#' is in no identifier.
func (k configKey) name() string { return k.entity + "#" + k.resource }

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

type configEntry struct {
	cfg *resolvedConfig
	// read is when the read began.
	read time.Time
	// refreshing says that one caller is reading it again.
	refreshing bool
	// retry is the earliest next attempt after a failed one.
	retry time.Time
}

// configFill is a read under way. An eviction of its key drops it: what it
// brings may be older than the change.
type configFill struct {
	key     configKey
	began   time.Time
	dropped bool
}

type configLoad func(context.Context) (*resolvedConfig, error)

// configCache remembers resolved configurations. No lock is held while one is
// read.
type configCache struct {
	ttl time.Duration
	now func() time.Time
	// away returns why the table does not answer, nil while it does: then entries
	// are used up to maxStale past their TTL, and nobody waits for a read.
	away     func() error
	maxStale time.Duration

	// What needs no read takes no lock of the cache's own: callers come together.
	hits, negativeHits, staleHits, misses atomic.Int64

	mu      sync.Mutex
	entries *cache.Recent[configKey, *configEntry]
	fills   map[*configFill]struct{}
	stats   ConfigCacheStats // but for those above

	// running holds the read under way for a key, next the forced one that
	// begins when it has ended.
	running, next singleflight.Group
}

// maxRefreshPause bounds how long a failed refresh is left alone.
const maxRefreshPause = time.Second

func newConfigCache(size int, ttl time.Duration, now func() time.Time) *configCache {
	entries, err := cache.NewRecent[configKey, *configEntry](size)
	if err != nil { // a size below 1, which NewRepository refuses
		panic(err)
	}
	return &configCache{ttl: ttl, now: now, away: func() error { return nil }, entries: entries, fills: map[*configFill]struct{}{}}
}

// fresh returns the entry if it needs no read; else nil, and nothing is counted.
func (c *configCache) fresh(key configKey) *resolvedConfig {
	e, ok := c.entries.Get(key)
	if !ok || !c.young(c.now(), e, c.ttl) {
		return nil
	}
	c.hits.Add(1)
	if e.cfg.level == "" {
		c.negativeHits.Add(1)
	}
	return e.cfg
}

// young says whether the entry was read within d; a clock set back makes it old.
func (c *configCache) young(now time.Time, e *configEntry, d time.Duration) bool {
	age := now.Sub(e.read)
	return age >= 0 && age < d
}

// get returns the configuration of key, reading it with load when there is no
// fresh one. Past the TTL one caller reads it again and the others use the
// stale one, for at most another TTL. A caller whose ctx ends leaves a shared
// read running for the others: load is given a context that does not end with
// the caller's, and bounds itself.
func (c *configCache) get(ctx context.Context, key configKey, load configLoad) (*resolvedConfig, error) {
	if cfg := c.fresh(key); cfg != nil {
		return cfg, nil
	}
	if err := c.away(); err != nil {
		return c.outlast(key, err)
	}
	stale, refresh := c.stale(key)
	if !refresh {
		return stale, nil
	}
	executed := false
	shared := context.WithoutCancel(ctx)
	cfg, err := await(ctx, c.running.DoChan(key.name(), func() (any, error) {
		executed = true
		return c.fill(shared, key, load)
	}))
	if ctx.Err() != nil {
		return nil, ctx.Err() // the read may be under way still: executed is not ours to look at
	}
	if !executed {
		c.count(func(s *ConfigCacheStats) { s.Coalesced++ })
	}
	if err != nil && stale != nil && !isValidation(err) {
		return stale, nil
	}
	if err != nil && c.away() != nil {
		return c.outlast(key, err)
	}
	return cfg, err
}

// outlast returns the entry that is used while the table does not answer, else
// the error.
func (c *configCache) outlast(key configKey, err error) (*resolvedConfig, error) {
	e, ok := c.entries.Get(key)
	if !ok || !c.young(c.now(), e, c.ttl+c.maxStale) {
		c.misses.Add(1)
		return nil, err
	}
	c.staleHits.Add(1)
	return e.cfg, nil
}

// stale returns the entry past its TTL, if there is one young enough, and
// whether this caller has to read it.
func (c *configCache) stale(key configKey) (stale *resolvedConfig, refresh bool) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.Get(key)
	if !ok || !c.young(now, e, 2*c.ttl) {
		c.misses.Add(1)
		return nil, true
	}
	if e.refreshing || now.Before(e.retry) {
		c.staleHits.Add(1)
		return e.cfg, false
	}
	e.refreshing = true
	c.misses.Add(1)
	return e.cfg, true
}

// reload reads the configuration again, whatever is cached, and stores it. The
// read begins after the call; callers that are waiting for one to begin share it.
func (c *configCache) reload(ctx context.Context, key configKey, load configLoad) (*resolvedConfig, error) {
	name, shared := key.name(), context.WithoutCancel(ctx)
	return await(ctx, c.next.DoChan(name, func() (any, error) {
		for {
			ours := false
			cfg, err, _ := c.running.Do(name, func() (any, error) {
				ours = true
				c.next.Forget(name) // who asks from now on came after this read began
				return c.fill(shared, key, load)
			})
			if ours {
				return cfg, err
			}
		}
	}))
}

// await returns the outcome of a shared read, or ctx's error once it has ended.
func await(ctx context.Context, outcome <-chan singleflight.Result) (*resolvedConfig, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-outcome:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*resolvedConfig), nil
	}
}

// fill reads the configuration and stores it, unless it was evicted meanwhile.
func (c *configCache) fill(ctx context.Context, key configKey, load configLoad) (*resolvedConfig, error) {
	f := &configFill{key: key, began: c.now()}
	c.mu.Lock()
	c.fills[f] = struct{}{}
	c.stats.Loads++
	c.mu.Unlock()

	cfg, err := load(ctx)

	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fills, f)
	e, held := c.entries.Peek(key)
	switch {
	case f.dropped:
	case err == nil:
		if c.entries.Add(key, &configEntry{cfg: cfg, read: f.began}) {
			c.stats.Evictions++
		}
	case held && isValidation(err):
		c.entries.Remove(key) // the store answered: what it holds cannot be used
	case held:
		e.refreshing = false
		e.retry = c.now().Add(min(c.ttl/16, maxRefreshPause))
	}
	return cfg, err
}

// evict forgets the entries whose key matches, and the reads of them under way.
func (c *configCache) evict(match func(configKey) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.fills {
		if match(f.key) {
			f.dropped = true
			c.running.Forget(f.key.name())
		}
	}
	for _, key := range c.entries.Keys() {
		if match(key) && c.entries.Remove(key) {
			c.stats.Evictions++
		}
	}
}

// drop is evict of one key, without looking at the others.
func (c *configCache) drop(key configKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.fills {
		if f.key == key {
			f.dropped = true
			c.running.Forget(f.key.name())
		}
	}
	if c.entries.Remove(key) {
		c.stats.Evictions++
	}
}

func (c *configCache) count(add func(*ConfigCacheStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.stats)
}

func (c *configCache) snapshot() ConfigCacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Hits, s.NegativeHits, s.StaleHits, s.Misses = c.hits.Load(), c.negativeHits.Load(), c.staleHits.Load(), c.misses.Load()
	s.Size = c.entries.Len()
	return s
}

func isValidation(err error) bool {
	var v *ValidationError
	return errors.As(err, &v)
}
