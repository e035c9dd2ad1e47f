package tests

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/observe"
)

// Every call without a context, or of what was never made, says so.
func TestMisuseIsSaid(t *testing.T) {
	s := memProcess(t, perMinute())
	l, r, lease := s.limiter, s.repo, s.acquire("u", dynalimit.Amounts{"rpm": 1})
	var none *dynalimit.Lease
	var zero dynalimit.RateLimiter
	ctx, a := t.Context(), dynalimit.Amounts{"rpm": 1}
	var nilCtx context.Context
	do := func(context.Context, *dynalimit.Lease) error { return nil }
	for field, calls := range map[string][]func() error{
		"ctx": {
			func() error { _, err := l.Acquire(nilCtx, "u", model, a); return err },
			func() error { _, err := l.Wait(nilCtx, "u", model, a); return err },
			func() error { _, err := l.Check(nilCtx, "u", model, a); return err },
			func() error { return l.Do(nilCtx, "u", model, a, do) },
			func() error { return l.Close(nilCtx) },
			func() error { return lease.Adjust(nilCtx, a) },
			func() error { return lease.Consume(nilCtx, a) },
			func() error { return lease.Settle(nilCtx, a) },
			func() error { return lease.Rollback(nilCtx) },
			func() error { return r.CreateTable(nilCtx) },
			func() error { return r.SetLimits(nilCtx, admin.Scope{Everyone: true}, []dynalimit.Limit{rpm}) },
			func() error { _, err := r.GetConfig(nilCtx, admin.Scope{Everyone: true}); return err },
			func() error { return r.DeleteLimits(nilCtx, admin.Scope{Everyone: true}) },
			func() error { _, err := r.EntitiesWithLimits(nilCtx, model); return err },
			func() error { return r.CreateEntity(nilCtx, admin.Entity{ID: "u"}) },
			func() error { _, err := r.GetEntity(nilCtx, "u"); return err },
			func() error { return r.DeleteEntity(nilCtx, "u") },
			func() error { _, err := r.Children(nilCtx, "u"); return err },
		},
		"limiter": {
			func() error { _, err := zero.Acquire(ctx, "u", model, a); return err },
			func() error { _, err := zero.Wait(ctx, "u", model, a); return err },
			func() error { _, err := zero.Check(ctx, "u", model, a); return err },
			func() error { return zero.Do(ctx, "u", model, a, do) },
			func() error { return zero.Close(ctx) },
			func() error { _, err := (*dynalimit.RateLimiter)(nil).Acquire(ctx, "u", model, a); return err },
		},
		"lease": {
			func() error { return none.Adjust(ctx, a) },
			func() error { return none.Consume(ctx, a) },
			func() error { return none.Settle(ctx, a) },
			func() error { return none.Rollback(ctx) },
			func() error { return new(dynalimit.Lease).Settle(ctx, a) },
		},
		"fn": {func() error { return l.Do(ctx, "u", model, a, nil) }},
		"repository": {
			func() error { return (*dynalimit.Repository)(nil).CreateTable(ctx) },
			func() error {
				return admin.New(new(dynalimit.Repository)).Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{rpm})
			},
			func() error {
				_, err := all(admin.New(new(dynalimit.Repository)).Entities.Children(ctx, "u"))
				return err
			},
		},
	} {
		for i, call := range calls {
			require.NotPanics(t, func() { requireInvalid(t, call(), field) }, "%s %d", field, i)
		}
	}
	for _, l := range []*dynalimit.RateLimiter{nil, &zero} {
		assert.Equal(t, dynalimit.Health{}, l.Health())
	}
	for _, r := range []*dynalimit.Repository{nil, {}} {
		assert.Zero(t, r.ConfigCacheStats())
		assert.Empty(t, r.Table())
		assert.Empty(t, *r.TableInput().TableName)
		_, err := dynalimit.New(r, nil)
		requireInvalid(t, err, "repo")
	}
	assert.False(t, new(dynalimit.Lease).Degraded())
	assert.Nil(t, none.Consumed())
	assert.Nil(t, none.Statuses())
	assert.False(t, none.Degraded())
	require.NoError(t, lease.Rollback(ctx), "the lease is as it was")
	_, err := l.Acquire(ctx, "u", model, a, nil, dynalimit.WithCascade(dynalimit.CascadeParallel), nil)
	require.NoError(t, err, "no option changes nothing")
}

// A limit that a more specific list hides is told with that list.
func TestUnknownLimitNamesTheListThatHidesIt(t *testing.T) {
	s := memProcess(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("usd", 5)}})
	ctx := t.Context()
	lacks := func(entity, level, fix string, opts ...dynalimit.AcquireOption) {
		t.Helper()
		_, err := s.limiter.Acquire(ctx, entity, model, dynalimit.Amounts{"rps": 1}, opts...)
		requireInvalid(t, err, "amounts[rps]")
		assert.ErrorContains(t, err, level)
		assert.ErrorContains(t, err, fix)
	}
	lacks("u", `"usd"`, "Options.Limits")
	require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{rpm, dynalimit.PerSecond("rps", 5)}))
	lease := s.acquire("vip", dynalimit.Amounts{"rps": 1})
	require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "vip"}, []dynalimit.Limit{tpm}))
	lacks("vip", "level entity_default", "Limits.Set for the entity")
	lacks("vip", "hides the system's list (level system), which has it", "Limits.Set for the entity")
	lacks("vip", "level entity_default", "Limits.Set for the entity", dynalimit.WithLimits(dynalimit.PerDay("usd", 5)))
	require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "vip", Resource: model}, []dynalimit.Limit{tpm}))
	lacks("vip", "level entity)", "Limits.Set for the entity")
	err := lease.Consume(ctx, dynalimit.Amounts{"rps": 1})
	requireInvalid(t, err, "amounts[rps]")
	assert.ErrorContains(t, err, "level entity)")
	err = s.acquire("vip", dynalimit.Amounts{"tpm": 1}).Adjust(ctx, dynalimit.Amounts{"rps": 1})
	requireInvalid(t, err, "amounts[rps]")
	assert.ErrorContains(t, err, "hides")
	require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{tpm}))
	lacks("u", "level resource", "Limits.Set for the resource")
	require.NoError(t, s.repo.DeleteLimits(ctx, admin.Scope{Everyone: true, Resource: model}))
	require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{rpm}))
	lacks("u", "the system's", "Limits.Set for the system")
}

func TestObserverMayReturnNoContext(t *testing.T) {
	for _, mode := range []dynalimit.CascadeMode{dynalimit.CascadeParallel, dynalimit.CascadeTransaction} {
		o := perMinute()
		o.Cascade = mode
		o.Observer.AcquireStart = func(context.Context, observe.AcquireStart) context.Context { return nil }
		o.Observer.WriteStart = func(context.Context, observe.WriteStart) context.Context { return nil }
		s := memProcess(t, o)
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "child", ParentID: "parent", Cascade: true}))
		lease, err := s.limiter.Acquire(t.Context(), "child", model, dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
	}
}
