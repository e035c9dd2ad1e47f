package dynalimit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every call without a context, or of what was never made, says so.
func TestMisuseIsSaid(t *testing.T) {
	s := memProcess(t, perMinute())
	l, r, lease := s.limiter, s.repo, s.acquire("u", Amounts{"rpm": 1})
	var none *Lease
	var zero RateLimiter
	ctx, a := t.Context(), Amounts{"rpm": 1}
	var nilCtx context.Context
	do := func(context.Context, *Lease) error { return nil }
	for field, calls := range map[string][]func() error{
		"ctx": {
			func() error { _, err := l.Acquire(nilCtx, "u", model, a); return err },
			func() error { _, err := l.Wait(nilCtx, "u", model, a); return err },
			func() error { _, err := l.Check(nilCtx, "u", model, a); return err },
			func() error { _, err := l.Available(nilCtx, "u", model); return err },
			func() error { _, err := l.TimeUntilAvailable(nilCtx, "u", model, a); return err },
			func() error { return l.Do(nilCtx, "u", model, a, do) },
			func() error { return l.Close(nilCtx) },
			func() error { return lease.Adjust(nilCtx, a) },
			func() error { return lease.Consume(nilCtx, a) },
			func() error { return lease.Settle(nilCtx, a) },
			func() error { return lease.Rollback(nilCtx) },
			func() error { return r.CreateTable(nilCtx) },
			func() error { return r.SetSystemLimits(nilCtx, []Limit{rpm}, nil) },
			func() error { _, _, err := r.GetSystemLimits(nilCtx); return err },
			func() error { return r.DeleteSystemLimits(nilCtx) },
			func() error { return r.SetResourceLimits(nilCtx, model, []Limit{rpm}) },
			func() error { _, err := r.GetResourceLimits(nilCtx, model); return err },
			func() error { return r.DeleteResourceLimits(nilCtx, model) },
			func() error { return r.SetEntityLimits(nilCtx, "u", model, []Limit{rpm}) },
			func() error { _, err := r.GetEntityLimits(nilCtx, "u", model); return err },
			func() error { return r.DeleteEntityLimits(nilCtx, "u", model) },
			func() error { _, err := collect(r.EntitiesWithLimits(nilCtx, model)); return err },
			func() error { return r.CreateEntity(nilCtx, Entity{ID: "u"}) },
			func() error { _, err := r.GetEntity(nilCtx, "u"); return err },
			func() error { return r.DeleteEntity(nilCtx, "u") },
			func() error { _, err := collect(r.Children(nilCtx, "u")); return err },
		},
		"limiter": {
			func() error { _, err := zero.Acquire(ctx, "u", model, a); return err },
			func() error { _, err := zero.Wait(ctx, "u", model, a); return err },
			func() error { _, err := zero.Check(ctx, "u", model, a); return err },
			func() error { return zero.Do(ctx, "u", model, a, do) },
			func() error { return zero.Close(ctx) },
			func() error { _, err := (*RateLimiter)(nil).Acquire(ctx, "u", model, a); return err },
		},
		"lease": {
			func() error { return none.Adjust(ctx, a) },
			func() error { return none.Consume(ctx, a) },
			func() error { return none.Settle(ctx, a) },
			func() error { return none.Rollback(ctx) },
			func() error { return new(Lease).Settle(ctx, a) },
		},
		"fn": {func() error { return l.Do(ctx, "u", model, a, nil) }},
		"repository": {
			func() error { return (*Repository)(nil).CreateTable(ctx) },
			func() error { return new(Repository).SetSystemLimits(ctx, []Limit{rpm}, nil) },
			func() error { _, err := collect(new(Repository).Children(ctx, "u")); return err },
		},
	} {
		for i, call := range calls {
			require.NotPanics(t, func() { requireInvalid(t, call(), field) }, "%s %d", field, i)
		}
	}
	assert.Nil(t, none.Consumed())
	assert.Nil(t, none.Statuses())
	assert.False(t, none.Degraded())
	require.NoError(t, lease.Rollback(ctx), "the lease is as it was")
	_, err := l.Acquire(ctx, "u", model, a, nil, WithCascade(CascadeParallel), nil)
	require.NoError(t, err, "no option changes nothing")
}

// An amount below 0 is refused in the words of the call it was given to.
func TestNegativeAmountText(t *testing.T) {
	s := memProcess(t, perMinute())
	lease := s.acquire("u", Amounts{"rpm": 1})
	err := lease.Settle(t.Context(), Amounts{"rpm": -1})
	requireInvalid(t, err, "amounts[rpm]")
	assert.NotContains(t, err.Error(), "acquire")
}

// A limit that a more specific list hides is told with that list.
func TestUnknownLimitNamesTheListThatHidesIt(t *testing.T) {
	s := memProcess(t, &Options{Limits: []Limit{PerDay("usd", 5)}})
	ctx := t.Context()
	lacks := func(entity, level, fix string, opts ...AcquireOption) {
		t.Helper()
		_, err := s.limiter.Acquire(ctx, entity, model, Amounts{"rps": 1}, opts...)
		requireInvalid(t, err, "amounts[rps]")
		assert.ErrorContains(t, err, level)
		assert.ErrorContains(t, err, fix)
	}
	lacks("u", `"usd"`, "Options.Limits")
	require.NoError(t, s.repo.SetSystemLimits(ctx, []Limit{rpm, PerSecond("rps", 5)}, nil))
	lease := s.acquire("vip", Amounts{"rps": 1})
	require.NoError(t, s.repo.SetEntityLimits(ctx, "vip", "", []Limit{tpm}))
	lacks("vip", "level entity_default", "SetEntityLimits")
	lacks("vip", "hides those of the resource and the system", "SetEntityLimits")
	lacks("vip", "level entity_default", "SetEntityLimits", WithLimits(PerDay("usd", 5)))
	require.NoError(t, s.repo.SetEntityLimits(ctx, "vip", model, []Limit{tpm}))
	lacks("vip", "level entity)", "SetEntityLimits")
	err := lease.Consume(ctx, Amounts{"rps": 1})
	requireInvalid(t, err, "amounts[rps]")
	assert.ErrorContains(t, err, "level entity)")
	err = s.acquire("vip", Amounts{"tpm": 1}).Adjust(ctx, Amounts{"rps": 1})
	requireInvalid(t, err, "amounts[rps]")
	assert.ErrorContains(t, err, "hides")
	require.NoError(t, s.repo.SetResourceLimits(ctx, model, []Limit{tpm}))
	lacks("u", "level resource", "SetResourceLimits")
	require.NoError(t, s.repo.DeleteResourceLimits(ctx, model))
	require.NoError(t, s.repo.SetSystemLimits(ctx, []Limit{rpm}, nil))
	lacks("u", "the system's", "SetSystemLimits")
}
