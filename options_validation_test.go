package dynalimit_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
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
	assert.Nil(t, none.Used())
	assert.Nil(t, none.Statuses())
	assert.False(t, none.Degraded())
	require.NoError(t, lease.Rollback(ctx), "the lease is as it was")
	_, err := l.Acquire(ctx, "u", model, a, nil, dynalimit.WithChargeMode(dynalimit.ChargeParallel), nil)
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
	only := admin.LimitConfig{Limits: []dynalimit.Limit{tpm}, Version: admin.AnyVersion, Only: true}
	_, err := s.repo.SetConfig(ctx, admin.Scope{Entity: "vip"}, only)
	require.NoError(t, err)
	lacks("vip", "source entity_default", "Limits.Set for the entity")
	lacks("vip", "hides the system's list (source system), which has it", "Limits.Set for the entity")
	lacks("vip", "source entity_default", "Limits.Set for the entity", dynalimit.WithLimits(dynalimit.PerDay("usd", 5)))
	s.acquire("vip", dynalimit.Amounts{"rps": 1, "img": 1}, dynalimit.WithLimits(dynalimit.PerSecond("rps", 5)), dynalimit.WithIgnoreUnknown())
	_, err = s.repo.SetConfig(ctx, admin.Scope{Entity: "vip", Resource: model}, only)
	require.NoError(t, err)
	lacks("vip", "source entity)", "Limits.Set for the entity")
	err = lease.Consume(ctx, dynalimit.Amounts{"rps": 1})
	requireInvalid(t, err, "amounts[rps]")
	assert.ErrorContains(t, err, "source entity)")
	err = s.acquire("vip", dynalimit.Amounts{"tpm": 1}).Adjust(ctx, dynalimit.Amounts{"rps": 1})
	requireInvalid(t, err, "amounts[rps]")
	assert.ErrorContains(t, err, "hides")
	_, err = s.repo.SetConfig(ctx, admin.Scope{Everyone: true, Resource: model}, only)
	require.NoError(t, err)
	lacks("u", "source resource", "Limits.Set for the resource")
	require.NoError(t, s.repo.DeleteLimits(ctx, admin.Scope{Everyone: true, Resource: model}))
	require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{rpm}))
	lacks("u", "the system's", "Limits.Set for the system")
}

// badCalls are calls that no store is asked about.
var badCalls = []struct {
	name, entity, resource string
	amounts                dynalimit.Amounts
	opts                   []dynalimit.AcquireOption
	field, reason          string
}{
	{name: "no entity", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, field: "entity", reason: "is empty"},
	{name: "# in the entity", entity: "a#b", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, field: "entity", reason: `contains '#'`},
	{name: "entity starts with -", entity: "-a", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, field: "entity", reason: "start with a letter or digit"},
	{name: "long entity", entity: strings.Repeat("a", 257), resource: model, amounts: dynalimit.Amounts{"rpm": 1}, field: "entity", reason: "at most 256"},
	{name: "slash in the entity", entity: "a/b", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, field: "entity", reason: `contains '/'`},
	{name: "no resource", entity: "a", amounts: dynalimit.Amounts{"rpm": 1}, field: "resource", reason: "is empty"},
	{name: "# in the resource", entity: "a", resource: "g#4", amounts: dynalimit.Amounts{"rpm": 1}, field: "resource", reason: `contains '#'`},
	{name: "no amounts", entity: "a", resource: model, field: "amounts", reason: "is empty"},
	{name: "negative", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": -100}, field: "amounts[rpm]", reason: "Lease.Adjust"},
	{name: "overflow", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": 1, "tpm": math.MaxInt64}, field: "amounts[tpm]", reason: "at most 1000000000000"},
	{name: "empty limit name", entity: "a", resource: model, amounts: dynalimit.Amounts{"": 1}, field: "amounts", reason: "is empty"},
	{name: "# in a limit name", entity: "a", resource: model, amounts: dynalimit.Amounts{"r#": 1}, field: "amounts", reason: `contains '#'`},
	{name: "digit first", entity: "a", resource: model, amounts: dynalimit.Amounts{"1r": 1}, field: "amounts", reason: "start with a letter"},
	{name: "long limit name", entity: "a", resource: model, amounts: dynalimit.Amounts{strings.Repeat("r", 65): 1}, field: "amounts", reason: "at most 64"},
	{name: "policy", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, opts: []dynalimit.AcquireOption{dynalimit.WithOnUnavailable("open")}, field: "WithOnUnavailable", reason: `is "open"`},
	{name: "cascade", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, opts: []dynalimit.AcquireOption{dynalimit.WithChargeMode("all")}, field: "WithChargeMode", reason: `is "all"`},
	{name: "limit of nothing", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, opts: []dynalimit.AcquireOption{dynalimit.WithLimits(dynalimit.PerMinute("rpm", 0))}, field: "WithLimits[0].Capacity", reason: "is 0"},
	{name: "negative burst", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, opts: []dynalimit.AcquireOption{dynalimit.WithLimits(dynalimit.PerMinute("rpm", 1).WithBurst(-1))}, field: "WithLimits[0].Burst", reason: "is -1"},
	{name: "no period", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, opts: []dynalimit.AcquireOption{dynalimit.WithLimits(dynalimit.Limit{Name: "rpm", Capacity: 1})}, field: "WithLimits[0].RefillPeriod", reason: "milliseconds"},
	{name: "limit twice", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, opts: []dynalimit.AcquireOption{dynalimit.WithLimits(dynalimit.PerMinute("rpm", 1), dynalimit.PerHour("rpm", 1))}, field: "WithLimits", reason: "twice"},
	{name: "too many limits", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, opts: []dynalimit.AcquireOption{dynalimit.WithLimits(manyLimits(21)...)}, field: "WithLimits", reason: "at most 20"},
}

func manyLimits(n int) []dynalimit.Limit {
	limits := make([]dynalimit.Limit, n)
	for i := range limits {
		limits[i] = dynalimit.PerMinute(fmt.Sprintf("l%d", i), 10)
	}
	return limits
}

func TestBadCallsAskNothingOfTheStore(t *testing.T) {
	s := memProcess(t, perMinute())
	for _, call := range badCalls {
		t.Run(call.name, func(t *testing.T) {
			used := s.used(func() {
				_, err := s.limiter.Acquire(t.Context(), call.entity, call.resource, call.amounts, call.opts...)
				assert.Contains(t, requireInvalid(t, err, call.field).Reason, call.reason)
				assert.NotErrorIs(t, err, dynalimit.ErrLimitExceeded)
				if len(call.amounts) > 0 {
					_, err = s.limiter.Check(t.Context(), call.entity, call.resource, call.amounts, call.opts...)
					requireInvalid(t, err, call.field)
				}
				requireInvalid(t, s.limiter.Do(t.Context(), call.entity, call.resource, call.amounts, nil, call.opts...), call.field)
			})
			assert.Zero(t, used.Requests())
		})
	}
}

func TestUnknownLimitIsRefusedUnwritten(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		for range 2 {
			_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1, "rmp": 1})
			reason := requireInvalid(t, err, "amounts[rmp]").Reason
			assert.Contains(t, reason, `the limits are ["rpm" "tpm"]`)
			_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rmp": 0})
			requireInvalid(t, err, "amounts[rmp]")
		}
		assert.Nil(t, s.item("user-1"))
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		before := s.item("user-1")
		requireInvalid(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rmp": 1}), "amounts[rmp]")
		requireInvalid(t, lease.Consume(t.Context(), dynalimit.Amounts{"rmp": 1}), "amounts[rmp]")
		requireInvalid(t, lease.Settle(t.Context(), dynalimit.Amounts{"rmp": 1}), "amounts[rmp]")
		assert.Equal(t, before, s.item("user-1"))
		require.NoError(t, lease.Rollback(t.Context()), "refused calls do not end a lease")
	})
}

func TestBadAdjustsWriteNothing(t *testing.T) {
	s := memProcess(t, perMinute())
	lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 2, "tpm": 500})
	for _, bad := range []struct {
		name, field string
		do          func() error
	}{
		{"nothing to adjust", "amounts", func() error { return lease.Adjust(t.Context(), nil) }},
		{"nothing to consume", "amounts", func() error { return lease.Consume(t.Context(), dynalimit.Amounts{}) }},
		{"more than held", "amounts[tpm]", func() error { return lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -501}) }},
		{"one of two is more than held", "amounts[rpm]", func() error { return lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": -3, "tpm": 100}) }},
		{"not held at all", "amounts[xpm]", func() error { return lease.Adjust(t.Context(), dynalimit.Amounts{"xpm": -1}) }},
		{"overflow", "amounts[tpm]", func() error { return lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": math.MinInt64}) }},
		{"negative consume", "amounts[tpm]", func() error { return lease.Consume(t.Context(), dynalimit.Amounts{"tpm": -1}) }},
		{"negative actual", "amounts[tpm]", func() error { return lease.Settle(t.Context(), dynalimit.Amounts{"tpm": -1}) }},
		{"huge actual", "amounts[tpm]", func() error { return lease.Settle(t.Context(), dynalimit.Amounts{"tpm": math.MaxInt64}) }},
	} {
		t.Run(bad.name, func(t *testing.T) {
			used := s.used(func() { requireInvalid(t, bad.do(), bad.field) })
			assert.Zero(t, used.Requests())
			assert.Equal(t, dynalimit.Amounts{"rpm": 2, "tpm": 500}, lease.Used())
		})
	}
	err := lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -501})
	assert.EqualError(t, err, "dynalimit: invalid amounts[tpm]: gives back 1 more than the lease holds (500)")
	require.ErrorContains(t, lease.Adjust(t.Context(), dynalimit.Amounts{"xpm": -1}), "rpm", "the limits that there are")
}

// A lease that is charged again and again must not wrap around.
func TestLeaseDoesNotOverflow(t *testing.T) {
	s := memProcess(t, perMinute())
	lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": maxTokens - 1}))
	before := s.item("user-1")
	reason := requireInvalid(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 1}), "amounts[rpm]").Reason
	assert.Contains(t, reason, "at most 1000000000000")
	assert.Equal(t, before, s.item("user-1"))
	require.NoError(t, lease.Rollback(t.Context()))
	assert.Equal(t, int64(100), s.level("user-1", "rpm"))
}

func TestBadOptions(t *testing.T) {
	repo := memEngine(t).open(t, "limits", nil)
	_, err := dynalimit.New(nil, nil)
	requireInvalid(t, err, "repo")
	for _, bad := range []struct {
		field string
		opts  dynalimit.Options
	}{
		{"options.Limits[0].Name", dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("r m", 1)}}},
		{"options.Limits[1].Capacity", dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1), dynalimit.PerMinute("tpm", maxTokens+1)}}},
		{"options.Limits[0].RefillPeriod", dynalimit.Options{Limits: []dynalimit.Limit{{Name: "rpm", Capacity: 1, RefillPeriod: time.Microsecond}}}},
		{"options.OnUnavailable", dynalimit.Options{OnUnavailable: "open"}},
		{"options.ChargeMode", dynalimit.Options{ChargeMode: "both"}},
		{"options.MaxBuckets", dynalimit.Options{MaxBuckets: -1}},
		{"options.Now", dynalimit.Options{Now: func() time.Time { return time.Time{} }}},
		{"options.Prefetch", dynalimit.Options{Prefetch: time.Millisecond}},
		{"options.PrefetchResources[gpt-4]", dynalimit.Options{PrefetchResources: map[string]time.Duration{"gpt-4": time.Minute}}},
		{"options.PrefetchResources[gpt 4]", dynalimit.Options{PrefetchResources: map[string]time.Duration{"gpt 4": time.Second}}},
		{"options.PrefetchResources[]", dynalimit.Options{PrefetchResources: map[string]time.Duration{"": time.Second}}},
		{"options.CleanupTimeout", dynalimit.Options{CleanupTimeout: -time.Second}},
	} {
		_, err := openLimiter(repo, &bad.opts)
		requireInvalid(t, err, bad.field)
	}
	for _, bad := range []struct {
		field string
		opts  dynalimit.RepositoryOptions
	}{
		{"options.Namespace", dynalimit.RepositoryOptions{Namespace: "a#b"}},
		{"options.ConfigTTL", dynalimit.RepositoryOptions{ConfigTTL: -1}},
		{"options.Now", dynalimit.RepositoryOptions{Now: func() time.Time { return time.Time{} }}},
		{"options.Now", dynalimit.RepositoryOptions{Now: func() time.Time { return time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }}},
		{"options.RequestTimeout", dynalimit.RepositoryOptions{RequestTimeout: -1}},
		{"options.ConfigCacheSize", dynalimit.RepositoryOptions{ConfigCacheSize: -1}},
	} {
		_, err := openRepository(memEngine(t).client(), "limits", &bad.opts)
		requireInvalid(t, err, bad.field)
	}
	_, err = openRepository((*dynamodb.Client)(nil), "limits", nil)
	require.ErrorContains(t, err, "client: is nil")
	_, err = openRepository(nil, "limits", nil)
	requireInvalid(t, err, "client")
	for _, table := range []string{"", " ", "ab", "a b c", "lim#its", "limits\x00", "\xff\xfe\xfd", strings.Repeat("a", 256)} {
		_, err = openRepository(memEngine(t).client(), table, nil)
		requireInvalid(t, err, "table")
	}
	_, err = openRepository(memEngine(t).client(), "arn:aws:dynamodb:eu-central-1:123456789012:table/limits", nil)
	require.NoError(t, err)
}

// What zae-limiter refuses is refused on a repository that is to stay readable
// for it, by the name of what is wrong, and accepted on any other.
func TestCompatible(t *testing.T) {
	e := memEngine(t)
	low := dynalimit.PerMinute("rpm", 10).WithBurst(5)
	ctx := t.Context()
	for _, compatible := range []bool{false, true} {
		r := e.repository(t, &dynalimit.RepositoryOptions{Compatible: compatible})
		l, err := openLimiter(r, perMinute())
		require.NoError(t, err)
		acquire := func(resource string, opts ...dynalimit.AcquireOption) error {
			_, err := l.Acquire(ctx, "u", resource, dynalimit.Amounts{"rpm": 1}, opts...)
			return err
		}
		for field, calls := range map[string][]func() error{
			"resource": {
				func() error { return acquire("4o") },
				func() error { return acquire("anthropic.claude-v1:0") },
				func() error { return acquire("gpt@eu") },
				func() error { return acquire(strings.Repeat("x", 65)) },
				func() error {
					return r.SetLimits(ctx, admin.Scope{Everyone: true, Resource: "4o"}, []dynalimit.Limit{rpm})
				},
				func() error {
					return r.SetLimits(ctx, admin.Scope{Entity: "u", Resource: "a:b"}, []dynalimit.Limit{rpm})
				},
				func() error { _, err := l.Check(ctx, "u", "4o", nil); return err },
			},
			"limits":          {func() error { return r.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{low}) }},
			"WithLimits":      {func() error { return acquire("gpt-4", dynalimit.WithLimits(low)) }},
			"entity.ParentID": {func() error { return r.CreateEntity(ctx, admin.Entity{ID: "key", ParentID: "team"}) }},
			"options.Limits": {func() error {
				_, err := openLimiter(r, &dynalimit.Options{Limits: []dynalimit.Limit{low}})
				return err
			}},
		} {
			for i, call := range calls {
				if err := call(); compatible {
					requireInvalid(t, err, field)
					assert.ErrorContains(t, err, "zae-limiter")
				} else {
					require.NoError(t, err, "%s %d", field, i)
				}
			}
		}
		require.NoError(t, acquire("openai/gpt-4"))
		require.NoError(t, acquire(strings.Repeat("x", 64)))
		require.NoError(t, r.SetLimits(ctx, admin.Scope{Entity: "ada@example.com:1"}, []dynalimit.Limit{rpm.WithBurst(500)}))
		require.NoError(t, l.Close(ctx))
	}
}
