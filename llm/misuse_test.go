package llm_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/llm"
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
			func() error { _, err := call.Settle(nilCtx, llm.Usage{}); return err },
			func() error { return call.Rollback(nilCtx) },
			func() error { return call.Extend(nilCtx) },
			func() error { return call.Meter().Close(nilCtx) },
		},
		"guard": {
			func() error { _, err := (*llm.Guard)(nil).Start(ctx, request()); return err },
			func() error { _, err := new(llm.Guard).Start(ctx, request()); return err },
			func() error { return new(llm.Guard).Do(ctx, request(), do) },
		},
		"call": {
			func() error { _, err := none.Settle(ctx, llm.Usage{}); return err },
			func() error { return none.Rollback(ctx) },
			func() error { return none.Extend(ctx) },
			func() error { return none.Meter().Close(ctx) },
			func() error { _, err := zero.Settle(ctx, llm.Usage{}); return err },
			func() error { return zero.Rollback(ctx) },
			func() error { return zero.Extend(ctx) },
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
	assert.Nil(t, none.Hold())
	none.Meter().Add(ctx, budget.Tokens{Input: 1})
	assert.Zero(t, none.Meter().Seen())
	call.Meter().Add(nilCtx, budget.Tokens{Input: 1})
	assert.Equal(t, budget.Tokens{Input: 1}, call.Meter().Seen(), "nothing is lost")
	require.NoError(t, call.Rollback(ctx), "the call is as it was")
}
