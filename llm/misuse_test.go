package llm_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

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
