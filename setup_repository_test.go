package dynalimit_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// repository is a table as limiters and as administrators see it.
type repository struct {
	*dynalimit.Repository
	client dynalimit.DynamoDB
	// table is its name, and store sends requests of what it holds at keys.
	table string
	store *table.Table
	keys  schema.Keys
}

// openRepository opens a table, which need not exist.
func openRepository(client dynalimit.DynamoDB, name string, opts *dynalimit.RepositoryOptions) (*repository, error) {
	client = testworld.ClientOf(client)
	r, err := dynalimit.NewRepository(client, name, opts)
	if err != nil {
		return nil, err
	}
	return openedBy(r, client), nil
}

func openedBy(r *dynalimit.Repository, client dynalimit.DynamoDB) *repository {
	shared := shared.Of(r)
	return &repository{Repository: r, client: client, table: r.Table(), store: shared.Table, keys: shared.Keys}
}

// As is the repository of another principal.
func (r *repository) As(principal string) *repository {
	return openedBy(r.Repository.As(principal), r.client)
}

func (r *repository) admin() *admin.Admin { return admin.New(r.Repository) }

func (r *repository) SetLimits(ctx context.Context, at admin.Scope, limits []dynalimit.Limit) error {
	return r.admin().Limits.Set(ctx, at, limits)
}

func (r *repository) DeleteLimits(ctx context.Context, at admin.Scope) error {
	return r.admin().Limits.Delete(ctx, at)
}

func (r *repository) GetConfig(ctx context.Context, at admin.Scope) (admin.LimitConfig, error) {
	return r.admin().Limits.GetConfig(ctx, at)
}

func (r *repository) SetConfig(ctx context.Context, at admin.Scope, c admin.LimitConfig) (admin.LimitConfig, error) {
	return r.admin().Limits.SetConfig(ctx, at, c)
}

func (r *repository) SetConfigs(ctx context.Context, changes []admin.ScopedConfig) ([]error, error) {
	return r.admin().Limits.SetConfigs(ctx, changes)
}

func (r *repository) SetBlocked(ctx context.Context, at admin.Scope, blocked bool) error {
	return r.admin().Limits.SetBlocked(ctx, at, blocked)
}

func (r *repository) CreateEntity(ctx context.Context, e admin.Entity) error {
	return r.admin().Entities.Create(ctx, e)
}

func (r *repository) UpdateEntity(ctx context.Context, e admin.Entity) (admin.Entity, error) {
	return r.admin().Entities.Update(ctx, e)
}

func (r *repository) GetEntity(ctx context.Context, id string) (admin.Entity, error) {
	return r.admin().Entities.Get(ctx, id)
}

func (r *repository) DeleteEntity(ctx context.Context, id string) error {
	return r.admin().Entities.Delete(ctx, id)
}

func (r *repository) ListBuckets(ctx context.Context, entity string) error {
	_, err := all(r.admin().Buckets.List(ctx, entity))
	return err
}

func (r *repository) ResetBucket(ctx context.Context, entity, resource string) error {
	_, err := r.admin().Buckets.Reset(ctx, entity, resource, "")
	return err
}

func (r *repository) EntitiesWithLimits(ctx context.Context, resource string) ([]string, error) {
	return all(r.admin().Limits.Entities(ctx, resource))
}

func (r *repository) Children(ctx context.Context, id string) ([]admin.Entity, error) {
	return all(r.admin().Entities.Children(ctx, id))
}

func (r *repository) Migrate(ctx context.Context) error {
	_, err := r.admin().Migrate(ctx, false, nil)
	return err
}

// sharedOf is the repository as package admin sees it.
func sharedOf(r *repository) shared.Repository { return shared.Of(r.Repository) }

// resolved is what limits an entity's calls on a resource.
type resolved struct {
	config.Found
	limits []dynalimit.Limit
}

// config is what calls have, and rereadConfig what the table has now.
func (r *repository) config(ctx context.Context, entity, resource string) (*resolved, error) {
	return r.readConfig(ctx, entity, resource, false)
}

func (r *repository) rereadConfig(ctx context.Context, entity, resource string) (*resolved, error) {
	return r.readConfig(ctx, entity, resource, true)
}

func (r *repository) readConfig(ctx context.Context, entity, resource string, anew bool) (*resolved, error) {
	found, limits, err := dynalimit.ReadConfig(ctx, r.Repository, config.Key{Entity: entity, Resource: resource}, anew)
	if err != nil {
		return nil, err
	}
	return &resolved{found, limits}, nil
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

const (
	milli = 1000
	// maxTokens is the most that a limit, or an amount, may be.
	maxTokens = 1_000_000_000_000
)

// rateLimiter is a limiter with what it was made of, and its lanes.
type rateLimiter struct {
	*dynalimit.RateLimiter
	repo  *repository
	own   []dynalimit.Limit
	mode  dynalimit.ChargeMode
	lanes *lane.Registry
}

func openLimiter(r *repository, opts *dynalimit.Options) (*rateLimiter, error) {
	l, err := dynalimit.New(r.Repository, opts)
	if err != nil {
		return nil, err
	}
	made := &rateLimiter{RateLimiter: l, repo: r, lanes: l.Desk().Lanes}
	if opts != nil {
		made.own, made.mode = opts.Limits, opts.ChargeMode
	}
	return made, nil
}

// configOf is what limits a bucket whose limits are a limiter's own.
func configOf(limits []dynalimit.Limit) *plan.Config {
	c := &plan.Config{}
	for _, l := range limits {
		c.Limits = append(c.Limits, schema.Limit{
			Name: l.Name, Capacity: l.Capacity * milli, Source: "options",
			Rate: bucket.Rate{Burst: l.Burst * milli, Amount: l.RefillAmount * milli, Period: l.RefillPeriod.Milliseconds()},
		})
	}
	return c
}

// requireRefused checks that a lane cannot write an op of limit x as it is.
func requireRefused(t *testing.T, err error) {
	t.Helper()
	var failure *lane.Failure
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, "x", failure.Limit)
}
