package admin_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// shown is what a list shows.
func shown[T any](seq iter.Seq2[T, error]) (any, error) { return collect(seq) }

// errorsOf are the errors of many changes as one.
func errorsOf(errs []error, err error) (any, error) { return nil, errors.Join(append(errs, err)...) }

// resourceOf is a resource of a furnished table.
const resourceOf = "key/key"

var five = []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}

// showing are the methods of a Repository that show what a namespace holds.
var showing = map[string]func(ctx context.Context, r *dynalimit.Repository) (any, error){
	"AuditEvents": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).AuditEvents(ctx, audit.Query{}))
	},
	"Buckets.List": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).Buckets.List(ctx, "key"))
	},
	"Entities.Children": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).Entities.Children(ctx, "key"))
	},
	"Limits.GetConfigsEventually": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Limits.GetConfigsEventually(ctx, []admin.Scope{{Entity: "key"}})
	},
	"Entities.ChildrenAfter": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Entities.ChildrenAfter(ctx, "key", "", 10)
	},
	"Entities.Tops": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Entities.Tops(ctx, "", 10)
	},
	"Entities.Search": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Entities.Search(ctx, "", "", 10)
	},
	"Entities.Owned": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Entities.Owned(ctx, "key")
	},
	"Buckets.GetMany": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Buckets.GetMany(ctx, []admin.BucketID{{EntityID: "key", Resource: resourceOf}})
	},
	"Entities.List": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).Entities.List(ctx))
	},
	"Entities.Unattached": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).Entities.Unattached(ctx))
	},
	"Limits.Entities": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).Limits.Entities(ctx, ""))
	},
	"Limits.GetConfig": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Limits.GetConfig(ctx, admin.Scope{Entity: "key"})
	},
	"Limits.GetConfigs": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Limits.GetConfigs(ctx, []admin.Scope{{Entity: "key"}, {Plan: "key"}, {Everyone: true}})
	},
	"Limits.Losses": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Limits.Losses(ctx, []admin.ScopedConfig{{Scope: admin.Scope{Entity: "key"}, Config: admin.LimitConfig{Limits: five}}}, nil)
	},
	"Entities.GetMany": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Entities.GetMany(ctx, []string{"other", "key"})
	},
	"Entities.Get": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Entities.Get(ctx, "key")
	},
	"Limits.Plans": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).Limits.Plans(ctx))
	},
	"Buckets.OfResource": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).Buckets.OfResource(ctx, resourceOf))
	},
	"Buckets.Capacity": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		sums, entities, err := admin.New(r).Buckets.Capacity(ctx, resourceOf)
		return []any{sums, entities}, err
	},
	"ResolveLimits": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return r.ResolveLimits(ctx, "key", resourceOf)
	},
	"Limits.Resources": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).Limits.Resources(ctx))
	},
	"Limits.Scopes": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return shown(admin.New(r).Limits.Scopes(ctx))
	},
}

// changing are the methods of a Repository that change what a namespace holds. Each changes
// something in a furnished one.
var changing = map[string]func(ctx context.Context, r *dynalimit.Repository) (any, error){
	"Alone": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Alone(ctx, "manifest", nil, func(context.Context) error { return nil })
	},
	"Entities.CreateMany": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return errorsOf(admin.New(r).Entities.CreateMany(ctx, []admin.EntitySetup{{Entity: admin.Entity{ID: "new-1"}}}))
	},
	"Entities.Create": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Entities.Create(ctx, admin.Entity{ID: "new-2"})
	},
	"Entities.Delete": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Entities.Delete(ctx, "other")
	},
	"Entities.DeleteAsRead": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		es, err := admin.New(r).Entities.GetMany(ctx, []string{"other"})
		if err != nil {
			return nil, err
		}
		sources, err := admin.New(r).Limits.GetConfigs(ctx, []admin.Scope{{Entity: "other"}})
		return nil, errors.Join(err, admin.New(r).Entities.DeleteAsRead(ctx, es[0], sources))
	},
	"Limits.Delete": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Limits.Delete(ctx, admin.Scope{Entity: "key"})
	},
	"Buckets.Reset": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Buckets.Reset(ctx, "key", resourceOf, "")
	},
	"Limits.SetAdmit": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Limits.SetAdmit(ctx, admin.Scope{Entity: "b"}, true)
	},
	"Limits.SetBlockedExcept": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Limits.SetBlockedExcept(ctx, admin.Scope{Entity: "b"})
	},
	"Limits.SetBlocked": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Limits.SetBlocked(ctx, admin.Scope{Entity: "b"}, true)
	},
	"Limits.SetConfig": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Limits.SetConfig(ctx, admin.Scope{Entity: "c"}, admin.LimitConfig{Limits: five, Only: true})
	},
	"Limits.SetConfigs": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return errorsOf(admin.New(r).Limits.SetConfigs(ctx, []admin.ScopedConfig{{Scope: admin.Scope{Entity: "d"}, Config: admin.LimitConfig{Limits: five, Only: true}}}))
	},
	"Limits.Set": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Limits.Set(ctx, admin.Scope{Entity: "e"}, append(slices.Clone(five), dynalimit.DailyQuota("usd", 5, "UTC")))
	},
	"Limits.Add": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Limits.Add(ctx, admin.Scope{Entity: "f"}, five)
	},
	"Limits.Lift": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Limits.Lift(ctx, admin.Scope{Entity: "g"}, []string{"rpm"})
	},
	"Limits.Remove": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		at := admin.Scope{Entity: "r"}
		return nil, errors.Join(admin.New(r).Limits.Add(ctx, at, five), admin.New(r).Limits.Remove(ctx, at, []string{"rpm"}))
	},
	"Limits.Raise": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		at := admin.Scope{Entity: "raised"}
		return nil, errors.Join(admin.New(r).Limits.Add(ctx, at, five), admin.New(r).Limits.Raise(ctx, at, "rpm", 10, time.Now().Add(time.Hour)))
	},
	"Limits.ReplaceRaise": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		at := admin.Scope{Entity: "raised-anew"}
		return nil, errors.Join(admin.New(r).Limits.Add(ctx, at, five), admin.New(r).Limits.ReplaceRaise(ctx, at, "rpm", 10, time.Now().Add(time.Hour)))
	},
	"Limits.Lower": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		at := admin.Scope{Entity: "lowered"}
		return nil, errors.Join(admin.New(r).Limits.Add(ctx, at, five), admin.New(r).Limits.Raise(ctx, at, "rpm", 10, time.Now().Add(time.Hour)), admin.New(r).Limits.Lower(ctx, at, "rpm"))
	},
	"Limits.SetUnlimited": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return nil, admin.New(r).Limits.SetUnlimited(ctx, admin.Scope{Entity: "h"})
	},
	"Buckets.TopUp": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Buckets.TopUp(ctx, "key", resourceOf, "", dynalimit.Amounts{"rpm": 1})
	},
	"Buckets.GrantWindow": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		return admin.New(r).Buckets.GrantWindow(ctx, "key", resourceOf, "", dynalimit.Amounts{"usd": 1})
	},
	"Entities.UpdateMany": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		e, err := admin.New(r).Entities.Get(ctx, "key")
		if err != nil {
			return nil, err
		}
		e.Plan = "pro"
		return errorsOf(admin.New(r).Entities.UpdateMany(ctx, []admin.Entity{e}))
	},
	"Entities.Update": func(ctx context.Context, r *dynalimit.Repository) (any, error) {
		e, err := admin.New(r).Entities.Get(ctx, "key")
		if err != nil {
			return nil, err
		}
		e.Name = "renamed"
		return admin.New(r).Entities.Update(ctx, e)
	},
}

// apart are the methods that are about no namespace: about the table, the process, or the
// namespaces as such.
var apart = []string{
	"As", "ConfigCacheStats", "CreateTable", "Entities.GetManyEventually", "Namespace", "WithReason", "InvalidateConfig", "Migrate", "Upgrade", "Shared", "Table", "TableInput",
	"Namespaces.Delete", "Namespaces.Get", "Namespaces.List", "Namespaces.Purge", "Namespaces.Register",
}

// tenants are two furnished namespaces, and what is without one, of a new table. All have
// entities, plans and resources of the same names.
func tenants(t *testing.T) (e *engine, whole, eu, us *dynalimit.Repository) {
	t.Helper()
	e = memEngine(t)
	whole = e.repository(t, nil)
	eu, us = e.namespaced(t, whole.Table(), "eu", nil), e.namespaced(t, whole.Table(), "us", nil)
	for _, r := range []*dynalimit.Repository{whole, eu, us} {
		furnish(t.Context(), t, r, []string{"key", "other"})
	}
	return e, whole, eu, us
}

// A namespace is not shown anything of another one, nor of what has none.
func TestNamespacesShowNothingOfOthers(t *testing.T) {
	e := memEngine(t)
	whole := e.repository(t, nil)
	eu, empty := e.namespaced(t, whole.Table(), "eu", nil), e.namespaced(t, whole.Table(), "us", nil)
	seen := func(r *dynalimit.Repository, method string) string {
		shown, err := showing[method](t.Context(), r)
		if !errors.Is(err, admin.ErrNotFound) {
			require.NoError(t, err, method)
		}
		return fmt.Sprintf("%+v", shown)
	}
	nothing := map[string]string{}
	for method := range showing {
		nothing[method] = seen(empty, method)
	}
	for _, r := range []*dynalimit.Repository{whole, eu} {
		furnish(t.Context(), t, r, []string{"key", "other"})
		older := schema.EntityRecord{ID: "older", ParentID: "key"}.Item(shared.Of(r).Keys, nil)
		delete(older, "parent_counts")
		_, err := e.client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: new(r.Table()), Item: older})
		require.NoError(t, err)
	}
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
	require.NoError(t, admin.New(whole).Namespaces.Delete(t.Context(), "eu"))
	before := dump(t, whole)
	for method, change := range changing {
		began := e.db.Meter()
		_, err := change(t.Context(), eu)
		require.ErrorIs(t, err, fault.ErrNamespaceDeleted, method)
		assert.LessOrEqual(t, e.db.Meter().Sub(began).Operations["TransactWriteItems"].Requests, int64(1), method)
	}
	assert.Equal(t, before, dump(t, whole))
}

// methodNames are those of a Repository, and of package admin with their parts.
func methodNames() []string {
	var names []string
	for prefix, of := range map[string]reflect.Type{
		"": reflect.TypeFor[*dynalimit.Repository](), "Admin.": reflect.TypeFor[*admin.Admin](), "Limits.": reflect.TypeFor[admin.Limits](),
		"Entities.": reflect.TypeFor[admin.Entities](), "Buckets.": reflect.TypeFor[admin.Buckets](), "Namespaces.": reflect.TypeFor[admin.Namespaces](),
	} {
		for m := range of.Methods() {
			names = append(names, strings.TrimPrefix(prefix, "Admin.")+m.Name)
		}
	}
	return names
}

// Every method of a Repository and of package admin is in the tests above.
func TestMethodsThatNamespacesAreTestedWith(t *testing.T) {
	for _, name := range methodNames() {
		_, read := showing[name]
		_, changed := changing[name]
		found := 0
		for _, in := range []bool{read, changed, strings.Contains(" "+strings.Join(apart, " ")+" ", " "+name+" ")} {
			if in {
				found++
			}
		}
		assert.Equal(t, 1, found, "%s: add it to showing, changing or apart", name)
	}
}
