package dynalimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// nLimits are n limits a day whose names begin so, and one of each.
func nLimits(prefix string, n int) ([]dynalimit.Limit, dynalimit.Amounts) {
	limits, amounts := make([]dynalimit.Limit, n), dynalimit.Amounts{}
	for i := range limits {
		limits[i] = dynalimit.PerDay(fmt.Sprintf("%s%02d", prefix, i), 100)
		amounts[limits[i].Name] = 1
	}
	return limits, amounts
}

// WithLimits may not make more limits than a bucket holds; that is said before
// anything is written.
func TestOverrideMakesNoMoreLimitsThanABucketHolds(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		base, _ := nLimits("a", 15)
		over, _ := nLimits("b", 6)
		s := newProcess(t, e, &dynalimit.Options{Limits: base})
		_, err := s.limiter.Acquire(t.Context(), "u", model, dynalimit.Amounts{"a00": 1, "b05": 1}, dynalimit.WithLimits(over...))
		requireInvalid(t, err, "WithLimits")
		assert.ErrorContains(t, err, `"b05"`)
		assert.ErrorContains(t, err, "at most 20")
		assert.Nil(t, s.item("u"))
		s.acquire("u", dynalimit.Amounts{"a00": 1, "b04": 1}, dynalimit.WithLimits(over[:5]...))
		s.acquire("u", dynalimit.Amounts{"a00": 1, "b04": 1}, dynalimit.WithLimits(over[:5]...))
		lease := s.acquire("u", dynalimit.Amounts{"a00": 1, "b04": 1}, dynalimit.WithLimits(append(over[:5:5], base...)...))
		assert.Equal(t, int64(97), s.level("u", "b04"))
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"b00": 1}))
		more, _ := nLimits("c", 1)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, append(more, base...)))
		requireInvalid(t, lease.Consume(t.Context(), dynalimit.Amounts{"b00": 1}), "WithLimits")
	})
}

// All limits may be renamed at once before they have refilled; not twice, until
// the first ones have.
func TestRenamedLimitsStayUntilTheyAreFull(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		set := func(prefix string) dynalimit.Amounts {
			limits, all := nLimits(prefix, schema.MaxLimits)
			s.clock.advance(5 * time.Second)
			require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, limits))
			return all
		}
		first := s.acquire("u", set("a"))
		s.acquire("u", set("b"))
		second := s.acquire("u", set("b"))
		assert.Equal(t, int64(98), s.level("u", "b19"))
		require.Len(t, s.image("u").Set.Names, schema.MaxStored)
		require.NoError(t, first.Adjust(t.Context(), dynalimit.Amounts{"a00": 1}), "of a limit that is configured no more")

		before := s.item("u")
		third := set("c")
		_, err := s.limiter.Acquire(t.Context(), "u", model, third)
		requireInvalid(t, err, "limits")
		for _, part := range []string{"would be 60", `"a00"`, `"b19"`, "at most 40", "wait"} {
			assert.ErrorContains(t, err, part)
		}
		_, err = s.limiter.Check(t.Context(), "u", model, nil)
		requireInvalid(t, err, "limits")
		assert.Equal(t, before, s.item("u"), "nothing was written")
		require.NoError(t, second.Adjust(t.Context(), dynalimit.Amounts{"b00": 1}), "what is charged to the limits there are still is")

		s.clock.advance(time.Hour)
		p := s.peer(nil)
		p.acquire("u", third)
		assert.Len(t, s.image("u").Set.Names, schema.MaxLimits, "the others had refilled")
		assert.Equal(t, int64(99), s.level("u", "c00"))
	})
}

// An item that another writer made may hold any number of limits: that many are
// charged, or said to be too many.
func TestBucketOfAnotherWriterWithManyLimits(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		for _, n := range []int{33, schema.MaxStored, 60} {
			s := newProcess(t, e, nil)
			limits, _ := nLimits("a", n)
			require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, limits[n-3:]))
			item := schema.Item{"PK": schema.String("ENTITY#u"), "SK": schema.String("#BUCKET#" + model), "rf": schema.Number(s.clock.now().UnixMilli())}
			for _, l := range limits {
				for field, v := range map[string]int64{"tk": 50_000, "cp": 100_000, "bx": 100_000, "ra": 100_000, "rp": 86_400_000, "tc": 0} {
					item["b_"+l.Name+"_"+field] = schema.Number(v)
				}
			}
			put(t, s.repo, item)
			both := dynalimit.Amounts{limits[n-1].Name: 1, limits[n-3].Name: 1}
			if n > schema.MaxStored {
				_, err := s.limiter.Acquire(t.Context(), "u", model, both)
				requireInvalid(t, err, "limits")
				assert.Equal(t, item, s.item("u"))
				continue
			}
			for range 2 {
				s.acquire("u", both)
			}
			assert.Equal(t, int64(48), s.level("u", limits[n-1].Name))
			require.Len(t, s.image("u").Set.Names, n)
		}
	})
}

func TestCheckIsADryRun(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		ctx := t.Context()
		report, err := s.limiter.Check(ctx, "user-1", model, dynalimit.Amounts{"rpm": 100, "tpm": 1})
		require.NoError(t, err)
		assert.True(t, report.Allowed)
		assert.Zero(t, report.RetryAfter)
		assert.Equal(t, dynalimit.Refuse, report.OnUnavailable)
		assert.Nil(t, s.item("user-1"), "no bucket is made")

		s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 9000})
		before := s.item("user-1")
		report, err = s.limiter.Check(ctx, "user-1", model, dynalimit.Amounts{"tpm": 1500})
		require.NoError(t, err, "a denial is a report")
		assert.Equal(t, &dynalimit.Report{
			RetryAfter: 3 * time.Second, OnUnavailable: dynalimit.Refuse,
			Statuses: []dynalimit.LimitStatus{
				{EntityID: "user-1", Resource: model, Limit: dynalimit.PerMinute("rpm", 100), Source: sources.Options, Remaining: 99, Reset: 600 * time.Millisecond},
				{
					EntityID: "user-1", Resource: model, Limit: dynalimit.PerMinute("tpm", 10_000), Source: sources.Options,
					Requested: 1500, Remaining: 1000, Exceeded: true, RetryAfter: 3 * time.Second, Reset: 54 * time.Second,
				},
			},
		}, report, "every limit, asked for or not")
		report, err = s.limiter.Check(ctx, "user-1", model, dynalimit.Amounts{"tpm": 10_001})
		require.NoError(t, err)
		assert.False(t, report.Allowed)
		assert.Equal(t, dynalimit.Never, report.RetryAfter)
		assert.Equal(t, before, s.item("user-1"))
	})
}

func TestCheckTellsWhereEachLimitCameFrom(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}})
		ctx := t.Context()
		s.family("key", "project", "org", "holding")
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "key", Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 5), dynalimit.PerMinute("tpm", 5)}))
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "project"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 4)}))
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 3)}))
		report, err := s.limiter.Check(ctx, "key", model, nil, dynalimit.WithLimits(dynalimit.PerMinute("tpm", 9), dynalimit.PerMinute("usd", 2)))
		require.NoError(t, err)
		var got []string
		for _, status := range report.Statuses {
			got = append(got, status.EntityID+" "+status.Limit.Name+" "+string(status.Source))
		}
		assert.Equal(t, []string{
			"key rpm entity", "key tpm override", "key usd override", "project rpm entity_default", "org rpm resource", "holding rpm resource",
		}, got)
		require.NoError(t, s.repo.DeleteLimits(ctx, admin.Scope{Everyone: true, Resource: model}))
		require.NoError(t, second(s.repo.SetConfig(ctx, admin.Scope{Everyone: true}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 2)}, OnUnavailable: dynalimit.Allow, Version: admin.AnyVersion})))
		report, err = s.limiter.Check(ctx, "org", model, nil)
		require.NoError(t, err)
		assert.Equal(t, sources.System, report.Statuses[0].Source)
		assert.Equal(t, dynalimit.Allow, report.OnUnavailable, "from the system's configuration")
		require.NoError(t, s.repo.DeleteLimits(ctx, admin.Scope{Everyone: true}))
		report, err = s.limiter.Check(ctx, "org", model, nil)
		require.NoError(t, err)
		assert.Equal(t, sources.Options, report.Statuses[0].Source)
	})
}

// Debt on a limit that a call does not name denies it nothing, so a dry run says
// so too, and so do a lease's statuses.
func TestDebtOfAnUnnamedLimitDeniesNobody(t *testing.T) {
	s := memProcess(t, perMinute())
	lease := s.acquire("u", dynalimit.Amounts{"tpm": 100})
	require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 50_000}))
	s.acquire("u", dynalimit.Amounts{"rpm": 1})

	report, err := s.limiter.Check(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
	require.NoError(t, err)
	require.True(t, report.Allowed)
	require.Zero(t, report.RetryAfter)
	for _, status := range append(report.Statuses, lease.Statuses()...) {
		require.False(t, status.Exceeded, status.Limit.Name)
		require.Zero(t, status.RetryAfter, status.Limit.Name)
		if status.Limit.Name == "tpm" {
			require.Less(t, status.Remaining, int64(0))
			require.Greater(t, status.Reset, time.Minute, "the debt shows")
		}
	}
	report, err = s.limiter.Check(t.Context(), "u", model, dynalimit.Amounts{"tpm": 1})
	require.NoError(t, err)
	require.False(t, report.Allowed, "named, it denies")
}
