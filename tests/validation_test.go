package tests

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

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
	{name: "cascade", entity: "a", resource: model, amounts: dynalimit.Amounts{"rpm": 1}, opts: []dynalimit.AcquireOption{dynalimit.WithCascade("all")}, field: "WithCascade", reason: `is "all"`},
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
			assert.Equal(t, dynalimit.Amounts{"rpm": 2, "tpm": 500}, lease.Consumed())
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
		{"options.Cascade", dynalimit.Options{Cascade: "both"}},
		{"options.MaxBuckets", dynalimit.Options{MaxBuckets: -1}},
		{"options.Now", dynalimit.Options{Now: func() time.Time { return time.Time{} }}},
		{"options.Prefetch", dynalimit.Options{Prefetch: time.Millisecond}},
		{"options.PrefetchResources[gpt-4]", dynalimit.Options{PrefetchResources: map[string]time.Duration{"gpt-4": time.Minute}}},
		{"options.PrefetchResources[gpt 4]", dynalimit.Options{PrefetchResources: map[string]time.Duration{"gpt 4": time.Second}}},
		{"options.PrefetchResources[]", dynalimit.Options{PrefetchResources: map[string]time.Duration{"": time.Second}}},
		{"options.CleanupTimeout", dynalimit.Options{CleanupTimeout: -time.Second}},
	} {
		_, err := newLimiter(repo, &bad.opts)
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
