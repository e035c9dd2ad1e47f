package config

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Store is the part of the table that a Cache reads.
type Store interface {
	// ReadSources reads items consistently, in one request. It calls owners, and reads their limits, if there
	// may be limits in an older layout. The store decides whether to read other items with them.
	ReadSources(ctx context.Context, keys []schema.Key, owners func() []schema.ConfigOwner) (map[schema.Key]schema.Item, error)
	// ReadPlan reads the items of a plan consistently, in one request.
	ReadPlan(ctx context.Context, keys []schema.Key) (map[schema.Key]schema.Item, error)
	// Away returns why the table does not answer; nil while it does.
	Away() error
}

// Clock tells the time of DynamoDB's clock.
type Clock interface {
	// NowMS returns the most likely time of DynamoDB's clock, in Unix ms, and LatestMS the latest possible
	// one. Raises end by LatestMS.
	NowMS() int64
	LatestMS() int64
	// Tick returns a number larger than every number it returned before.
	Tick() int64
}

// Options are the options of a Cache.
type Options struct {
	Store Store
	// Now is the clock by which configurations age.
	Now   func() time.Time
	Clock Clock
	Keys  schema.Keys
	// Size bounds the number of configurations. TTL is the time for which one is fresh. MaxStale is the time
	// past its TTL for which it is used during an outage, and while reads get no answer.
	Size          int
	TTL, MaxStale time.Duration
	// Log receives messages for operators.
	Log *slog.Logger
	// Loaded is called after each read, with its error.
	Loaded func(key Key, took time.Duration, err error)
}

// Cache caches resolved configurations. A configuration past its TTL is used for at most another TTL, while
// one caller reads it again or because that read failed. If its read gets no answer, it is used until
// Options.MaxStale, even if the breaker of the table is closed. Otherwise Allow would admit calls without any
// limit although the buckets answer.
//
// The cached configurations have the raises in force at their read. The returned ones have only the raises
// that are still in force. A held configuration is not used once a raise has ended. A configuration is read
// again once a raise of it has ended by NowMS, the clock that stamps readings. An earlier reading would have
// a stamp from before the end, and no bucket would accept it.
//
// It is safe for concurrent use.
type Cache struct {
	store   Store
	now     func() time.Time
	clock   Clock
	keys    schema.Keys
	own     bool // for this project's own counters, to which no source applies
	log     *slog.Logger
	loaded  func(Key, time.Duration, error)
	loading *cache.Loading[Key, *Resolved]
	given   givenConfigs
	kinds   kinds
	shared  sharedItems

	// evicted is closed at the next eviction. It is nil if no caller waits for one.
	mu      sync.Mutex
	evicted chan struct{}
}

// Held is a configuration that was fresh when it was taken.
type Held = cache.Held[Key, *Resolved]

// New returns an empty cache with the options. It panics for a Size below 1.
func New(o Options) *Cache {
	kept := cache.Options[*Resolved]{
		Now: o.Now, TTL: o.TTL, Grace: o.TTL, Away: o.Store.Away, MaxStale: o.MaxStale,
		Definite: isDefiniteError, Unanswered: isUnanswered,
		Describe: func(cfg *Resolved) cache.Traits {
			return cache.Traits{Negative: cfg.Source == "", MayEnd: cfg.seldom != nil, Elder: cfg.elder}
		},
		Ended: func(cfg *Resolved) bool { return cfg.hasRaiseEnded(o.Clock.NowMS) },
	}
	loading, err := cache.NewLoading[Key](o.Size, kept)
	if err != nil {
		panic(err)
	}
	return &Cache{store: o.Store, now: o.Now, clock: o.Clock, keys: o.Keys, own: schema.IsOwn(o.Keys.Prefix()), log: o.Log, loaded: o.Loaded, loading: loading, given: newGivenConfigs(o.Size, kept), shared: sharedItems{most: o.TTL / 4}}
}

// TTL returns the time for which a configuration is fresh.
func (c *Cache) TTL() time.Duration { return c.loading.TTL }

// Fresh returns the configuration for a call, and counts a hit, if it is cached and within its TTL. Else it
// returns nil, and the caller must Load it. Once a raise has ended, it returns the configuration that follows
// the raise.
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

// Hold returns the configuration that Fresh would return, for later checks by Still without a lookup. It counts
// nothing. It returns false if the configuration is not fresh, or a raise of it has ended; a configuration with
// a given plan cannot be held.
func (c *Cache) Hold(key Key) (Held, bool) {
	held, ok := c.loading.Hold(key)
	return held, ok && (held.Value.seldom == nil || !held.Value.hasRaiseEnded(c.clock.LatestMS))
}

// Still reports whether Fresh would return the held configuration at now, and counts a hit if so. It is false
// once a raise of it has ended.
func (c *Cache) Still(held *Held, now time.Time) bool {
	return (held.Value.seldom == nil || !held.Value.hasRaiseEnded(c.clock.LatestMS)) && c.loading.Still(held, now)
}

// RecentlyExpired returns a configuration past its TTL that may still be used while it is read again, and
// counts nothing. It is nil without one, and for a configuration with raises or with a plan that calls give.
func (c *Cache) RecentlyExpired(key GivenKey) *Resolved {
	if key.Plan != "" {
		return nil
	}
	if cfg := c.loading.RecentlyExpired(key.Key); cfg != nil && cfg.seldom == nil {
		return cfg
	}
	return nil
}

// Last returns the configuration of the last successful read, of any age and also an evicted one, for calls
// while the table does not answer. It leaves out raises that may have ended, and is nil without a cached one.
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

// ReadSince returns the start of the oldest read in flight of a configuration, for a call that joins it; the
// zero time without one. The call then knows for how long the read has waited.
func (c *Cache) ReadSince(key GivenKey) time.Time {
	if key.Plan != "" {
		return c.given.resolved.ReadSince(key)
	}
	return c.loading.ReadSince(key.Key)
}

// Stats returns the sums of the counts of both caches since they were made. One has the configurations with a
// plan that calls give, the other those without.
func (c *Cache) Stats() cache.Stats {
	s, given := c.loading.Stats(), c.given.resolved.Stats()
	return cache.Stats{
		Hits: s.Hits + given.Hits, NegativeHits: s.NegativeHits + given.NegativeHits, StaleHits: s.StaleHits + given.StaleHits,
		Misses: s.Misses + given.Misses, Coalesced: s.Coalesced + given.Coalesced, Loads: s.Loads + given.Loads,
		Evictions: s.Evictions + given.Evictions, Size: s.Size + given.Size,
	}
}

// Key identifies one resolved configuration: that of an entity on a resource or, with Group, on a group of
// resources.
type Key struct {
	Entity, Resource string
	Group            bool
}

// String returns the key as text, entity#resource, with a further # for a group. '#' is not allowed in
// identifiers.
func (k Key) String() string {
	if k.Group {
		return k.Entity + "#" + k.Resource + "#"
	}
	return k.Entity + "#" + k.Resource
}

// GivenKey identifies a configuration with the plan that a call gives, if any. The plan counts if the
// entity's record names none.
type GivenKey struct {
	Key
	Plan string
}

// String returns the key as text; '#' is not allowed in identifiers.
func (k GivenKey) String() string { return k.Key.String() + "#" + k.Plan }

// planItemsKey returns the key of the cached items of the plan that calls give. All entities share these items.
func (k GivenKey) planItemsKey() planKey { return planKey{k.Plan, k.Resource, k.Group} }

// planKey identifies the items of a plan for a resource or a group.
type planKey struct {
	plan, resource string
	group          bool
}

// String returns the key as text, plan#resource, with a further # for a group. '#' is not allowed in
// identifiers.
func (k planKey) String() string { return Key{k.plan, k.resource, k.group}.String() }
