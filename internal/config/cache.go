package config

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Store is the table as a Cache reads it.
type Store interface {
	// ReadLevels reads items consistently, in one request. It asks for the owners if there may be
	// limits in an older layout, and reads theirs. What has to be read beside them is the store's
	// business.
	ReadLevels(ctx context.Context, keys []schema.Key, owners func() []schema.ConfigOwner) (map[schema.Key]schema.Item, error)
	// ReadPlan reads the items of a plan consistently, in one request.
	ReadPlan(ctx context.Context, keys []schema.Key) (map[schema.Key]schema.Item, error)
	// Away returns why the table does not answer; nil while it does.
	Away() error
}

// Clock tells the time.
type Clock interface {
	// Source is the clock by which configurations grow old.
	Source() time.Time
	// NowMS is DynamoDB's time, in Unix ms, as likely as it is known, and LatestMS the latest that it
	// may be: by it raises end.
	NowMS() int64
	LatestMS() int64
}

// Options are those of a Cache.
type Options struct {
	Store Store
	Clock Clock
	Keys  schema.Keys
	// Tick returns a number larger than every number it returned before.
	Tick func() int64
	// Size bounds how many configurations are kept. TTL is how long one is fresh, and MaxStale how
	// long past its TTL it is used while the table does not answer, and while reads bring no answer.
	Size          int
	TTL, MaxStale time.Duration
	// Log receives what an operator should know.
	Log *slog.Logger
	// Loaded hears of each read, with its error.
	Loaded func(key Key, took time.Duration, err error)
}

// Cache keeps resolved configurations. A configuration past its TTL is used for at most another TTL,
// while one caller reads it again or because that read failed. If its read brings no answer, it is
// used as long as Options.MaxStale says, whether the table is open or not: otherwise Allow would
// admit without any limit although the buckets answer.
//
// What is kept has the raises that were in force when it was read. What is returned has those that
// are in force now, but for held configurations, which say nothing once a raise has ended. A
// configuration is read again once a raise of it has ended by NowMS, which stamps readings: before
// that another reading would be from before the end, and could be brought to no bucket.
//
// It is safe for concurrent use.
type Cache struct {
	store   Store
	clock   Clock
	keys    schema.Keys
	own     bool // of this project's own counters, to which no level applies
	tick    func() int64
	log     *slog.Logger
	loaded  func(Key, time.Duration, error)
	loading *cache.Loading[Key, *Resolved]
	given   givenConfigs
	kinds   kinds

	// evicted is closed at the next eviction; nil if nobody waits for it.
	mu      sync.Mutex
	evicted chan struct{}
}

// Held is a configuration that was fresh when it was taken.
type Held = cache.Held[Key, *Resolved]

// New makes a cache. It panics for a Size below 1.
func New(o Options) *Cache {
	kept := cache.Options[*Resolved]{
		Now: o.Clock.Source, TTL: o.TTL, Grace: o.TTL, Away: o.Store.Away, MaxStale: o.MaxStale,
		Definite: isAnswer, Unanswered: isUnanswered,
		Negative: func(cfg *Resolved) bool { return cfg.Level == "" },
		Ended:    func(cfg *Resolved) bool { return cfg.seldom != nil && cfg.ended(o.Clock.NowMS) },
	}
	loading, err := cache.NewLoading[Key](o.Size, kept)
	if err != nil {
		panic(err)
	}
	return &Cache{store: o.Store, clock: o.Clock, keys: o.Keys, own: schema.IsOwn(o.Keys.Prefix()), tick: o.Tick, log: o.Log, loaded: o.Loaded, loading: loading, given: newGivenConfigs(o.Size, kept)}
}

// TTL is how long a configuration is fresh.
func (c *Cache) TTL() time.Duration { return c.loading.TTL }

// Fresh returns the configuration if it need not be read; nil otherwise.
func (c *Cache) Fresh(key GivenKey) *Resolved {
	var cfg *Resolved
	if key.Plan != "" {
		cfg = c.given.fresh(key)
	} else {
		cfg = c.loading.Fresh(key.Key)
	}
	if cfg != nil && cfg.seldom != nil {
		cfg = c.inForce(cfg)
	}
	return cfg
}

// Hold is Fresh for a caller that asks for it again and again: see Still.
func (c *Cache) Hold(key Key) (Held, bool) {
	held, ok := c.loading.Hold(key)
	return held, ok && (held.Value.seldom == nil || !held.Value.ended(c.clock.LatestMS))
}

// Still reports whether Fresh would return the held configuration, at now.
func (c *Cache) Still(held *Held, now time.Time) bool {
	return (held.Value.seldom == nil || !held.Value.ended(c.clock.LatestMS)) && c.loading.Still(held, now)
}

// Last returns the configuration as last read, however old; nil if it is not kept.
func (c *Cache) Last(key GivenKey) *Resolved {
	var cfg *Resolved
	if key.Plan != "" {
		cfg = c.given.resolved.Last(key)
	} else {
		cfg = c.loading.Last(key.Key)
	}
	if cfg != nil && cfg.seldom != nil {
		cfg = c.inForce(cfg)
	}
	return cfg
}

// ReadSince is when the oldest read of a configuration that is under way began.
func (c *Cache) ReadSince(key GivenKey) time.Time {
	if key.Plan != "" {
		return c.given.resolved.ReadSince(key)
	}
	return c.loading.ReadSince(key.Key)
}

// Stats counts what the cache did.
func (c *Cache) Stats() cache.Stats {
	s, given := c.loading.Stats(), c.given.resolved.Stats()
	return cache.Stats{
		Hits: s.Hits + given.Hits, NegativeHits: s.NegativeHits + given.NegativeHits, StaleHits: s.StaleHits + given.StaleHits,
		Misses: s.Misses + given.Misses, Coalesced: s.Coalesced + given.Coalesced, Loads: s.Loads + given.Loads,
		Evictions: s.Evictions + given.Evictions, Size: s.Size + given.Size,
	}
}
