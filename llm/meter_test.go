package llm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

func TestMeterSettlesWhatWasSeen(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		c := w.start(w.guard(both), request())
		m := c.Meter()
		assert.Same(t, m, c.Meter())
		m.Add(prices.Tokens{Input: 1_500})
		for range 8 {
			m.Add(prices.Tokens{Output: 90}) // a guess per chunk
		}
		assert.Equal(t, prices.Tokens{Input: 1_500, Output: 720}, m.Seen())
		m.Set(used.Tokens) // the provider's last word
		require.NoError(t, m.Close(t.Context()))
		w.requireSettled("premium", callMicros)
		require.NoError(t, m.Close(t.Context()))
		w.requireSettled("premium", callMicros)
	})
}

// TestCutStream: the client hangs up in the middle; nobody reported the prompt.
func TestCutStream(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		err := w.guard(both).Do(ctx, request(), func(ctx context.Context, c *llm.Call) (llm.Usage, error) {
			for i := range 100 {
				c.Meter().Add(prices.Tokens{Output: 10})
				if i == 29 {
					hangUp()
				}
				if err := ctx.Err(); err != nil {
					return llm.Usage{}, err
				}
			}
			return llm.Usage{}, nil
		})
		require.ErrorIs(t, err, context.Canceled)
		rpm, tpm := w.left()
		assert.Equal(t, []int64{59, 100_000 - 2_300}, []int64{rpm, tpm}, "the prompt's estimate and 300 tokens")
		l := w.spent("premium")
		assert.Equal(t, []int64{2_000*3 + 300*15, 1}, []int64{l.CostMicros, l.Requests})
	})
}

// TestStreamWithoutUsageKeepsItsEstimate: it was sent, and billed. Rollback says that it was
// not.
func TestStreamWithoutUsageKeepsItsEstimate(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		g := w.guard(both)
		none := w.start(g, request())
		require.NoError(t, none.Rollback(t.Context()))
		require.NoError(t, none.Meter().Close(t.Context()))
		w.requireNothing()

		r := request()
		r.Estimate.LikelyOutputTokens = 1_000
		c := w.start(g, r)
		require.NoError(t, c.Meter().Close(t.Context()))
		require.NoError(t, c.Meter().Close(t.Context()))
		w.flush()
		rpm, tpm := w.left()
		assert.Equal(t, []int64{59, 100_000 - 3_000}, []int64{rpm, tpm})
		l := w.spent("premium")
		assert.Equal(t, []int64{2_000*3 + 1_000*15, 1}, []int64{l.CostMicros, l.Requests})
	})
}

// TestRecordIsCheckedBeforeTheCall: what the budget would refuse afterwards is
// refused before anything is spent.
func TestRecordIsCheckedBeforeTheCall(t *testing.T) {
	for name, change := range map[string]func(*llm.Request){
		"tags.user":                    func(r *llm.Request) { r.Tags = map[string]string{"user": "alice@example.com"} },
		"tags":                         func(r *llm.Request) { r.Tags = map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"} },
		"request_id":                   func(r *llm.Request) { r.RequestID = "00000000-0000-4000-8000-00000000000A" },
		"a request id that is no UUID": func(r *llm.Request) { r.RequestID = "req-1" },
		"a label that is no name":      func(r *llm.Request) { r.Label = "no name" },
	} {
		t.Run(name, func(t *testing.T) {
			w := memWorld(t)
			w.otherOrg("premium", "standard")
			r := request()
			r.Org = other
			change(&r)
			err := w.guard(both).Do(t.Context(), r, func(context.Context, *llm.Call) (llm.Usage, error) {
				t.Error("the call is made")
				return used, nil
			})
			var bad *fault.ValidationError
			require.ErrorAs(t, err, &bad)
			rpm, tpm := w.left()
			assert.Equal(t, []int64{60, 100_000}, []int64{rpm, tpm})
		})
	}
	w := memWorld(t)
	c := w.start(w.guard(with{limiter: true}), llm.Request{Entity: user, Resource: "chat", Estimate: estimate, RequestID: "req-1"})
	assert.Equal(t, "req-1", c.RequestID, "without a budget it is anything")
	w.settle(c)
}

// TestAdmittedCallIsCountedWithoutItsLabel: the label leaves the ordering while
// the call is under way.
func TestAdmittedCallIsCountedWithoutItsLabel(t *testing.T) {
	w := memWorld(t)
	w.otherOrg("premium", "standard")
	r := request()
	r.Org = other
	require.NoError(t, w.guard(both).Do(t.Context(), r, func(context.Context, *llm.Call) (llm.Usage, error) {
		w.otherOrg("standard")
		return used, nil
	}))
	assert.Equal(t, int64(callMicros), w.spentOf(other, "premium").CostMicros)
	assert.Empty(t, w.refused)
}

// TestCutBeforeTheFirstTokenKeepsThePrompt: it was on its way, and is billed.
func TestCutBeforeTheFirstTokenKeepsThePrompt(t *testing.T) {
	promptMicros := int64(2_000 * 3)
	type test struct {
		err    func(context.Context, context.CancelFunc, *llm.Call) error
		micros int64 // 0: given back
	}
	for name, test := range map[string]test{
		"the client hangs up": {func(ctx context.Context, cancel context.CancelFunc, _ *llm.Call) error {
			cancel()
			return fmt.Errorf("post: %w", ctx.Err())
		}, promptMicros},
		"the client hangs up, and the error does not say so": {func(_ context.Context, cancel context.CancelFunc, _ *llm.Call) error {
			cancel()
			return errors.New("stream closed")
		}, promptMicros},
		"a deadline of the function's own": {func(context.Context, context.CancelFunc, *llm.Call) error {
			return fmt.Errorf("post: %w", context.DeadlineExceeded)
		}, promptMicros},
		"the provider refuses": {func(context.Context, context.CancelFunc, *llm.Call) error {
			return errors.New("429 too many requests")
		}, 0},
		"nothing was sent": {func(ctx context.Context, cancel context.CancelFunc, c *llm.Call) error {
			cancel()
			return errors.Join(ctx.Err(), c.Rollback(ctx))
		}, 0},
		"nothing had to be sent": {func(_ context.Context, cancel context.CancelFunc, _ *llm.Call) error {
			cancel()
			return nil
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := memWorld(t)
			w.otherOrg("premium", "standard")
			r := request()
			r.Org = other
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_ = w.guard(both).Do(ctx, r, func(ctx context.Context, c *llm.Call) (llm.Usage, error) {
				return llm.Usage{}, test.err(ctx, cancel, c)
			})
			rpm, tpm := w.left()
			l := w.spentOf(other, "premium")
			want := []int64{59, 98_000, promptMicros, 1}
			if test.micros == 0 {
				want = []int64{60, 100_000, 0, 0}
			}
			assert.Equal(t, want, []int64{rpm, tpm, l.CostMicros, l.Requests})
		})
	}
	t.Run("a stream without a token", func(t *testing.T) {
		w := memWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		c := w.start(w.guard(both), request())
		cancel()
		require.NoError(t, c.Meter().Close(ctx))
		assert.Equal(t, promptMicros, w.spent("premium").CostMicros)
	})
	t.Run("a panic after the client hung up", func(t *testing.T) {
		w := memWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		assert.PanicsWithValue(t, "boom", func() {
			_ = w.guard(both).Do(ctx, request(), func(context.Context, *llm.Call) (llm.Usage, error) {
				cancel()
				panic("boom")
			})
		})
		assert.Equal(t, promptMicros, w.spent("premium").CostMicros)
	})
}

// TestDoRunsNothingForACallerThatIsGone: nothing was sent, nothing is kept.
func TestDoRunsNothingForACallerThatIsGone(t *testing.T) {
	w := memWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	g := w.guard(both, func(o *llm.Options) { o.Limiter = endsStart{w.limiter, cancel} })
	err := g.Do(ctx, request(), func(context.Context, *llm.Call) (llm.Usage, error) {
		t.Error("it is run")
		return used, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	w.requireNothing()
}

// TestImpossibleUsageIsCountedAtWhatIsKnown: nobody could correct it after Do.
func TestImpossibleUsageIsCountedAtWhatIsKnown(t *testing.T) {
	for name, test := range map[string]struct {
		usage  llm.Usage
		meter  prices.Tokens
		field  string
		micros int64
	}{
		"negative":    {llm.Usage{Tokens: prices.Tokens{Input: -1, Output: 10}}, prices.Tokens{}, "usage.Tokens.Input", estimateMicros},
		"huge":        {llm.Usage{Tokens: prices.Tokens{Input: 200_000_000}}, prices.Tokens{}, "usage.Tokens.Input", estimateMicros},
		"metered":     {llm.Usage{Tokens: prices.Tokens{Input: 200_000_000}}, used.Tokens, "usage.Tokens.Input", callMicros},
		"meter":       {llm.Usage{}, prices.Tokens{Output: -1}, "usage.Tokens.Output", estimateMicros},
		"long status": {llm.Usage{Tokens: used.Tokens, Status: strings.Repeat("x", 33)}, prices.Tokens{}, "usage.Status", callMicros},
	} {
		t.Run(name, func(t *testing.T) {
			w := memWorld(t)
			err := w.guard(both).Do(t.Context(), request(), func(ctx context.Context, c *llm.Call) (llm.Usage, error) {
				c.Meter().Add(test.meter)
				return test.usage, nil
			})
			var bad *llm.ValidationError
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, test.field, bad.Field)
			require.ErrorContains(t, err, "the call is counted")
			l := w.spent("premium")
			assert.Equal(t, []int64{test.micros, 1}, []int64{l.CostMicros, l.Requests})
		})
	}
}

// TestMeasureThatFails: the user's function neither ends the process nor leaks
// what is held.
func TestMeasureThatFails(t *testing.T) {
	for name, fail := range map[string]func() (int64, error){
		"panics":      func() (int64, error) { panic("a bug") },
		"is negative": func() (int64, error) { return -1, nil },
	} {
		t.Run(name+" before the call", func(t *testing.T) {
			w := memWorld(t)
			g := w.guard(both, func(o *llm.Options) {
				o.Limits = map[string]llm.Measure{"tpm": func(llm.Usage) (int64, error) { return fail() }}
			})
			before := w.db.Meter()
			_, err := g.Start(t.Context(), request())
			var bad *llm.ValidationError
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, "limits[tpm]", bad.Field)
			assert.Zero(t, w.db.Meter().Sub(before).WriteUnits(), "it is found before any write")
			w.requireNothing()
		})
		t.Run(name+" after the call", func(t *testing.T) {
			w := memWorld(t)
			g := w.guard(both, func(o *llm.Options) {
				o.Limits = map[string]llm.Measure{"tpm": func(u llm.Usage) (int64, error) {
					if u.Tokens == used.Tokens {
						return fail()
					}
					return u.Tokens.Input + u.Tokens.Output, nil
				}}
			})
			err := g.Do(t.Context(), request(), func(context.Context, *llm.Call) (llm.Usage, error) { return used, nil })
			var unsettled *llm.UnsettledError
			require.ErrorAs(t, err, &unsettled)
			require.NoError(t, unsettled.Budget)
			require.ErrorContains(t, unsettled.Lease, "limits[tpm]")
			l := w.spent("premium")
			assert.Equal(t, []int64{callMicros, 1}, []int64{l.CostMicros, l.Requests})
		})
	}
}

type panics struct{}

func (panics) Acquire(context.Context, string, string, dynalimit.Amounts, ...dynalimit.AcquireOption) (*dynalimit.Lease, error) {
	panic("a bug")
}

// TestLimiterThatPanics: the panic goes on.
func TestLimiterThatPanics(t *testing.T) {
	w := memWorld(t)
	g := w.guard(both, func(o *llm.Options) { o.Limiter = panics{} })
	assert.PanicsWithValue(t, "a bug", func() { _, _ = g.Start(t.Context(), request()) })
	w.requireNoMoney()
}

// TestGuardThatStartsInAnOutage: a label and a resource are enough.
func TestGuardThatStartsInAnOutage(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.budget.away.Store(true)
		keeper := w.newKeeper()
		g := w.guard(with{keeper: true}, func(o *llm.Options) { o.Keeper = keeper })
		r := request()
		r.Label, r.Resource = "premium", premiumModel
		c := w.start(g, r)
		assert.Equal(t, []string{"premium", premiumModel}, []string{c.Label, c.Model})
		w.settle(c)
		for _, change := range []func(*llm.Request){func(r *llm.Request) { r.Label = "" }, func(r *llm.Request) { r.Resource = "" }} {
			other := r
			change(&other)
			_, err := g.Start(t.Context(), other)
			var away *fault.UnavailableError
			require.ErrorAs(t, err, &away)
		}
		w.budget.away.Store(false)
		<-time.After(time.Minute)
		assert.Equal(t, int64(callMicros), w.spent("premium").CostMicros)
	})
}
