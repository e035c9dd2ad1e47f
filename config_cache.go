package dynalimit

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/internal/table"
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

// Get returns the configuration of a key from the cache if it is fresh, else by a read, without a bound of its
// own. One past its TTL serves during another caller's read, or if the read fails. Its errors are those that
// users see.
func (c configCache) Get(ctx context.Context, key config.GivenKey) (config.Found, error) {
	if cfg := c.Fresh(key); cfg != nil {
		return config.Found{Resolved: cfg}, nil
	}
	found, err := c.Load(ctx, config.Ask{GivenKey: key}, time.Time{})
	if err != nil {
		err = configError(c.layout, err)
	}
	return found, err
}

// Reread returns the configuration of a key by a read that begins after the call, and stores it in the cache.
// Its errors are those that users see.
func (c configCache) Reread(ctx context.Context, key config.GivenKey) (*config.Resolved, error) {
	found, err := c.Cache.Reread(ctx, key)
	if err != nil {
		err = configError(c.layout, err)
	}
	return found, err
}

// Read returns the verdict of the sources of an entity on a resource, with the entity's record, by a consistent
// read. It neither uses nor changes the cache. Its errors are those that users see.
func (c configCache) Read(ctx context.Context, key config.Key) (config.Said, error) {
	said, err := c.Cache.Read(ctx, key)
	if err != nil {
		err = configError(c.layout, err)
	}
	return said, err
}

// configStore reads the table for the cache of configurations.
type configStore struct {
	table     *table.Table
	keys      schema.Keys
	layout    *layout.Layout
	takeover  *store.Takeover
	namespace *call.Namespace // nil without a namespace
	breaker   *ddb.Breaker
	tick      func() int64
}

// ReadSources returns the items of the keys by consistent reads, with the limits of owners in the older layout
// merged in. An absent item has no entry. It also reads and stores the state of the namespace and, when it is
// due, checks the version record. It reads the older limits first, because another process may convert them
// meanwhile.
func (s *configStore) ReadSources(ctx context.Context, keys []schema.Key, owners func() []schema.ConfigOwner) (found map[schema.Key]schema.Item, err error) {
	first := s.layout.IsDue() || s.layout.CompositeOnly()
	if first {
		if found, err = s.readItems(ctx, keys); err != nil || s.layout.CompositeOnly() {
			return found, err
		}
	}
	older, looked, err := s.takeover.ReadLimits(ctx, owners()...)
	if err == nil && (looked || !first) {
		found, err = s.readItems(ctx, keys)
	}
	if err != nil {
		return nil, err
	}
	return found, store.UnreadableError(older.MergeInto(found))
}

// readItems returns items by consistent reads, and reads with them the namespace's record and, when it is due,
// the version record. An absent item has no entry. It stores the state of the namespace, also of an inactive
// one, and fails for a version that this one cannot use.
func (s *configStore) readItems(ctx context.Context, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	version := schema.VersionKey()
	asked, due := slices.Clone(keys), s.layout.IsDue()
	if due {
		asked = append(asked, version)
	}
	namespace, bound := s.keys.Namespace()
	if bound {
		asked = append(asked, namespace)
	}
	began, tick := s.layout.Now(), s.tick()
	found, err := s.table.BatchGet(ctx, call.ReadConfig, asked)
	if err != nil {
		return nil, err
	}
	if bound {
		s.namespace.Record(&call.NamespaceSeen{At: began, Tick: tick, Inactive: shared.InactiveError(s.keys.Name(), found[namespace])})
	}
	if due {
		err = s.layout.NoteRecord(ctx, found[version])
	}
	return found, err
}

// ReadPlan returns the items of the keys of a plan, consistently read. An absent item has no entry.
func (s *configStore) ReadPlan(ctx context.Context, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	return s.table.BatchGet(ctx, "read the plan", keys)
}

// Away returns an *UnavailableError with the cause and the time until the next probe while the table's breaker
// is open, nil while it is closed. It sends nothing.
func (s *configStore) Away() error {
	state := s.breaker.State()
	if !state.Open {
		return nil
	}
	return &UnavailableError{Op: call.ReadConfig, Err: call.NewSilence(state.Cause), RetryAfter: s.breaker.RetryAfter()}
}
