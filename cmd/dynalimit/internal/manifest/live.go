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

// Table reads and changes a table.
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
		DeleteAsRead(ctx context.Context, e admin.Entity, sources []admin.ScopedConfig) error
	}
}

// Of returns a Table that reads and changes through the Admin a, for Read and Apply.
func Of(a *admin.Admin) Table { return Table{a.Limits, a.Entities} }

// Read returns the stored configurations and records: all listed items, and those that the manifest names, read
// consistently; m may be nil. The lists are indexes, which lag behind by a moment, so a new item that m does
// not name may be missing.
func Read(ctx context.Context, t Table, m *Manifest) (*Live, error) {
	scopes, ids, err := listAll(ctx, t)
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
			ids[at.Entity] = true // its record may not be listed
		}
	}
	live := &Live{
		Configs: map[admin.Scope]admin.LimitConfig{}, Unreadable: map[admin.Scope]string{}, Entities: map[string]admin.Entity{},
	}
	if err := live.readConfigs(ctx, t, slices.Collect(maps.Keys(scopes))); err != nil {
		return nil, err
	}
	maps.DeleteFunc(ids, func(id string, _ bool) bool { return schema.EntityRule.Check(id) != "" }) // another tool's: no call can name it
	return live, live.readRecords(ctx, t, m, ids)
}

// readRecords adds to l.Entities the records of ids, of all their parents, and of the parents that m gives to
// them; m may be nil. It adds nothing for an id without a record. It changes ids only by replacing the
// variable.
func (l *Live) readRecords(ctx context.Context, t Table, m *Manifest, ids map[string]bool) error {
	read := map[string]bool{}
	for len(ids) > 0 {
		entities, err := t.Entities.GetMany(ctx, slices.Collect(maps.Keys(ids)))
		if err != nil {
			return err
		}
		maps.Copy(read, ids)
		ids = map[string]bool{}
		for _, e := range entities {
			if hasRecord(e) {
				l.Entities[e.ID] = e
			}
			parents := []string{e.ParentID}
			if m != nil {
				parents = append(parents, m.Entities[e.ID].Record.ParentID)
			}
			for _, id := range parents {
				if !read[id] && schema.EntityRule.Check(id) == "" {
					ids[id] = true
				}
			}
		}
	}
	return nil
}

// hasRecord reports whether an entity as GetMany returned it has a record in the table. Without a record it has
// only its id.
func hasRecord(e admin.Entity) bool {
	return e.Version != 0 || !e.CreatedAt.IsZero() || e.Deleting || e.ManagedBy != "" || !isEmptyRecord(e)
}

// listAll returns the scopes of all listed configurations and the ids of all listed records, as sets. It reads
// both lists concurrently. The first error ends both.
func listAll(ctx context.Context, t Table) (scopes map[admin.Scope]bool, ids map[string]bool, err error) {
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

// readConfigs adds the stored configurations of scopes to l.Configs, and to l.Unreadable those that cannot be
// decoded. One of these fails the whole request, so it then halves the scopes until it has found them. Other
// errors end it.
func (l *Live) readConfigs(ctx context.Context, t Table, scopes []admin.Scope) error {
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
		if err := l.readConfigs(ctx, t, scopes[:half]); err != nil {
			return err
		}
		return l.readConfigs(ctx, t, scopes[half:])
	case err != nil:
		return err
	}
	for _, c := range configs {
		if isStored(c.Config) {
			l.Configs[c.Scope] = c.Config
		}
	}
	return nil
}

// isStored reports whether a configuration as GetConfigs returned it is in the table. A missing one is returned
// empty; a source with nothing but raises counts by its version.
func isStored(c admin.LimitConfig) bool {
	return c.Version != 0 || c.ManagedBy != "" || len(c.Limits)+len(c.Lifted) > 0 || c.Unlimited || blockOf(c) != noBlock || c.Admit || c.OnUnavailable != "" || len(c.Groups) > 0
}
