package dynalimit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/sources"
)

// TestAddedLimitsHideNone: what an operator types to give a customer more requests changes that
// limit alone, on a model, over all models, and below a parent with limits of the same names.
func TestAddedLimitsHideNone(t *testing.T) {
	s := memProcess(t, nil)
	ctx, limits := t.Context(), admin.New(s.repo.Repository).Limits
	rpm, tpm := dynalimit.PerMinute("rpm", 5), dynalimit.PerMinute("tpm", 10_000)
	usd := dynalimit.DailyMoneyQuota("usd", 2_000_000, "UTC")
	_, err := limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Groups: []string{"all"}, Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 1_000_000)}})
	require.NoError(t, err)
	require.NoError(t, limits.Set(ctx, admin.Scope{Everyone: true, Resource: "all"}, []dynalimit.Limit{rpm, tpm, usd}))
	require.NoError(t, limits.Set(ctx, admin.Scope{Entity: "team", Resource: "all"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000), dynalimit.PerMinute("tpm", 1_000_000), dynalimit.DailyMoneyQuota("usd", 20_000_000, "UTC")}))
	entities := admin.New(s.repo.Repository).Entities
	require.NoError(t, entities.Create(ctx, admin.Entity{ID: "team"}))
	require.NoError(t, entities.Create(ctx, admin.Entity{ID: "ann", ParentID: "team", Cascade: true}))
	at := admin.Scope{Entity: "ann", Resource: "all"}
	more := []dynalimit.Limit{dynalimit.PerMinute("rpm", 600)}
	require.ErrorContains(t, limits.Set(ctx, at, more), "tpm of source resource for entity ann on all, usd of source resource for entity ann on all")
	require.NoError(t, limits.Add(ctx, at, more))

	s.deny("ann", dynalimit.Amounts{"rpm": 1, "usd": 3_000_000})
	s.deny("ann", dynalimit.Amounts{"rpm": 1, "tpm": 20_000})
	lease := s.acquire("ann", dynalimit.Amounts{"rpm": 6, "tpm": 8000, "usd": 1000})
	from := map[string]sources.Source{}
	for _, status := range lease.Statuses() {
		if status.EntityID == "ann" && status.Resource == "all" {
			from[status.Limit.Name] = status.Source
		}
	}
	assert.Equal(t, map[string]sources.Source{"rpm": sources.Entity, "tpm": sources.Resource, "usd": sources.Resource}, from)
	assert.Zero(t, s.imageOn("ann", "all").TTL, "a bucket with a limit of the entity's own does not expire")

	// A list that replaces on purpose lifts nothing unseen.
	_, err = limits.SetConfig(ctx, at, admin.LimitConfig{Limits: more, Only: true, Version: admin.AnyVersion})
	require.NoError(t, err)
	s.acquire("ann", dynalimit.Amounts{"rpm": 1})
	for _, opts := range [][]dynalimit.AcquireOption{nil, {dynalimit.WithIgnoreUnknown()}} {
		_, err = s.limiter.Acquire(ctx, "ann", model, dynalimit.Amounts{"rpm": 1, "usd": 1}, opts...)
		requireInvalid(t, err, "amounts[usd]")
	}
}

// TestLimitsThatAreLiftedByName: a call may name a limit that a source takes away, and is charged
// nothing for it; a source that takes every limit away is unlimited.
func TestLimitsThatAreLiftedByName(t *testing.T) {
	s := memProcess(t, nil)
	ctx, limits := t.Context(), admin.New(s.repo.Repository).Limits
	require.NoError(t, limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 5), dynalimit.PerMinute("tpm", 10)}))
	require.NoError(t, limits.Lift(ctx, admin.Scope{Entity: "ann"}, []string{"tpm"}))
	lease := s.acquire("ann", dynalimit.Amounts{"rpm": 1, "tpm": 1000})
	require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"tpm": 7}))
	require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"rpm": 2, "tpm": 5000}))
	assert.EqualValues(t, 2*milli, s.stored("ann", "rpm").Consumed)
	assert.Equal(t, []string{"rpm"}, s.image("ann").Set.Names)
	_, err := s.limiter.Acquire(ctx, "ann", model, dynalimit.Amounts{"rpm": 1, "tmp": 1})
	requireInvalid(t, err, "amounts[tmp]")
	checked, err := s.limiter.Check(ctx, "ann", model, dynalimit.Amounts{"rpm": 1, "tpm": 1000})
	require.NoError(t, err)
	assert.True(t, checked.Allowed)
	resolved, err := s.repo.ResolveLimits(ctx, "ann", model)
	require.NoError(t, err)
	assert.Equal(t, []dynalimit.HiddenLimit{{Name: "tpm", Source: sources.EntityDefault}}, resolved.Lifted)
	assert.Equal(t, []sources.Source{sources.System}, resolved.From)

	require.NoError(t, limits.Lift(ctx, admin.Scope{Entity: "ann"}, []string{"rpm"}))
	s.repo.InvalidateConfig("", "")
	s.acquire("ann", dynalimit.Amounts{"rpm": 100, "tpm": 1000})
	assert.EqualValues(t, 2*milli, s.stored("ann", "rpm").Consumed, "nothing is charged any more")
}
