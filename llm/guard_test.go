package llm_test

import (
	"context"
	"errors"
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

func TestBothSettleFromOneRecord(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		c := w.start(g, request())
		assert.Equal(t, []string{"premium", premiumModel}, []string{c.Label, c.Model})
		assert.Regexp(t, regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`), c.RequestID)
		rpm, tpm := w.left()
		assert.Equal(t, []int64{59, 94_000}, []int64{rpm, tpm})
		assert.Len(t, c.Lease().Statuses(), 2)

		w.settle(c)
		w.requireSettled("premium", callMicros)

		w.settle(c) // does nothing the second time
		require.NoError(t, c.Rollback(t.Context()), "nor does a deferred Rollback")
		w.requireSettled("premium", callMicros)
	})
}

func TestRollbackGivesEverythingBack(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for _, parts := range []with{both, {limiter: true}, {keeper: true}} {
			c := w.start(w.guard(parts), request())
			require.NoError(t, c.Rollback(t.Context()))
			require.NoError(t, c.Rollback(t.Context()))
			w.requireNothing()
			require.ErrorIs(t, c.Settle(t.Context(), used), llm.ErrEnded)
			w.requireNothing()
		}
	})
}

// TestResourceDefaultsToTheModel: limits per model need no mapping of labels.
func TestResourceDefaultsToTheModel(t *testing.T) {
	w := memWorld(t)
	r := request()
	r.Resource = ""
	c := w.start(w.guard(both), r)
	for _, s := range c.Lease().Statuses() {
		assert.Equal(t, premiumModel, s.Resource)
	}
	w.settle(c)
}

// TestTheLabelStepsDown when its quota is spent.
func TestTheLabelStepsDown(t *testing.T) {
	w := memWorld(t)
	w.org(20_000, 500_000)
	g := w.guard(both)
	r := request()
	for i, want := range []string{"premium", "premium", "standard"} { // the quota is soft: one call may pass it
		c := w.start(g, r)
		assert.Equal(t, want, c.Label, "call %d", i)
		w.settle(c)
		w.flush()
	}
	r.Label = "premium"
	_, err := g.Start(t.Context(), r)
	require.ErrorIs(t, err, prices.ErrQuotaExceeded, "a label that is named is not replaced")
	wait, ok := dynalimit.RetryAfter(err)
	assert.True(t, ok)
	assert.Equal(t, 12*time.Hour, wait, "until the day ends")
}

func TestMeasures(t *testing.T) {
	tokens := prices.Tokens{Input: 1, CacheRead: 10, CacheWrite5m: 100, CacheWrite1h: 1_000, Output: 10_000}
	for want, measure := range map[int64]llm.Measure{
		1: llm.Requests, 11_111: llm.TotalTokens, 1_111: llm.InputTokens, 10_000: llm.OutputTokens, 11_101: llm.UncachedTokens,
	} {
		n, err := measure(llm.Usage{Tokens: tokens})
		require.NoError(t, err)
		assert.Equal(t, want, n)
	}
	engines(t, func(t *testing.T, w *world) {
		w.limits(dynalimit.PerMinute("in", 10_000), dynalimit.PerMinute("out", 5_000))
		limits := map[string]llm.Measure{"in": llm.InputTokens, "out": llm.OutputTokens}
		c := w.start(w.guard(both, func(o *llm.Options) { o.Limits = limits }), request())
		assert.Equal(t, dynalimit.Amounts{"in": 2_000, "out": 4_000}, c.Lease().Used())
		w.settle(c)
		assert.Equal(t, dynalimit.Amounts{"in": 1_500, "out": 800}, c.Lease().Used())

		r := request()
		r.Limits = map[string]llm.Measure{"in": llm.InputTokens}
		c = w.start(w.guard(both), r)
		assert.Equal(t, dynalimit.Amounts{"in": 2_000}, c.Lease().Used(), "for one call")
		w.settle(c)
	})
}

// TestSlotOfACall: a call in flight gives its slot back in the write of its settlement, and however else it ends.
func TestSlotOfACall(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.limits(dynalimit.Concurrent("inflight", 1, time.Minute), dynalimit.PerMinute("tpm", 100_000))
		limits := map[string]llm.Measure{"inflight": llm.InFlight, "tpm": llm.TotalTokens}
		g := w.guard(with{limiter: true}, func(o *llm.Options) { o.Limits = limits })
		for _, end := range []func(*llm.Call) error{
			func(c *llm.Call) error { return c.Settle(t.Context(), used) },
			func(c *llm.Call) error { return c.Rollback(t.Context()) },
			func(c *llm.Call) error { return c.SettleSoon(t.Context(), used) },
		} {
			c := w.start(g, request())
			_, err := g.Start(t.Context(), request())
			require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
			require.NoError(t, end(c))
		}
		require.NoError(t, w.start(g, request()).Rollback(t.Context()))
	})
}

// TestEstimateIsCappedAtTheBurst: what the reply may have, and the prompt does
// not, does not keep a call out for ever.
func TestEstimateIsCappedAtTheBurst(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.limits(dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 5_000))
		g := w.guard(both)
		c := w.start(g, request())
		assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 5_000}, c.Lease().Used())
		require.NoError(t, c.Settle(t.Context(), llm.Usage{Tokens: prices.Tokens{Input: 2_000, Output: 3_900}}))
		_, tpm := w.left()
		assert.Equal(t, int64(-900), tpm)

		r := request()
		r.Entity, r.Batch = "user-3", true
		c = w.start(g, r)
		assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 4_000}, c.Lease().Used(), "a batch call leaves the reserve")
		w.settle(c)

		r = request()
		_, err := g.Start(t.Context(), r)
		wait, ok := dynalimit.RetryAfter(err)
		assert.True(t, ok)
		assert.Equal(t, 70_800*time.Millisecond, wait, "until the capped estimate fits")

		r.Estimate.InputTokens = 5_001
		_, err = g.Start(t.Context(), r)
		require.ErrorIs(t, err, dynalimit.ErrExceedsBurst)
		_, ok = dynalimit.RetryAfter(err)
		assert.False(t, ok, "no wait can help")

		r = request()
		r.Estimate.LikelyOutputTokens, r.AcquireOptions = 100, []dynalimit.AcquireOption{dynalimit.WithLimits(dynalimit.PerMinute("tpm", 50_000))}
		r.Entity = "user-2"
		c = w.start(g, r)
		assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 2_100}, c.Lease().Used(), "the likely reply")
		w.settle(c)
	})
}

func TestDo(t *testing.T) {
	failed := errors.New("503 overloaded")
	for name, test := range map[string]struct {
		usage  llm.Usage
		err    error
		micros int64 // 0: given back
	}{
		"used":             {used, nil, callMicros},
		"failed after use": {used, failed, callMicros},
		"failed":           {llm.Usage{}, failed, 0},
		"nothing used":     {llm.Usage{}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, w *world) {
				err := w.guard(both).Do(t.Context(), request(), func(_ context.Context, c *llm.Call) (llm.Usage, error) {
					assert.Equal(t, premiumModel, c.Model)
					return test.usage, test.err
				})
				require.ErrorIs(t, err, test.err)
				if test.micros == 0 {
					w.requireNothing()
				} else {
					w.requireSettled("premium", test.micros)
				}
			})
		})
	}
}

func TestDoCountsACallWithoutTokens(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		require.NoError(t, w.guard(both).Do(t.Context(), request(), func(context.Context, *llm.Call) (llm.Usage, error) {
			return llm.Usage{Status: llm.StatusOK}, nil
		}))
		rpm, tpm := w.left()
		assert.Equal(t, []int64{59, 100_000}, []int64{rpm, tpm})
		assert.Equal(t, int64(1), w.spent("premium").Requests)
	})
}

func TestDoGivesBackOnPanic(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		assert.PanicsWithValue(t, "boom", func() {
			_ = g.Do(t.Context(), request(), func(context.Context, *llm.Call) (llm.Usage, error) { panic("boom") })
		})
		w.requireNothing()
		assert.PanicsWithValue(t, "boom", func() {
			_ = g.Do(t.Context(), request(), func(ctx context.Context, c *llm.Call) (llm.Usage, error) {
				c.Meter().Add(used.Tokens)
				panic("boom")
			})
		})
		w.requireSettled("premium", callMicros)
	})
}

func TestBadInputIsRefusedBeforeAnyWrite(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		changed := func(change func(*llm.Request)) llm.Request {
			r := request()
			change(&r)
			return r
		}
		for field, r := range map[string]llm.Request{
			"estimate.InputTokens":        changed(func(r *llm.Request) { r.Estimate.InputTokens = -1 }),
			"estimate.MaxOutputTokens":    changed(func(r *llm.Request) { r.Estimate.MaxOutputTokens = math.MaxInt64 }),
			"estimate.LikelyOutputTokens": changed(func(r *llm.Request) { r.Estimate.LikelyOutputTokens = 4_001 }),
			"request.Limits":              changed(func(r *llm.Request) { r.Limits = map[string]llm.Measure{} }),
			"request.Limits[tpm]":         changed(func(r *llm.Request) { r.Limits = map[string]llm.Measure{"tpm": nil} }),
			"org_id":                      changed(func(r *llm.Request) { r.Org = "acme" }),
			"gold":                        changed(func(r *llm.Request) { r.Label = "gold" }),
			"request.Entity":              changed(func(r *llm.Request) { r.Entity = "" }),
			"amounts[images]": changed(func(r *llm.Request) {
				r.Limits = map[string]llm.Measure{"images": llm.Requests}
			}),
		} {
			_, err := w.guard(both).Start(t.Context(), r)
			require.ErrorContains(t, err, field)
			_, denied := dynalimit.RetryAfter(err)
			assert.False(t, denied)
		}
		alone := w.guard(with{limiter: true})
		_, err := alone.Start(t.Context(), changed(func(r *llm.Request) { r.Label = "premium" }))
		require.ErrorContains(t, err, "request.Label")
		_, err = alone.Start(t.Context(), changed(func(r *llm.Request) { r.Resource = "" }))
		require.ErrorContains(t, err, "request.Resource")
		w.requireNothing()

		c := w.start(w.guard(both), request())
		err = c.Settle(t.Context(), llm.Usage{Tokens: prices.Tokens{CacheRead: -1}})
		require.ErrorContains(t, err, "usage.Tokens.CacheRead")
		w.settle(c)
		w.requireSettled("premium", callMicros)
	})
}

// TestRecordTheBudgetRefuses: a record that is not valid can be corrected.
func TestRecordTheBudgetRefuses(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		c := w.start(w.guard(both), request())
		bad := used
		bad.Status = "a status that is longer than it may be"
		err := c.Settle(t.Context(), bad)
		var unsettled *llm.UnsettledError
		require.ErrorAs(t, err, &unsettled)
		require.NoError(t, unsettled.Lease)
		require.ErrorContains(t, unsettled.Budget, "status")
		require.NoError(t, c.Rollback(t.Context()), "the call happened: nothing is given back")
		_, tpm := w.left()
		assert.Equal(t, int64(97_700), tpm)
		w.settle(c)
		w.requireSettled("premium", callMicros)
	})
}

func TestOptions(t *testing.T) {
	limiter := &dynalimit.RateLimiter{}
	for want, o := range map[string]*llm.Options{
		"options: ":             nil,
		"neither a Limiter":     {},
		"options.Limits":        {Limiter: limiter, Limits: map[string]llm.Measure{}},
		"options.Limits[rpm]":   {Limiter: limiter, Limits: map[string]llm.Measure{"rpm": nil}},
		"options.SettleTimeout": {Limiter: limiter, SettleTimeout: -1},
	} {
		_, err := llm.New(o)
		var invalid *llm.ValidationError
		require.ErrorAs(t, err, &invalid)
		assert.ErrorContains(t, err, want)
	}
}

// Every call without a context, or of what was never made, says so.
func TestMisuseIsSaid(t *testing.T) {
	w := memWorld(t)
	guard := w.guard(both)
	ctx := t.Context()
	var nilCtx context.Context
	none, zero := (*llm.Call)(nil), new(llm.Call)
	call, err := guard.Start(ctx, request())
	require.NoError(t, err)
	do := func(context.Context, *llm.Call) (llm.Usage, error) { return llm.Usage{}, nil }
	for field, calls := range map[string][]func() error{
		"ctx": {
			func() error { _, err := guard.Start(nilCtx, request()); return err },
			func() error { return guard.Do(nilCtx, request(), do) },
			func() error { return guard.Close(nilCtx) },
			func() error { return call.Settle(nilCtx, llm.Usage{}) },
			func() error { return call.Rollback(nilCtx) },
			func() error { return call.Meter().Close(nilCtx) },
		},
		"guard": {
			func() error { _, err := (*llm.Guard)(nil).Start(ctx, request()); return err },
			func() error { _, err := new(llm.Guard).Start(ctx, request()); return err },
			func() error { return new(llm.Guard).Do(ctx, request(), do) },
			func() error { return new(llm.Guard).Close(ctx) },
		},
		"call": {
			func() error { return none.Settle(ctx, llm.Usage{}) },
			func() error { return none.Rollback(ctx) },
			func() error { return none.Meter().Close(ctx) },
			func() error { return zero.Settle(ctx, llm.Usage{}) },
			func() error { return zero.Rollback(ctx) },
			func() error { return new(llm.Meter).Close(ctx) },
		},
		"fn": {func() error { return guard.Do(ctx, request(), nil) }},
	} {
		for i, call := range calls {
			require.NotPanics(t, func() {
				var v *llm.ValidationError
				require.ErrorAs(t, call(), &v, "%s %d", field, i)
				require.Equal(t, field, v.Field, i)
				require.Equal(t, "llm", v.Package)
			}, "%s %d", field, i)
		}
	}
	assert.Nil(t, none.Lease())
	none.Meter().Add(prices.Tokens{Input: 1})
	assert.Zero(t, none.Meter().Seen())
	call.Meter().Add(prices.Tokens{Input: 1})
	assert.Equal(t, prices.Tokens{Input: 1}, call.Meter().Seen(), "nothing is lost")
	require.NoError(t, call.Rollback(ctx), "the call is as it was")
}

// What a guard cannot work with is refused when it is made.
func TestGuardIsRefusedWhatCannotWork(t *testing.T) {
	w := memWorld(t)
	measures := func(name string) map[string]llm.Measure { return map[string]llm.Measure{name: llm.Requests} }
	for name, test := range map[string]struct {
		field string
		opts  llm.Options
	}{
		"limiter":           {"options.Limiter", llm.Options{Limiter: (*dynalimit.RateLimiter)(nil), Keeper: w.keeper}},
		"keeper":            {"options.Keeper", llm.Options{Limiter: w.limiter, Keeper: (*fakeKeeper)(nil)}},
		"nothing to charge": {"options.Limits", llm.Options{Keeper: w.keeper, Limits: measures("rpm")}},
		"limit's name":      {"options.Limits", llm.Options{Limiter: w.limiter, Limits: measures("#")}},
	} {
		_, err := llm.New(&test.opts)
		var v *llm.ValidationError
		require.ErrorAs(t, err, &v, name)
		assert.Equal(t, test.field, v.Field, name)
	}
}

// What the limiter would refuse is refused before anything is asked.
func TestNamesAreCheckedFirst(t *testing.T) {
	w := memWorld(t)
	guard := w.guard(both)
	call, err := guard.Start(t.Context(), request()) // what is read once has been
	require.NoError(t, err)
	require.NoError(t, call.Rollback(t.Context()))
	for field, change := range map[string]func(*llm.Request){
		"request.Entity":   func(r *llm.Request) { r.Entity = "a#b" },
		"request.Resource": func(r *llm.Request) { r.Resource = "\xff" },
		"request.Limits":   func(r *llm.Request) { r.Limits = map[string]llm.Measure{"r m": llm.Requests} },
	} {
		r := request()
		change(&r)
		before := w.db.Meter()
		_, err := guard.Start(t.Context(), r)
		var v *llm.ValidationError
		require.ErrorAs(t, err, &v, field)
		assert.Equal(t, field, v.Field)
		assert.Zero(t, w.db.Meter().Sub(before).Requests(), field)
	}
}

// A denial that a test makes up can be printed.
func TestEmptyDenialHasText(t *testing.T) {
	assert.NotPanics(t, func() { assert.NotEmpty(t, (&llm.DeniedError{}).Error()) })
}
