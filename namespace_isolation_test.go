package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// shown is what a list shows.
func shown[T any](seq iter.Seq2[T, error]) (any, error) { return collect(seq) }

// errorsOf are the errors of many changes as one.
func errorsOf(errs []error, err error) (any, error) { return nil, errors.Join(append(errs, err)...) }

// resourceOf is a resource of a furnished table.
const resourceOf = "key/key"

var five = []Limit{PerMinute("rpm", 5)}

// showing are the methods of a Repository that show what a namespace holds.
var showing = map[string]func(ctx context.Context, r *Repository) (any, error){
	"AuditEvents":        func(ctx context.Context, r *Repository) (any, error) { return shown(r.AuditEvents(ctx, AuditQuery{})) },
	"Buckets":            func(ctx context.Context, r *Repository) (any, error) { return shown(r.Buckets(ctx, "key")) },
	"Children":           func(ctx context.Context, r *Repository) (any, error) { return shown(r.Children(ctx, "key")) },
	"Entities":           func(ctx context.Context, r *Repository) (any, error) { return shown(r.Entities(ctx)) },
	"EntitiesWithLimits": func(ctx context.Context, r *Repository) (any, error) { return shown(r.EntitiesWithLimits(ctx, "")) },
	"GetConfig":          func(ctx context.Context, r *Repository) (any, error) { return r.GetConfig(ctx, Scope{Entity: "key"}) },
	"GetConfigs": func(ctx context.Context, r *Repository) (any, error) {
		return r.GetConfigs(ctx, []Scope{{Entity: "key"}, {Plan: "key"}, {}})
	},
	"GetEntities": func(ctx context.Context, r *Repository) (any, error) {
		return r.GetEntities(ctx, []string{"other", "key"})
	},
	"GetEntity": func(ctx context.Context, r *Repository) (any, error) { return r.GetEntity(ctx, "key") },
	"Plans":     func(ctx context.Context, r *Repository) (any, error) { return shown(r.Plans(ctx)) },
	"ResourceBuckets": func(ctx context.Context, r *Repository) (any, error) {
		return shown(r.ResourceBuckets(ctx, resourceOf))
	},
	"ResourceCapacity": func(ctx context.Context, r *Repository) (any, error) { return r.ResourceCapacity(ctx, resourceOf) },
	"ResolveLimits":    func(ctx context.Context, r *Repository) (any, error) { return r.ResolveLimits(ctx, "key", resourceOf) },
	"Resources":        func(ctx context.Context, r *Repository) (any, error) { return shown(r.Resources(ctx)) },
	"Scopes":           func(ctx context.Context, r *Repository) (any, error) { return shown(r.Scopes(ctx)) },
}

// changing are the methods of a Repository that change what a namespace holds. Each changes
// something in a furnished one.
var changing = map[string]func(ctx context.Context, r *Repository) (any, error){
	"Alone": func(ctx context.Context, r *Repository) (any, error) {
		return nil, r.Alone(ctx, "manifest", nil, func(context.Context) error { return nil })
	},
	"CreateEntities": func(ctx context.Context, r *Repository) (any, error) {
		return errorsOf(r.CreateEntities(ctx, []EntitySetup{{Entity: Entity{ID: "new-1"}}}))
	},
	"CreateEntity": func(ctx context.Context, r *Repository) (any, error) {
		return nil, r.CreateEntity(ctx, Entity{ID: "new-2"})
	},
	"DeleteConfig": func(ctx context.Context, r *Repository) (any, error) {
		return nil, r.DeleteConfig(ctx, Scope{Resource: resourceOf}, AnyVersion)
	},
	"DeleteEntity": func(ctx context.Context, r *Repository) (any, error) { return nil, r.DeleteEntity(ctx, "other") },
	"DeleteEntityAsRead": func(ctx context.Context, r *Repository) (any, error) {
		es, err := r.GetEntities(ctx, []string{"other"})
		if err != nil {
			return nil, err
		}
		levels, err := r.GetConfigs(ctx, []Scope{{Entity: "other"}})
		return nil, errors.Join(err, r.DeleteEntityAsRead(ctx, es[0], levels))
	},
	"DeleteLimits": func(ctx context.Context, r *Repository) (any, error) {
		return nil, r.DeleteLimits(ctx, Scope{Entity: "key"})
	},
	"ResetBucket": func(ctx context.Context, r *Repository) (any, error) {
		return r.ResetBucket(ctx, "key", resourceOf, nil)
	},
	"SetBlocked": func(ctx context.Context, r *Repository) (any, error) {
		return nil, r.SetBlocked(ctx, Scope{Entity: "b"}, true)
	},
	"SetConfig": func(ctx context.Context, r *Repository) (any, error) {
		return r.SetConfig(ctx, Scope{Entity: "c"}, LimitConfig{Limits: five})
	},
	"SetConfigs": func(ctx context.Context, r *Repository) (any, error) {
		return errorsOf(r.SetConfigs(ctx, []ScopedConfig{{Scope: Scope{Entity: "d"}, Config: LimitConfig{Limits: five}}}))
	},
	"SetLimits": func(ctx context.Context, r *Repository) (any, error) {
		return nil, r.SetLimits(ctx, Scope{Entity: "e"}, five)
	},
	"SetUnlimited": func(ctx context.Context, r *Repository) (any, error) {
		return nil, r.SetUnlimited(ctx, Scope{Entity: "h"})
	},
	"TopUpBucket": func(ctx context.Context, r *Repository) (any, error) {
		return r.TopUpBucket(ctx, "key", resourceOf, Amounts{"rpm": 1}, nil)
	},
	"UpdateEntities": func(ctx context.Context, r *Repository) (any, error) {
		e, err := r.GetEntity(ctx, "key")
		if err != nil {
			return nil, err
		}
		e.Plan = "pro"
		return errorsOf(r.UpdateEntities(ctx, []Entity{e}))
	},
	"UpdateEntity": func(ctx context.Context, r *Repository) (any, error) {
		e, err := r.GetEntity(ctx, "key")
		if err != nil {
			return nil, err
		}
		e.Name = "renamed"
		return r.UpdateEntity(ctx, e)
	},
}

// apart are the methods that are about no namespace: about the table, the process, or the
// namespaces as such.
var apart = []string{
	"As", "ConfigCacheStats", "CreateTable", "DeleteNamespace", "GetNamespace", "InvalidateConfig", "Migrate", "Namespaces", "PurgeNamespace", "RecoverNamespace",
	"RegisterNamespace", "Table", "TableInput",
}

// tenants are two furnished namespaces, and what is without one, of a new table. All have
// entities, plans and resources of the same names.
func tenants(t *testing.T) (e *engine, whole, eu, us *Repository) {
	t.Helper()
	e = memEngine(t)
	whole = e.repository(t, nil)
	eu, us = e.namespaced(t, whole.table, "eu", nil), e.namespaced(t, whole.table, "us", nil)
	for _, r := range []*Repository{whole, eu, us} {
		furnish(t.Context(), t, r, []string{"key", "other"})
	}
	return e, whole, eu, us
}

// A namespace is not shown anything of another one, nor of what has none.
func TestNamespacesShowNothingOfOthers(t *testing.T) {
	e := memEngine(t)
	whole := e.repository(t, nil)
	eu, empty := e.namespaced(t, whole.table, "eu", nil), e.namespaced(t, whole.table, "us", nil)
	seen := func(r *Repository, method string) string {
		shown, err := showing[method](t.Context(), r)
		if !errors.Is(err, ErrNotFound) {
			require.NoError(t, err, method)
		}
		return fmt.Sprintf("%+v", shown)
	}
	nothing := map[string]string{}
	for method := range showing {
		nothing[method] = seen(empty, method)
	}
	furnish(t.Context(), t, whole, []string{"key", "other"})
	furnish(t.Context(), t, eu, []string{"key", "other"})
	for method := range showing {
		assert.Equal(t, nothing[method], seen(empty, method), method)
		assert.NotEqual(t, nothing[method], seen(eu, method), "%s shows what is there", method)
	}
}

// A change in a namespace changes nothing in another one, nor in what has none.
func TestChangesStayInTheirNamespace(t *testing.T) {
	for method, change := range changing {
		t.Run(method, func(t *testing.T) {
			_, whole, eu, _ := tenants(t)
			before := dump(t, whole)
			_, err := change(t.Context(), eu)
			require.NoError(t, err)
			after, changed := dump(t, whole), 0
			for _, key := range keysOf(before, after) {
				if !reflect.DeepEqual(before[key], after[key]) {
					changed++
					assert.True(t, strings.HasPrefix(key.PK, "eu/"), "%v", key)
					for _, index := range []string{schema.GSI1PK, schema.GSI2PK, schema.GSI3PK} {
						if at := schema.Text(after[key], index); at != "" {
							assert.True(t, strings.HasPrefix(at, "eu/"), "%v: %s", key, at)
						}
					}
				}
			}
			assert.Positive(t, changed)
		})
	}
}

func keysOf(before, after map[schema.Key]schema.Item) []schema.Key {
	var keys []schema.Key
	for key := range before {
		keys = append(keys, key)
	}
	for key := range after {
		if before[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// No change lands in a deleted namespace. It is checked in the transaction of the change,
// for what was checked before may be over by then; so it is not tried again.
func TestNoChangeLandsInADeletedNamespace(t *testing.T) {
	e, whole, eu, _ := tenants(t)
	require.NoError(t, whole.DeleteNamespace(t.Context(), "eu"))
	before := dump(t, whole)
	for method, change := range changing {
		began := e.db.Meter()
		_, err := change(t.Context(), eu)
		require.ErrorIs(t, err, ErrNamespaceDeleted, method)
		assert.LessOrEqual(t, e.db.Meter().Sub(began).Operations["TransactWriteItems"].Requests, int64(1), method)
	}
	assert.Equal(t, before, dump(t, whole))
	require.NoError(t, whole.RecoverNamespace(t.Context(), "eu"))
	for method, change := range changing {
		_, err := change(t.Context(), eu)
		require.NoError(t, err, method)
	}
}

// Every method of a Repository is in the tests above.
func TestMethodsThatNamespacesAreTestedWith(t *testing.T) {
	for m := range reflect.TypeFor[*Repository]().Methods() {
		_, read := showing[m.Name]
		_, changed := changing[m.Name]
		found := 0
		for _, in := range []bool{read, changed, strings.Contains(" "+strings.Join(apart, " ")+" ", " "+m.Name+" ")} {
			if in {
				found++
			}
		}
		assert.Equal(t, 1, found, "%s: add it to showing, changing or apart", m.Name)
	}
}
