package dynalimit_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/testworld"
	"github.com/dynalimit/dynalimit/sources"
)

func TestRetryAfterIsExact(t *testing.T) {
	odd := dynalimit.Limit{Name: "x", Capacity: 13, Burst: 17, RefillAmount: 7, RefillPeriod: 13 * time.Second}
	for _, limits := range [][]dynalimit.Limit{
		{dynalimit.PerMinute("x", 7)},
		{dynalimit.PerSecond("x", 3)},
		{dynalimit.PerDay("x", 10)},
		{odd},
		{dynalimit.PerSecond("x", 1_000_000)},
		{dynalimit.PerSecond("x", 50), dynalimit.PerDay("y", 1000).WithBurst(10)},
		{odd, dynalimit.PerMinute("y", 11), dynalimit.PerHour("z", 101)},
	} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				s := newProcess(t, e, &dynalimit.Options{Limits: limits})
				all := dynalimit.Amounts{}
				for _, l := range limits {
					all[l.Name] = l.Burst
				}
				s.acquire("user-1", all)
				s.clock.advance(137 * time.Millisecond) // off the grid
				for _, part := range []int64{5, 3, 1} {
					some := dynalimit.Amounts{}
					for _, l := range limits {
						some[l.Name] = max(1, l.Burst/part)
					}
					wait := s.deny("user-1", some).RetryAfter
					s.clock.advance(wait - time.Millisecond)
					early := s.deny("user-1", some)
					assert.Equal(t, time.Millisecond, early.RetryAfter)
					assert.Equal(t, time.Millisecond, s.peer(s.limiterOptions()).deny("user-1", some).RetryAfter, "whoever asks")
					s.clock.advance(time.Millisecond)
					s.acquire("user-1", some)
				}
			})
		})
	}
}

func TestAmountAboveTheBurstNeverFits(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		for _, state := range []string{"no bucket", "a bucket"} {
			exceeded := s.deny("user-1", dynalimit.Amounts{"rpm": 101, "tpm": 1})
			assert.ErrorIs(t, exceeded, dynalimit.ErrExceedsBurst, state)
			assert.Equal(t, dynalimit.Never, exceeded.RetryAfter)
			_, ok := dynalimit.RetryAfter(exceeded)
			assert.False(t, ok, "no wait helps")
			assert.EqualError(t, exceeded, "dynalimit: rpm of user-1 on gpt-4: 101 asked, the burst is 100; ask for less or raise the burst")
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		}
		assert.Equal(t, int64(2000), s.stored("user-1", "rpm").Consumed)
		s.clock.advance(time.Hour)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 100}) // exactly the burst fits
	})
}

func TestOnlyLimitsNamedAreChecked(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 100})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 50_000}))
		assert.Equal(t, int64(-40_100), s.level("user-1", "tpm"), "deep in debt")
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 0})
		s.deny("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 1})
		assert.Equal(t, int64(98), s.level("user-1", "rpm"))
	})
}

func TestEveryLegalLimitNameWorks(t *testing.T) {
	names := []string{
		"a", "A", "a-b", "a.b", "a_b", "a.b_c-d", "rpm", "rpm_tk", "rpm_tk_tk", "rp", "r", "tk", "b_tk", "ttl", "rf", "PK", "op0", "resource", "size",
		strings.Repeat("x", 64),
	}
	testEngines(t, func(t *testing.T, e *engine) {
		var limits []dynalimit.Limit
		one, two, three := dynalimit.Amounts{}, dynalimit.Amounts{}, dynalimit.Amounts{}
		for _, name := range names {
			limits = append(limits, dynalimit.PerMinute(name, 10))
			one[name], two[name], three[name] = 1, 2, 3
		}
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, limits))
		check := func(what string, want int64) {
			for _, name := range names {
				assert.Equal(t, want, s.level("user-1", name), "%s after %s", name, what)
			}
		}
		first := s.acquire("user-1", two)
		check("create", 8)
		lease := s.acquire("user-1", three)
		check("spend", 5)
		require.NoError(t, lease.Adjust(t.Context(), one))
		check("a charge", 4)
		require.NoError(t, lease.Rollback(t.Context()))
		check("a rollback", 8)
		require.NoError(t, first.Settle(t.Context(), one))
		s.clock.advance(2 * time.Hour)
		s.acquire("user-1", one)
		check("a claim", 9)
		assert.Equal(t, s.clock.now().UnixMilli(), s.image("user-1").Refilled)
	})
}

func TestLimitsComeFromTheMostSpecificSource(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}})
		ctx := t.Context()
		status := func() dynalimit.LimitStatus {
			s.clock.advance(2 * time.Second)
			lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			require.NoError(t, lease.Rollback(ctx))
			return lease.Statuses()[0]
		}
		assert.Equal(t, sources.Options, status().Source)
		for _, source := range []struct {
			source sources.Source
			n      int64
			set    func([]dynalimit.Limit) error
		}{
			{sources.System, 2, func(l []dynalimit.Limit) error { return s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, l) }},
			{sources.Resource, 3, func(l []dynalimit.Limit) error {
				return s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, l)
			}},
			{sources.EntityDefault, 4, func(l []dynalimit.Limit) error { return s.repo.SetLimits(ctx, admin.Scope{Entity: "user-1"}, l) }},
			{sources.Entity, 5, func(l []dynalimit.Limit) error {
				return s.repo.SetLimits(ctx, admin.Scope{Entity: "user-1", Resource: model}, l)
			}},
		} {
			require.NoError(t, source.set([]dynalimit.Limit{dynalimit.PerSecond("rpm", source.n)}))
			got := status()
			assert.Equal(t, source.source, got.Source)
			assert.Equal(t, dynalimit.PerSecond("rpm", source.n), got.Limit, "in this process at once")
		}
	})
}

func TestClosedLimiter(t *testing.T) {
	s := memProcess(t, perMinute())
	lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 5})
	require.NoError(t, s.limiter.Close(t.Context()))
	require.NoError(t, s.limiter.Close(t.Context()), "twice is once")
	used := s.used(func() {
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		require.ErrorIs(t, err, dynalimit.ErrClosed)
		assert.EqualError(t, err, "dynalimit: the limiter is closed; make a new one with New")
		assert.ErrorIs(t, s.limiter.Do(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, nil), dynalimit.ErrClosed)
		_, err = s.limiter.Check(t.Context(), "user-1", model, nil)
		assert.ErrorIs(t, err, dynalimit.ErrClosed)
	})
	assert.Zero(t, used.Requests())
	require.NoError(t, lease.Rollback(t.Context()), "leases can still be given back")
	assert.Equal(t, int64(100), s.level("user-1", "rpm"))
}

func TestMissingTableSaysWhatToDo(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		limiter, err := openLimiter(e.open(t, "no-such-table", nil), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}, OnUnavailable: dynalimit.Allow})
		require.NoError(t, err)
		t.Cleanup(func() { _ = limiter.Close(context.WithoutCancel(t.Context())) })
		_, acquireErr := limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		_, checkErr := limiter.Check(t.Context(), "user-1", model, nil)
		for _, err := range []error{acquireErr, checkErr} {
			var table *fault.TableError
			require.ErrorAs(t, err, &table, "and it never fails open")
			require.ErrorIs(t, err, fault.ErrTable)
			assert.NotErrorIs(t, err, dynalimit.ErrUnavailable)
			assert.Equal(t, "no-such-table", table.Table)
			assert.EqualError(t, err, `dynalimit: table "no-such-table": does not exist here; check the name, region and endpoint, or create it with Repository.CreateTable`)
			var cause *types.ResourceNotFoundException
			assert.ErrorAs(t, err, &cause)
		}
	})
}

func TestWrongTableSaysWhatToDo(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		name := testworld.NewTableName()
		key := "id"
		_, err := e.client().CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &name, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
		})
		require.NoError(t, err)
		e.deleteAfter(t, name)
		limiter, err := openLimiter(e.open(t, name, nil), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}, OnUnavailable: dynalimit.Allow})
		require.NoError(t, err)
		t.Cleanup(func() { _ = limiter.Close(context.WithoutCancel(t.Context())) })
		_, err = limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		var table *fault.TableError
		require.ErrorAs(t, err, &table)
		assert.Equal(t, name, table.Table)
		assert.Contains(t, table.Reason, "other keys than PK and SK")
		assert.Equal(t, fault.CreateTable, table.Fix)
	})
}

func TestDo(t *testing.T) {
	broken := errors.New("the model broke")
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		do := func(fn func(context.Context, *dynalimit.Lease) error) error {
			return s.limiter.Do(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1, "tpm": 500}, fn)
		}
		require.NoError(t, do(func(ctx context.Context, lease *dynalimit.Lease) error {
			return lease.Adjust(ctx, dynalimit.Amounts{"tpm": 100})
		}))
		assert.Equal(t, int64(9400), s.level("user-1", "tpm"), "kept")

		require.ErrorIs(t, do(func(context.Context, *dynalimit.Lease) error { return broken }), broken)
		assert.Equal(t, int64(9400), s.level("user-1", "tpm"), "rolled back after an error")
		assert.Equal(t, int64(99), s.level("user-1", "rpm"))

		assert.PanicsWithError(t, "the model broke", func() { _ = do(func(context.Context, *dynalimit.Lease) error { panic(broken) }) })
		assert.Equal(t, int64(9400), s.level("user-1", "tpm"), "rolled back after a panic")

		require.ErrorIs(t, do(func(ctx context.Context, lease *dynalimit.Lease) error {
			return errors.Join(broken, lease.Settle(ctx, dynalimit.Amounts{"tpm": 400}))
		}), broken)
		assert.Equal(t, int64(9000), s.level("user-1", "tpm"), "what was settled stays")

		called := false
		err := s.limiter.Do(t.Context(), "user-1", model, dynalimit.Amounts{"tpm": 9001}, func(context.Context, *dynalimit.Lease) error {
			called = true
			return nil
		})
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		assert.False(t, called)
	})
}

// New and NewRepository ask for nothing, create nothing and start nothing.
func TestConstructorsTouchNothing(t *testing.T) {
	e := memEngine(t)
	repo, err := openRepository(e.client(), "limits", &dynalimit.RepositoryOptions{Principal: tester, Namespace: "typo"})
	require.NoError(t, err)
	limiter, err := openLimiter(repo, perMinute())
	require.NoError(t, err)
	require.NoError(t, limiter.Close(t.Context()))
	assert.Zero(t, e.db.Meter().Requests())
}

// Buckets of one entity lie under as many sort keys as resources, and an
// entity's other resources are not touched.
func TestResourcesAreSeparate(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		for i := range 5 {
			_, err := s.limiter.Acquire(t.Context(), "user-1", "m"+strconv.Itoa(i), dynalimit.Amounts{"rpm": 100})
			require.NoError(t, err)
		}
		s.acquire("user-1", dynalimit.Amounts{"rpm": 100})
		s.acquire("user-2", dynalimit.Amounts{"rpm": 100})
	})
}

// A bucket that another program spoilt says which item it is and what to do; it
// is no outage.
func TestMalformedBucketSaysWhatToDo(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("u", dynalimit.Amounts{"tpm": 1})
		item := s.item("u")
		item["b_tpm_tk"] = &types.AttributeValueMemberN{Value: "99223372036854775807"}
		put(t, s.repo, item)
		p := s.peer(perMinute())
		_, err := p.limiter.Acquire(t.Context(), "u", model, dynalimit.Amounts{"tpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Allow))
		require.Error(t, err)
		assert.NotErrorIs(t, err, dynalimit.ErrUnavailable)
		for _, part := range []string{`"ENTITY#u", "#BUCKET#gpt-4"`, "b_tpm_tk", "delete the item"} {
			assert.ErrorContains(t, err, part)
		}
	})
}
