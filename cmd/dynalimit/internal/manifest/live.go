package manifest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Table is what is read of a table, and how it is changed.
type Table struct {
	Limits interface {
		Scopes(ctx context.Context) iter.Seq2[admin.Scope, error]
		GetConfigs(ctx context.Context, scopes []admin.Scope) ([]admin.ScopedConfig, error)
		SetConfigs(ctx context.Context, changes []admin.ScopedConfig) ([]error, error)
		Losses(ctx context.Context, changes []admin.ScopedConfig, entities []admin.Entity) ([]admin.Loss, error)
	}
	Entities interface {
		List(ctx context.Context) iter.Seq2[admin.Entity, error]
		GetMany(ctx context.Context, ids []string) ([]admin.Entity, error)
		CreateMany(ctx context.Context, setups []admin.EntitySetup) ([]error, error)
		UpdateMany(ctx context.Context, entities []admin.Entity) ([]error, error)
		DeleteAsRead(ctx context.Context, e admin.Entity, levels []admin.ScopedConfig) error
	}
}

// Of is what an Admin administers.
func Of(a *admin.Admin) Table { return Table{a.Limits, a.Entities} }

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
		Configs: map[admin.Scope]admin.LimitConfig{}, Unreadable: map[admin.Scope]string{}, Entities: map[string]admin.Entity{},
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
		entities, err := t.Entities.GetMany(ctx, slices.Collect(maps.Keys(ids)))
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
func recorded(e admin.Entity) bool {
	return e.Version != 0 || !e.CreatedAt.IsZero() || e.Deleting || e.ManagedBy != "" || !saysNothing(e)
}

// list lists the levels and the entities at once.
func list(ctx context.Context, t Table) (scopes map[admin.Scope]bool, ids map[string]bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scopes, ids = map[admin.Scope]bool{}, map[string]bool{}
	var lists sync.WaitGroup
	var errs [2]error
	lists.Go(func() {
		for at, err := range t.Limits.Scopes(ctx) {
			if err != nil {
				errs[0] = err
				cancel()
				return
			}
			scopes[at] = true
		}
	})
	lists.Go(func() {
		for e, err := range t.Entities.List(ctx) {
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
func (l *Live) configs(ctx context.Context, t Table, scopes []admin.Scope) error {
	if len(scopes) == 0 {
		return nil
	}
	configs, err := t.Limits.GetConfigs(ctx, scopes)
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
func says(c admin.LimitConfig) bool {
	return c.Version != 0 || c.ManagedBy != "" || len(c.Limits)+len(c.Lifted) > 0 || c.Unlimited || blockOf(c) != noBlock || c.Admit || c.OnUnavailable != "" || len(c.Groups) > 0
}
