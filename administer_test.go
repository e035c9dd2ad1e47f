package dynalimit_test

import (
	"context"
	"iter"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

func init() {
	dynalimit.Administer = func(r *dynalimit.Repository) dynalimit.Administration { return administration{admin.New(r)} }
}

// administration is package admin for tests of package dynalimit, which cannot import it.
type administration struct{ a *admin.Admin }

func (x administration) SetLimits(ctx context.Context, at dynalimit.Scope, limits []dynalimit.Limit) error {
	return x.a.Limits.Set(ctx, admin.Scope(at), limits)
}

func (x administration) DeleteLimits(ctx context.Context, at dynalimit.Scope) error {
	return x.a.Limits.Delete(ctx, admin.Scope(at))
}

func (x administration) GetConfig(ctx context.Context, at dynalimit.Scope) (dynalimit.LimitConfig, error) {
	c, err := x.a.Limits.GetConfig(ctx, admin.Scope(at))
	return dynalimit.LimitConfig(c), err
}

func (x administration) SetConfig(ctx context.Context, at dynalimit.Scope, c dynalimit.LimitConfig) (dynalimit.LimitConfig, error) {
	stored, err := x.a.Limits.SetConfig(ctx, admin.Scope(at), admin.LimitConfig(c))
	return dynalimit.LimitConfig(stored), err
}

func (x administration) SetConfigs(ctx context.Context, changes []dynalimit.ScopedConfig) ([]error, error) {
	all := make([]admin.ScopedConfig, len(changes))
	for i, c := range changes {
		all[i] = admin.ScopedConfig{Scope: admin.Scope(c.Scope), Config: admin.LimitConfig(c.Config), Delete: c.Delete}
	}
	return x.a.Limits.SetConfigs(ctx, all)
}

func (x administration) DeleteConfig(ctx context.Context, at dynalimit.Scope, version int64) error {
	return x.a.Limits.DeleteConfig(ctx, admin.Scope(at), version)
}

func (x administration) SetBlocked(ctx context.Context, at dynalimit.Scope, blocked bool) error {
	return x.a.Limits.SetBlocked(ctx, admin.Scope(at), blocked)
}

func (x administration) SetUnlimited(ctx context.Context, at dynalimit.Scope) error {
	return x.a.Limits.SetUnlimited(ctx, admin.Scope(at))
}

func (x administration) EntitiesWithLimits(ctx context.Context, resource string) ([]string, error) {
	return all(x.a.Limits.Entities(ctx, resource))
}

func (x administration) CreateEntity(ctx context.Context, e dynalimit.Entity) error {
	return x.a.Entities.Create(ctx, admin.Entity(e))
}

func (x administration) UpdateEntity(ctx context.Context, e dynalimit.Entity) (dynalimit.Entity, error) {
	stored, err := x.a.Entities.Update(ctx, admin.Entity(e))
	return dynalimit.Entity(stored), err
}

func (x administration) UpdateEntities(ctx context.Context, entities []dynalimit.Entity) ([]error, error) {
	records := make([]admin.Entity, len(entities))
	for i, e := range entities {
		records[i] = admin.Entity(e)
	}
	return x.a.Entities.UpdateMany(ctx, records)
}

func (x administration) GetEntity(ctx context.Context, id string) (dynalimit.Entity, error) {
	e, err := x.a.Entities.Get(ctx, id)
	return dynalimit.Entity(e), err
}

func (x administration) DeleteEntity(ctx context.Context, id string) error {
	return x.a.Entities.Delete(ctx, id)
}

func (x administration) Children(ctx context.Context, id string) ([]dynalimit.Entity, error) {
	found, err := all(x.a.Entities.Children(ctx, id))
	children := make([]dynalimit.Entity, len(found))
	for i, e := range found {
		children[i] = dynalimit.Entity(e)
	}
	return children, err
}

func (x administration) ListBuckets(ctx context.Context, entity string) error {
	_, err := all(x.a.Buckets.List(ctx, entity))
	return err
}

func (x administration) ResetBucket(ctx context.Context, entity, resource string) error {
	_, err := x.a.Buckets.Reset(ctx, entity, resource, nil)
	return err
}

func (x administration) RefillBucket(ctx context.Context, entity, resource, id string, amounts dynalimit.Amounts) (estimated bool, err error) {
	if amounts == nil {
		_, err := x.a.Buckets.Reset(ctx, entity, resource, &admin.ResetOptions{ID: id})
		return false, err
	}
	done, err := x.a.Buckets.TopUp(ctx, entity, resource, amounts, &admin.TopUpOptions{ID: id})
	if err != nil {
		return false, err
	}
	return done.Estimated, nil
}

func (x administration) RegisterNamespace(ctx context.Context, name string) error {
	return x.a.Namespaces.Register(ctx, name)
}

func (x administration) DeleteNamespace(ctx context.Context, name string) error {
	return x.a.Namespaces.Delete(ctx, name)
}

func (x administration) RecoverNamespace(ctx context.Context, name string) error {
	return x.a.Namespaces.Recover(ctx, name)
}

func (x administration) Migrate(ctx context.Context) error {
	_, err := x.a.Migrate(ctx, nil)
	return err
}

// all are the values of a list, up to its first error.
func all[T any](list iter.Seq2[T, error]) (values []T, err error) {
	for v, err := range list {
		if err != nil {
			return values, err
		}
		values = append(values, v)
	}
	return values, nil
}
