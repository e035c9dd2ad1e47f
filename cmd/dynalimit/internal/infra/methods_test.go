package infra

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
)

// method calls a method of a Repository, in a furnished namespace.
type method func(ctx context.Context, r *dynalimit.Repository) error

func all[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func only[T any](_ T, err error) error { return err }

const (
	entity, parent, model, other = "key", "shop", "gpt-4", "gpt-5"
	operator                     = "ops@example.com"
)

var (
	rpm     = dynalimit.PerMinute("rpm", 100)
	tpm     = dynalimit.PerMinute("tpm", 10_000)
	limits  = []dynalimit.Limit{rpm, tpm}
	fewer   = []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}
	amounts = dynalimit.Amounts{"rpm": 1, "tpm": 10}
)

// reading are the methods that read.
var reading = map[string]method{
	"Namespaces.Get": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Namespaces.Get(ctx, "eu"))
	},
	"AuditEvents": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(all(admin.New(r).AuditEvents(ctx, audit.Query{})),
			all(admin.New(r).AuditEvents(ctx, audit.Query{Principal: operator, From: time.Now().Add(-time.Hour)})),
			all(admin.New(r).AuditEvents(ctx, audit.Query{Target: entity})))
	},
	"Buckets.List": func(ctx context.Context, r *dynalimit.Repository) error {
		return all(admin.New(r).Buckets.List(ctx, entity))
	},
	"Entities.Children": func(ctx context.Context, r *dynalimit.Repository) error {
		return all(admin.New(r).Entities.Children(ctx, parent))
	},
	"Limits.GetConfigsEventually": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Limits.GetConfigsEventually(ctx, []admin.Scope{{Entity: entity}, {Everyone: true}}))
	},
	"Entities.ChildrenAfter": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Entities.ChildrenAfter(ctx, parent, "", 10))
	},
	"Entities.Tops": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Entities.Tops(ctx, "", 10))
	},
	"Entities.Search": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Entities.Search(ctx, "", "", 10))
	},
	"Entities.Owned": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Entities.Owned(ctx, entity))
	},
	"Buckets.GetMany": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Buckets.GetMany(ctx, []admin.BucketID{{EntityID: entity, Resource: model}}))
	},
	"Entities.List": func(ctx context.Context, r *dynalimit.Repository) error { return all(admin.New(r).Entities.List(ctx)) },
	"Limits.Entities": func(ctx context.Context, r *dynalimit.Repository) error {
		return all(admin.New(r).Limits.Entities(ctx, ""))
	},
	"Entities.Unattached": func(ctx context.Context, r *dynalimit.Repository) error {
		return all(admin.New(r).Entities.Unattached(ctx))
	},
	"Limits.Losses": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Limits.Losses(ctx, []admin.ScopedConfig{{Scope: admin.Scope{Entity: entity}, Config: admin.LimitConfig{Limits: limits}}}, nil))
	},
	"Limits.GetConfig": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Limits.GetConfig(ctx, admin.Scope{Entity: entity}))
	},
	"Limits.GetConfigs": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Limits.GetConfigs(ctx, []admin.Scope{{Entity: entity}, {Everyone: true}}))
	},
	"Entities.GetManyEventually": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Entities.GetManyEventually(ctx, []string{entity, parent}))
	},
	"Entities.GetMany": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Entities.GetMany(ctx, []string{entity, parent}))
	},
	"Entities.Get": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Entities.Get(ctx, entity))
	},
	"Limits.Plans": func(ctx context.Context, r *dynalimit.Repository) error { return all(admin.New(r).Limits.Plans(ctx)) },
	"ResolveLimits": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(r.ResolveLimits(ctx, entity, model))
	},
	"Buckets.Capacity": func(ctx context.Context, r *dynalimit.Repository) error {
		_, _, err := admin.New(r).Buckets.Capacity(ctx, model)
		return err
	},
	"Buckets.OfResource": func(ctx context.Context, r *dynalimit.Repository) error {
		return all(admin.New(r).Buckets.OfResource(ctx, model))
	},
	"Limits.Resources": func(ctx context.Context, r *dynalimit.Repository) error {
		return all(admin.New(r).Limits.Resources(ctx))
	},
	"Limits.Scopes": func(ctx context.Context, r *dynalimit.Repository) error { return all(admin.New(r).Limits.Scopes(ctx)) },
}

// changing are the methods that change what a namespace holds. Each changes something, and
// leaves what the others need.
var changing = map[string]method{
	"Alone": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Alone(ctx, "manifest", nil, func(context.Context) error { return nil })
	},
	"Entities.CreateMany": func(ctx context.Context, r *dynalimit.Repository) error {
		errs, err := admin.New(r).Entities.CreateMany(ctx, []admin.EntitySetup{{Entity: admin.Entity{ID: "new-1", ParentID: parent}}})
		return errors.Join(append(errs, err)...)
	},
	"Entities.Create": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Entities.Create(ctx, admin.Entity{ID: "new-2", ParentID: parent})
	},
	"Entities.Delete": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Entities.Delete(ctx, "gone")
	},
	"Entities.DeleteAsRead": func(ctx context.Context, r *dynalimit.Repository) error {
		read, err := admin.New(r).Entities.Get(ctx, "gone-3")
		if err != nil {
			return err
		}
		return admin.New(r).Entities.DeleteAsRead(ctx, read, nil)
	},
	"Limits.Delete": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(
			admin.New(r).Limits.Delete(ctx, admin.Scope{Entity: "gone-2"}), admin.New(r).Limits.Delete(ctx, admin.Scope{Plan: "gone", Resource: model}),
			admin.New(r).Limits.Delete(ctx, admin.Scope{Everyone: true, Resource: "gone-2"}), admin.New(r).Limits.Delete(ctx, admin.Scope{Everyone: true}), admin.New(r).Limits.Set(ctx, admin.Scope{Everyone: true}, limits))
	},
	"Buckets.Reset": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Buckets.Reset(ctx, entity, model, ""))
	},
	"Limits.SetBlockedExcept": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Limits.SetBlockedExcept(ctx, admin.Scope{Entity: "b2"})
	},
	"Limits.SetAdmit": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Limits.SetAdmit(ctx, admin.Scope{Entity: "b3"}, true)
	},
	"Limits.SetBlocked": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Limits.SetBlocked(ctx, admin.Scope{Entity: "b"}, true)
	},
	"Limits.SetConfig": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Limits.SetConfig(ctx, admin.Scope{Entity: "c"}, admin.LimitConfig{Limits: limits, OnUnavailable: dynalimit.Allow}))
	},
	"Limits.SetConfigs": func(ctx context.Context, r *dynalimit.Repository) error {
		errs, err := admin.New(r).Limits.SetConfigs(ctx, []admin.ScopedConfig{{Scope: admin.Scope{Entity: "d"}, Config: admin.LimitConfig{Limits: limits}}})
		return errors.Join(append(errs, err)...)
	},
	"Limits.Set": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(
			admin.New(r).Limits.Set(ctx, admin.Scope{Entity: "e"}, limits), admin.New(r).Limits.Set(ctx, admin.Scope{Plan: "f"}, limits),
			admin.New(r).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "g"}, limits), admin.New(r).Limits.Set(ctx, admin.Scope{Everyone: true}, fewer), admin.New(r).Limits.Set(ctx, admin.Scope{Everyone: true}, limits))
	},
	"Limits.Add": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Limits.Add(ctx, admin.Scope{Entity: "i", Resource: model}, limits)
	},
	"Limits.Lift": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Limits.Lift(ctx, admin.Scope{Entity: "j", Resource: model}, []string{limits[0].Name})
	},
	"Limits.Remove": func(ctx context.Context, r *dynalimit.Repository) error {
		added := admin.New(r).Limits.Add(ctx, admin.Scope{Entity: "k", Resource: model}, limits)
		return errors.Join(added, admin.New(r).Limits.Remove(ctx, admin.Scope{Entity: "k", Resource: model}, []string{limits[0].Name}))
	},
	"Limits.Raise": func(ctx context.Context, r *dynalimit.Repository) error {
		at := admin.Scope{Entity: "l", Resource: model}
		added := admin.New(r).Limits.Add(ctx, at, limits)
		return errors.Join(added, admin.New(r).Limits.Raise(ctx, at, limits[0].Name, 2*limits[0].Capacity, time.Now().Add(time.Hour)))
	},
	"Limits.ReplaceRaise": func(ctx context.Context, r *dynalimit.Repository) error {
		at := admin.Scope{Entity: "m", Resource: model}
		added := admin.New(r).Limits.Add(ctx, at, limits)
		return errors.Join(added, admin.New(r).Limits.ReplaceRaise(ctx, at, limits[0].Name, 2*limits[0].Capacity, time.Now().Add(time.Hour)))
	},
	"Limits.Lower": func(ctx context.Context, r *dynalimit.Repository) error {
		at := admin.Scope{Entity: "n", Resource: model}
		added := admin.New(r).Limits.Add(ctx, at, limits)
		raised := admin.New(r).Limits.Raise(ctx, at, limits[0].Name, 2*limits[0].Capacity, time.Now().Add(time.Hour))
		return errors.Join(added, raised, admin.New(r).Limits.Lower(ctx, at, limits[0].Name))
	},
	"Limits.SetUnlimited": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Limits.SetUnlimited(ctx, admin.Scope{Entity: "h"})
	},
	"Buckets.TopUp": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Buckets.TopUp(ctx, entity, model, "", dynalimit.Amounts{"rpm": 1}))
	},
	"Buckets.GrantWindow": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Buckets.GrantWindow(ctx, entity, "of-no-calls", "", dynalimit.Amounts{"usd": 1}))
	},
	"Entities.UpdateMany": func(ctx context.Context, r *dynalimit.Repository) error {
		e, err := admin.New(r).Entities.Get(ctx, parent)
		if err != nil {
			return err
		}
		e.Name += "."
		errs, err := admin.New(r).Entities.UpdateMany(ctx, []admin.Entity{e})
		return errors.Join(append(errs, err)...)
	},
	"Entities.Update": func(ctx context.Context, r *dynalimit.Repository) error {
		e, err := admin.New(r).Entities.Get(ctx, entity)
		if err != nil {
			return err
		}
		e.Name += "."
		return only(admin.New(r).Entities.Update(ctx, e))
	},
}

// owning are the methods about the table as a whole, each with what it needs before it.
var owning = map[string]method{
	"CreateTable": func(ctx context.Context, r *dynalimit.Repository) error { return r.CreateTable(ctx) },
	"Namespaces.Delete": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(admin.New(r).Namespaces.Register(ctx, "d1"), admin.New(r).Namespaces.Delete(ctx, "d1"))
	},
	"Upgrade": func(ctx context.Context, r *dynalimit.Repository) error {
		_, _, err := admin.New(r).Upgrade(ctx, false)
		return err
	},
	"Migrate": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(admin.New(r).Migrate(ctx, false, nil))
	},
	"Namespaces.List": func(ctx context.Context, r *dynalimit.Repository) error {
		return all(admin.New(r).Namespaces.List(ctx))
	},
	"Namespaces.Purge": func(ctx context.Context, r *dynalimit.Repository) error {
		err := admin.New(r).Namespaces.Delete(ctx, "purged")
		elapse(11 * time.Minute)
		return errors.Join(err, admin.New(r).Namespaces.Purge(ctx, "purged", nil))
	},
	"Namespaces.Register": func(ctx context.Context, r *dynalimit.Repository) error {
		return admin.New(r).Namespaces.Register(ctx, "d3")
	},
}

// silent are the methods that ask DynamoDB nothing.
var silent = map[string]bool{"As": true, "Namespace": true, "WithReason": true, "ConfigCacheStats": true, "InvalidateConfig": true, "Shared": true, "Table": true, "TableInput": true}

// TestEveryMethodHasARole: every method of a Repository, and of package admin, is called in the tests of the roles.
func TestEveryMethodHasARole(t *testing.T) {
	for _, name := range methodNames() {
		found := 0
		for _, methods := range []map[string]method{reading, changing, owning} {
			if methods[name] != nil {
				found++
			}
		}
		if silent[name] {
			found++
		}
		assert.Equal(t, 1, found, "%s: add it to reading, changing, owning or silent", name)
	}
}

// furnish fills what a repository is bound to.
func furnish(t *testing.T, r *dynalimit.Repository) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Everyone: true}, limits))
	for _, resource := range []string{model, "gone-1", "gone-2"} {
		require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: resource}, limits))
	}
	require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Plan: "pro", Resource: model}, limits))
	require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Plan: "gone", Resource: model}, limits))
	require.NoError(t, admin.New(r).Entities.Create(ctx, admin.Entity{ID: parent, Plan: "pro"}))
	require.NoError(t, admin.New(r).Entities.Create(ctx, admin.Entity{ID: entity, ParentID: parent, Cascade: true}))
	require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Entity: entity}, limits))
	for _, id := range []string{"gone", "gone-2"} {
		require.NoError(t, admin.New(r).Entities.Create(ctx, admin.Entity{ID: id, ParentID: parent}))
		require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Entity: id}, limits))
	}
	require.NoError(t, admin.New(r).Entities.Create(ctx, admin.Entity{ID: "gone-3", ParentID: parent}))
	l, err := dynalimit.New(r, nil)
	require.NoError(t, err)
	for _, id := range []string{entity, "gone", "gone-3"} {
		require.NoError(t, only(l.Acquire(ctx, id, model, amounts)))
	}
	require.NoError(t, l.Close(ctx))
}

// describe asks what 'dynalimit table status' asks.
func describe(ctx context.Context, c *dynamodb.Client) error {
	_, err := c.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: new(tableName)})
	_, err2 := c.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: new(tableName)})
	return errors.Join(err, err2)
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
