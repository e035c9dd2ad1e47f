package dynalimit

import (
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/internal/table"
)

// configStore reads the table for the cache of configurations.
type configStore struct {
	table     *table.Table
	keys      schema.Keys
	layout    *layout.Layout
	takeover  *store.Takeover
	namespace *namespaceState // nil without a namespace
	breaker   *ddb.Breaker
	tick      func() int64
}

// ReadLevels reads items, with the limits of the older layout, the namespace's record and, when it is
// due, the version record. It reads limits of the older layout first, because another process may
// convert them meanwhile. The first read of a repository does not know the layout and reads again.
func (s *configStore) ReadLevels(ctx context.Context, keys []schema.Key, owners func() []schema.ConfigOwner) (found map[schema.Key]schema.Item, err error) {
	first := s.layout.Due() || s.layout.CompositeOnly()
	if first {
		if found, err = s.readItems(ctx, keys); err != nil || s.layout.CompositeOnly() {
			return found, err
		}
	}
	older, looked, err := s.takeover.Limits(ctx, owners()...)
	if err == nil && (looked || !first) {
		found, err = s.readItems(ctx, keys)
	}
	if err != nil {
		return nil, err
	}
	return found, store.UnreadableError(older.Merge(found))
}

// readItems reads items, the record of the namespace and, where it is due, the version record.
func (s *configStore) readItems(ctx context.Context, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	version := schema.VersionKey()
	asked, due := slices.Clone(keys), s.layout.Due()
	if due {
		asked = append(asked, version)
	}
	namespace, bound := s.keys.Namespace()
	if bound {
		asked = append(asked, namespace)
	}
	began, tick := s.layout.Now(), s.tick()
	found, err := s.table.BatchGet(ctx, readConfig, asked)
	if err != nil {
		return nil, err
	}
	if bound {
		s.namespace.note(&namespaceSeen{at: began, tick: tick, inactive: shared.Inactive(s.keys.Name(), found[namespace])})
	}
	if due {
		err = s.layout.Note(ctx, found[version])
	}
	return found, err
}

// ReadPlan reads the items of a plan.
func (s *configStore) ReadPlan(ctx context.Context, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	return s.table.BatchGet(ctx, "read the plan", keys)
}

// Away returns why the table does not answer; nil while it answers.
func (s *configStore) Away() error {
	state := s.breaker.State()
	if !state.Open {
		return nil
	}
	return &UnavailableError{Op: readConfig, Err: silentCause{state.Cause}, RetryAfter: s.breaker.RetryAfter()}
}
