package dynalimit

import (
	"context"
	"encoding/json"
	"time"
)

// Package admin cannot be imported by the tests of this package, which it imports: they
// call it by these methods, which a test of the package dynalimit_test puts in place.

// Administration is what the tests of this package need of package admin.
type Administration interface {
	SetLimits(ctx context.Context, at Scope, limits []Limit) error
	DeleteLimits(ctx context.Context, at Scope) error
	GetConfig(ctx context.Context, at Scope) (LimitConfig, error)
	SetConfig(ctx context.Context, at Scope, c LimitConfig) (LimitConfig, error)
	SetConfigs(ctx context.Context, changes []ScopedConfig) ([]error, error)
	DeleteConfig(ctx context.Context, at Scope, version int64) error
	SetBlocked(ctx context.Context, at Scope, blocked bool) error
	SetUnlimited(ctx context.Context, at Scope) error
	EntitiesWithLimits(ctx context.Context, resource string) ([]string, error)
	CreateEntity(ctx context.Context, e Entity) error
	UpdateEntities(ctx context.Context, entities []Entity) ([]error, error)
	UpdateEntity(ctx context.Context, e Entity) (Entity, error)
	GetEntity(ctx context.Context, id string) (Entity, error)
	DeleteEntity(ctx context.Context, id string) error
	Children(ctx context.Context, id string) ([]Entity, error)
	ListBuckets(ctx context.Context, entity string) error
	ResetBucket(ctx context.Context, entity, resource string) error
	RefillBucket(ctx context.Context, entity, resource, id string, amounts Amounts) (estimated bool, err error)
	RegisterNamespace(ctx context.Context, name string) error
	DeleteNamespace(ctx context.Context, name string) error
	RecoverNamespace(ctx context.Context, name string) error
	Migrate(ctx context.Context) error
}

// Administer is package admin.
var Administer func(*Repository) Administration

// Scope, LimitConfig, ScopedConfig and Entity are those of package admin.
type (
	Scope struct {
		Everyone               bool
		Entity, Plan, Resource string
	}

	LimitConfig struct {
		Limits             []Limit
		Unlimited, Blocked bool
		OnUnavailable      UnavailablePolicy
		ManagedBy          string
		Version            int64
	}

	ScopedConfig struct {
		Scope  Scope
		Config LimitConfig
		Delete bool
	}

	Entity struct {
		ID, Name, ParentID string
		Cascade            bool
		Plan, ManagedBy    string
		Metadata           json.RawMessage
		CreatedAt          time.Time
		Version            int64
		Deleting           bool
	}
)

// AnyVersion makes a change whatever is stored.
const AnyVersion int64 = -1

func (r *Repository) SetLimits(ctx context.Context, at Scope, limits []Limit) error {
	return Administer(r).SetLimits(ctx, at, limits)
}

func (r *Repository) DeleteLimits(ctx context.Context, at Scope) error {
	return Administer(r).DeleteLimits(ctx, at)
}

func (r *Repository) GetConfig(ctx context.Context, at Scope) (LimitConfig, error) {
	return Administer(r).GetConfig(ctx, at)
}

func (r *Repository) SetConfig(ctx context.Context, at Scope, c LimitConfig) (LimitConfig, error) {
	return Administer(r).SetConfig(ctx, at, c)
}

func (r *Repository) SetConfigs(ctx context.Context, changes []ScopedConfig) ([]error, error) {
	return Administer(r).SetConfigs(ctx, changes)
}

func (r *Repository) DeleteConfig(ctx context.Context, at Scope, version int64) error {
	return Administer(r).DeleteConfig(ctx, at, version)
}

func (r *Repository) SetBlocked(ctx context.Context, at Scope, blocked bool) error {
	return Administer(r).SetBlocked(ctx, at, blocked)
}

func (r *Repository) SetUnlimited(ctx context.Context, at Scope) error {
	return Administer(r).SetUnlimited(ctx, at)
}

func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) ([]string, error) {
	return Administer(r).EntitiesWithLimits(ctx, resource)
}

func (r *Repository) CreateEntity(ctx context.Context, e Entity) error {
	return Administer(r).CreateEntity(ctx, e)
}

func (r *Repository) UpdateEntity(ctx context.Context, e Entity) (Entity, error) {
	return Administer(r).UpdateEntity(ctx, e)
}

func (r *Repository) GetEntity(ctx context.Context, id string) (Entity, error) {
	return Administer(r).GetEntity(ctx, id)
}

func (r *Repository) DeleteEntity(ctx context.Context, id string) error {
	return Administer(r).DeleteEntity(ctx, id)
}

func (r *Repository) Children(ctx context.Context, id string) ([]Entity, error) {
	return Administer(r).Children(ctx, id)
}

func (r *Repository) ListBuckets(ctx context.Context, entity string) error {
	return Administer(r).ListBuckets(ctx, entity)
}

func (r *Repository) ResetBucket(ctx context.Context, entity, resource string) error {
	return Administer(r).ResetBucket(ctx, entity, resource)
}

func (r *Repository) RegisterNamespace(ctx context.Context, name string) error {
	return Administer(r).RegisterNamespace(ctx, name)
}

func (r *Repository) DeleteNamespace(ctx context.Context, name string) error {
	return Administer(r).DeleteNamespace(ctx, name)
}

func (r *Repository) RecoverNamespace(ctx context.Context, name string) error {
	return Administer(r).RecoverNamespace(ctx, name)
}

func (r *Repository) Migrate(ctx context.Context) error { return Administer(r).Migrate(ctx) }
