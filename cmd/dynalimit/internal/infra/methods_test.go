package infra

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
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
	"GetNamespace": func(ctx context.Context, r *dynalimit.Repository) error { return only(r.GetNamespace(ctx, "eu")) },
	"AuditEvents": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(all(r.AuditEvents(ctx, dynalimit.AuditQuery{})),
			all(r.AuditEvents(ctx, dynalimit.AuditQuery{Principal: operator, From: time.Now().Add(-time.Hour)})),
			all(r.AuditEvents(ctx, dynalimit.AuditQuery{Target: entity})))
	},
	"Buckets":            func(ctx context.Context, r *dynalimit.Repository) error { return all(r.Buckets(ctx, entity)) },
	"Children":           func(ctx context.Context, r *dynalimit.Repository) error { return all(r.Children(ctx, parent)) },
	"Entities":           func(ctx context.Context, r *dynalimit.Repository) error { return all(r.Entities(ctx)) },
	"EntitiesWithLimits": func(ctx context.Context, r *dynalimit.Repository) error { return all(r.EntitiesWithLimits(ctx, "")) },
	"GetConfig": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(r.GetConfig(ctx, dynalimit.Scope{Entity: entity}))
	},
	"GetConfigs": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(r.GetConfigs(ctx, []dynalimit.Scope{{Entity: entity}, {}}))
	},
	"GetEntities": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(r.GetEntities(ctx, []string{entity, parent}))
	},
	"GetEntity": func(ctx context.Context, r *dynalimit.Repository) error { return only(r.GetEntity(ctx, entity)) },
	"Plans":     func(ctx context.Context, r *dynalimit.Repository) error { return all(r.Plans(ctx)) },
	"ResolveLimits": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(r.ResolveLimits(ctx, entity, model))
	},
	"ResourceCapacity": func(ctx context.Context, r *dynalimit.Repository) error {
		_, err := r.ResourceCapacity(ctx, model)
		return err
	},
	"ResourceBuckets": func(ctx context.Context, r *dynalimit.Repository) error { return all(r.ResourceBuckets(ctx, model)) },
	"Resources":       func(ctx context.Context, r *dynalimit.Repository) error { return all(r.Resources(ctx)) },
	"Scopes":          func(ctx context.Context, r *dynalimit.Repository) error { return all(r.Scopes(ctx)) },
}

// changing are the methods that change what a namespace holds. Each changes something, and
// leaves what the others need.
var changing = map[string]method{
	"Alone": func(ctx context.Context, r *dynalimit.Repository) error {
		return r.Alone(ctx, "manifest", nil, func(context.Context) error { return nil })
	},
	"CreateEntities": func(ctx context.Context, r *dynalimit.Repository) error {
		errs, err := r.CreateEntities(ctx, []dynalimit.EntitySetup{{Entity: dynalimit.Entity{ID: "new-1", ParentID: parent}}})
		return errors.Join(append(errs, err)...)
	},
	"CreateEntity": func(ctx context.Context, r *dynalimit.Repository) error {
		return r.CreateEntity(ctx, dynalimit.Entity{ID: "new-2", ParentID: parent})
	},
	"DeleteConfig": func(ctx context.Context, r *dynalimit.Repository) error {
		return r.DeleteConfig(ctx, dynalimit.Scope{Resource: "gone-1"}, dynalimit.AnyVersion)
	},
	"DeleteEntity": func(ctx context.Context, r *dynalimit.Repository) error { return r.DeleteEntity(ctx, "gone") },
	"DeleteEntityAsRead": func(ctx context.Context, r *dynalimit.Repository) error {
		read, err := r.GetEntity(ctx, "gone-3")
		if err != nil {
			return err
		}
		return r.DeleteEntityAsRead(ctx, read, nil)
	},
	"DeleteLimits": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(
			r.DeleteLimits(ctx, dynalimit.Scope{Entity: "gone-2"}), r.DeleteLimits(ctx, dynalimit.Scope{Plan: "gone", Resource: model}),
			r.DeleteLimits(ctx, dynalimit.Scope{Resource: "gone-2"}), r.DeleteLimits(ctx, dynalimit.Scope{}), r.SetLimits(ctx, dynalimit.Scope{}, limits))
	},
	"ResetBucket": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(r.ResetBucket(ctx, entity, model, nil))
	},
	"SetBlocked": func(ctx context.Context, r *dynalimit.Repository) error {
		return r.SetBlocked(ctx, dynalimit.Scope{Entity: "b"}, true)
	},
	"SetConfig": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(r.SetConfig(ctx, dynalimit.Scope{Entity: "c"}, dynalimit.LimitConfig{Limits: limits, OnUnavailable: dynalimit.Allow}))
	},
	"SetConfigs": func(ctx context.Context, r *dynalimit.Repository) error {
		errs, err := r.SetConfigs(ctx, []dynalimit.ScopedConfig{{Scope: dynalimit.Scope{Entity: "d"}, Config: dynalimit.LimitConfig{Limits: limits}}})
		return errors.Join(append(errs, err)...)
	},
	"SetLimits": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(
			r.SetLimits(ctx, dynalimit.Scope{Entity: "e"}, limits), r.SetLimits(ctx, dynalimit.Scope{Plan: "f"}, limits),
			r.SetLimits(ctx, dynalimit.Scope{Resource: "g"}, limits), r.SetLimits(ctx, dynalimit.Scope{}, fewer), r.SetLimits(ctx, dynalimit.Scope{}, limits))
	},
	"SetUnlimited": func(ctx context.Context, r *dynalimit.Repository) error {
		return r.SetUnlimited(ctx, dynalimit.Scope{Entity: "h"})
	},
	"TopUpBucket": func(ctx context.Context, r *dynalimit.Repository) error {
		return only(r.TopUpBucket(ctx, entity, model, dynalimit.Amounts{"rpm": 1}, nil))
	},
	"UpdateEntities": func(ctx context.Context, r *dynalimit.Repository) error {
		e, err := r.GetEntity(ctx, parent)
		if err != nil {
			return err
		}
		e.Name += "."
		errs, err := r.UpdateEntities(ctx, []dynalimit.Entity{e})
		return errors.Join(append(errs, err)...)
	},
	"UpdateEntity": func(ctx context.Context, r *dynalimit.Repository) error {
		e, err := r.GetEntity(ctx, entity)
		if err != nil {
			return err
		}
		e.Name += "."
		return only(r.UpdateEntity(ctx, e))
	},
}

// owning are the methods about the table as a whole, each with what it needs before it.
var owning = map[string]method{
	"CreateTable": func(ctx context.Context, r *dynalimit.Repository) error { return r.CreateTable(ctx) },
	"DeleteNamespace": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(r.RegisterNamespace(ctx, "d1"), r.DeleteNamespace(ctx, "d1"))
	},
	"Migrate": func(ctx context.Context, r *dynalimit.Repository) error { return only(r.Migrate(ctx, nil)) },
	"Namespaces": func(ctx context.Context, r *dynalimit.Repository) error {
		return all(r.Namespaces(ctx))
	},
	"PurgeNamespace": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(r.DeleteNamespace(ctx, "purged"), r.PurgeNamespace(ctx, "purged", nil))
	},
	"RecoverNamespace": func(ctx context.Context, r *dynalimit.Repository) error {
		return errors.Join(r.RegisterNamespace(ctx, "d2"), r.DeleteNamespace(ctx, "d2"), r.RecoverNamespace(ctx, "d2"))
	},
	"RegisterNamespace": func(ctx context.Context, r *dynalimit.Repository) error { return r.RegisterNamespace(ctx, "d3") },
}

// silent are the methods that ask DynamoDB nothing.
var silent = map[string]bool{"As": true, "ConfigCacheStats": true, "InvalidateConfig": true, "Table": true, "TableInput": true}

// TestEveryMethodHasARole: every method of a Repository is called in the tests of the roles.
func TestEveryMethodHasARole(t *testing.T) {
	for m := range reflect.TypeFor[*dynalimit.Repository]().Methods() {
		found := 0
		for _, methods := range []map[string]method{reading, changing, owning} {
			if methods[m.Name] != nil {
				found++
			}
		}
		if silent[m.Name] {
			found++
		}
		assert.Equal(t, 1, found, "%s: add it to reading, changing, owning or silent", m.Name)
	}
}

// furnish fills what a repository is bound to.
func furnish(t *testing.T, r *dynalimit.Repository) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, r.SetLimits(ctx, dynalimit.Scope{}, limits))
	for _, resource := range []string{model, "gone-1", "gone-2"} {
		require.NoError(t, r.SetLimits(ctx, dynalimit.Scope{Resource: resource}, limits))
	}
	require.NoError(t, r.SetLimits(ctx, dynalimit.Scope{Plan: "pro", Resource: model}, limits))
	require.NoError(t, r.SetLimits(ctx, dynalimit.Scope{Plan: "gone", Resource: model}, limits))
	require.NoError(t, r.CreateEntity(ctx, dynalimit.Entity{ID: parent, Plan: "pro"}))
	require.NoError(t, r.CreateEntity(ctx, dynalimit.Entity{ID: entity, ParentID: parent, Cascade: true}))
	require.NoError(t, r.SetLimits(ctx, dynalimit.Scope{Entity: entity}, limits))
	for _, id := range []string{"gone", "gone-2"} {
		require.NoError(t, r.CreateEntity(ctx, dynalimit.Entity{ID: id, ParentID: parent}))
		require.NoError(t, r.SetLimits(ctx, dynalimit.Scope{Entity: id}, limits))
	}
	require.NoError(t, r.CreateEntity(ctx, dynalimit.Entity{ID: "gone-3", ParentID: parent}))
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
