package manifest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Table is what is read of a table, and how it is changed: a *dynalimit.Repository.
type Table interface {
	Scopes(ctx context.Context) iter.Seq2[dynalimit.Scope, error]
	Entities(ctx context.Context) iter.Seq2[dynalimit.Entity, error]
	GetConfigs(ctx context.Context, scopes []dynalimit.Scope) ([]dynalimit.ScopedConfig, error)
	GetEntities(ctx context.Context, ids []string) ([]dynalimit.Entity, error)

	SetConfigs(ctx context.Context, changes []dynalimit.ScopedConfig) ([]error, error)
	CreateEntities(ctx context.Context, setups []dynalimit.EntitySetup) ([]error, error)
	UpdateEntities(ctx context.Context, entities []dynalimit.Entity) ([]error, error)
	DeleteEntityAsRead(ctx context.Context, e dynalimit.Entity, levels []dynalimit.ScopedConfig) error
}

var _ Table = (*dynalimit.Repository)(nil)

// Read reads what a table says, consistently for everything that is listed and everything
// that a manifest names; m may be nil. Lists are indexes, which lag behind a change by a
// moment: what is in neither of the two is missed until it is listed.
func Read(ctx context.Context, t Table, m *Manifest) (*Live, error) {
	scopes, ids, err := list(ctx, t)
	if err != nil {
		return nil, err
	}
	if m != nil {
		for at := range m.Configs {
			scopes[at] = true
		}
		for id := range m.Entities {
			ids[id] = true
		}
	}
	for at := range scopes {
		if at.Entity != "" {
			ids[at.Entity] = true // its record may be one that is not listed
		}
	}
	live := &Live{
		Configs: map[dynalimit.Scope]dynalimit.LimitConfig{}, Unreadable: map[dynalimit.Scope]string{}, Entities: map[string]dynalimit.Entity{},
	}
	if err := live.configs(ctx, t, slices.Collect(maps.Keys(scopes))); err != nil {
		return nil, err
	}
	maps.DeleteFunc(ids, func(id string, _ bool) bool { return schema.CheckEntity(id) != "" }) // of another tool: no call can name it
	return live, live.records(ctx, t, m, ids)
}

// records reads the records of entities, and those of their parents, which may be in no list.
func (l *Live) records(ctx context.Context, t Table, m *Manifest, ids map[string]bool) error {
	read := map[string]bool{}
	for len(ids) > 0 {
		entities, err := t.GetEntities(ctx, slices.Collect(maps.Keys(ids)))
		if err != nil {
			return err
		}
		maps.Copy(read, ids)
		ids = map[string]bool{}
		for _, e := range entities {
			if recorded(e) {
				l.Entities[e.ID] = e
			}
			parents := []string{e.ParentID}
			if m != nil {
				parents = append(parents, m.Entities[e.ID].Record.ParentID)
			}
			for _, id := range parents {
				if !read[id] && schema.CheckEntity(id) == "" {
					ids[id] = true
				}
			}
		}
	}
	return nil
}

// recorded reports whether an entity that was read has a record.
func recorded(e dynalimit.Entity) bool {
	return e.Version != 0 || !e.CreatedAt.IsZero() || e.Deleting || e.ManagedBy != "" || !saysNothing(e)
}

// list lists the levels and the entities at once.
func list(ctx context.Context, t Table) (scopes map[dynalimit.Scope]bool, ids map[string]bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scopes, ids = map[dynalimit.Scope]bool{}, map[string]bool{}
	var lists sync.WaitGroup
	var errs [2]error
	lists.Go(func() {
		for at, err := range t.Scopes(ctx) {
			if err != nil {
				errs[0] = err
				cancel()
				return
			}
			scopes[at] = true
		}
	})
	lists.Go(func() {
		for e, err := range t.Entities(ctx) {
			if err != nil {
				errs[1] = err
				cancel()
				return
			}
			ids[e.ID] = true
		}
	})
	lists.Wait()
	if errs[0] != nil && (errs[1] == nil || !errors.Is(errs[0], context.Canceled)) {
		return nil, nil, errs[0]
	}
	return scopes, ids, errs[1]
}

// configs reads levels. One that cannot be understood makes the whole request fail, so the
// levels are halved until it is alone.
func (l *Live) configs(ctx context.Context, t Table, scopes []dynalimit.Scope) error {
	if len(scopes) == 0 {
		return nil
	}
	configs, err := t.GetConfigs(ctx, scopes)
	var bad *dynalimit.ValidationError
	switch {
	case errors.As(err, &bad) && len(scopes) == 1:
		l.Unreadable[scopes[0]] = bad.Reason
		return nil
	case errors.As(err, &bad):
		half := len(scopes) / 2
		if err := l.configs(ctx, t, scopes[:half]); err != nil {
			return err
		}
		return l.configs(ctx, t, scopes[half:])
	case err != nil:
		return err
	}
	for _, c := range configs {
		if says(c.Config) {
			l.Configs[c.Scope] = c.Config
		}
	}
	return nil
}

// says reports whether a level that was read is stored.
func says(c dynalimit.LimitConfig) bool {
	return c.Version != 0 || c.ManagedBy != "" || len(c.Limits) > 0 || c.Unlimited || c.Blocked || c.OnUnavailable != ""
}
