package llm_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

// moneyWorld is one with a guard of the limiter alone, for a million dollars a day.
func moneyWorld(t *testing.T, adapt ...func(*llm.Options)) (*world, *llm.Guard) {
	w := memWorld(t)
	w.clock.set(autumn)
	return w, w.moneyGuard(million*million, adapt...)
}

func callOf(model string, e llm.Estimate) llm.Request {
	return llm.Request{Entity: user, Resource: "all", Model: model, Estimate: e}
}

// usd is what a call holds, in µ$.
func usd(c *llm.Call) int64 { return c.Lease().Used()["usd"] }

// TestTheMostIsHeld: what a discount may take off the bill is held all the same.
func TestTheMostIsHeld(t *testing.T) {
	w, g := moneyWorld(t)
	for name, tt := range map[string]struct {
		model    string
		estimate llm.Estimate
		micros   float64
	}{
		"a tier that is cheaper":        {"gpt-5", llm.Estimate{InputTokens: 800, MaxOutputTokens: 100, ServiceTier: "flex"}, 800*1.25*1.25 + 100*10},
		"no tier is named":              {"gpt-5", llm.Estimate{InputTokens: 800, MaxOutputTokens: 100}, 800*1.25*1.25 + 100*10},
		"no hour is asked for":          {"claude-opus-5", llm.Estimate{InputTokens: 800, MaxOutputTokens: 100, ServiceTier: "standard_only"}, 800*6.25 + 100*25},
		"the context is short":          {"claude-sonnet-4-5", llm.Estimate{InputBytes: 199_000, MaxOutputTokens: 100}, 200_000*3.75 + 100*15},
		"the context may be long":       {"claude-sonnet-4-5", llm.Estimate{InputBytes: 199_001, MaxOutputTokens: 100}, 200_001*7.5 + 100*22.5},
		"the tokenizer counted it":      {"gemini-2.0-flash", llm.Estimate{InputTokens: 800, MaxOutputTokens: 100}, 800*0.125 + 100*0.4},
		"the likely reply is much less": {"gemini-2.0-flash", llm.Estimate{InputTokens: 800, MaxOutputTokens: 100, LikelyOutputTokens: 1}, 800*0.125 + 100*0.4},
		"the tools are asked for at most": {"claude-haiku-4-5", llm.Estimate{
			InputTokens: 800, AddedTokens: 200, MaxOutputTokens: 100, Tools: map[string]int64{"web_search": 2},
		}, 1_000*1.25 + 100*5 + 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			assert.InDelta(t, math.Ceil(tt.micros), usd(w.start(g, callOf(tt.model, tt.estimate))), 0)
		})
	}
}

// TestWhatMayCostAnythingIsRefused before anything is taken.
func TestWhatMayCostAnythingIsRefused(t *testing.T) {
	w, g := moneyWorld(t)
	good := llm.Estimate{InputTokens: 800, MaxOutputTokens: 100}
	with := func(change func(*llm.Estimate)) llm.Estimate {
		e := good
		change(&e)
		return e
	}
	search := func(uses int64) func(*llm.Estimate) {
		return func(e *llm.Estimate) { e.AddedTokens, e.Tools = 1, map[string]int64{"web_search": uses} }
	}
	before := w.db.Meter()
	for name, tt := range map[string]struct {
		model    string
		estimate llm.Estimate
		field    string
	}{
		"a version":           {"gpt-4o-v2", good, "model"},
		"a path":              {"acme-tuned/gpt-4o-mini", good, "model"},
		"a fine-tuned model":  {"ft:gpt-4.1-mini-2025-04-14:acme::abc123", good, "model"},
		"a custom model":      {"arn:aws:bedrock:us-east-1:1:custom-model-deployment/amazon.nova-pro-v1:0", good, "model"},
		"another version":     {"anthropic.claude-3-5-sonnet-20241022-v3:0", good, "model"},
		"a prefix":            {"us.gpt-4o", good, "model"},
		"a revision":          {"gpt-4o:0", good, "model"},
		"no prompt":           {"gpt-4o", with(func(e *llm.Estimate) { e.InputTokens = 0 }), "estimate.InputBytes"},
		"no bound":            {"gpt-4o", with(func(e *llm.Estimate) { e.MaxOutputTokens = 0 }), "estimate.MaxOutputTokens"},
		"an unknown tier":     {"claude-opus-5", with(func(e *llm.Estimate) { e.ServiceTier = "fast" }), "estimate.ServiceTier"},
		"sound without price": {"gpt-4o", with(func(e *llm.Estimate) { e.Sound = true }), "estimate.Sound"},
		"unbounded tool":      {"claude-opus-5", with(search(0)), "estimate.Tools[web_search]"},
		"tool without price":  {"gpt-4o", with(search(1)), "estimate.Tools[web_search]"},
		"what tools bring in": {"claude-opus-5", with(func(e *llm.Estimate) { search(1)(e); e.AddedTokens = 0 }), "estimate.AddedTokens"},
		"many choices":        {"gpt-4o", with(func(e *llm.Estimate) { e.Choices = 1_001 }), "estimate.Choices"},
		"negative bytes":      {"gpt-4o", with(func(e *llm.Estimate) { e.InputBytes = -1 }), "estimate.InputBytes"},
		"negative uses":       {"gpt-4o", with(search(-1)), "estimate.Tools[web_search]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := g.Start(t.Context(), callOf(tt.model, tt.estimate))
			var bad *llm.ValidationError
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, tt.field, bad.Field)
			assert.Equal(t, tt.field == "model", errors.Is(err, llm.ErrNoPrice))
		})
	}
	assert.Zero(t, w.db.Meter().Sub(before).Requests())
}

// TestTheTierOfACall: it is the one that was told, else the one that was asked for, else the standard
// one. A tier without a price costs what the dearest does. gpt-5 costs $1.25, $2.50 with priority and
// $0.625 as flex for a million tokens.
func TestTheTierOfACall(t *testing.T) {
	w, g := moneyWorld(t)
	for _, tt := range []struct {
		asked, told string
		micros      float64
	}{
		{"", "", 1_250},
		{"auto", "", 1_250},
		{"auto", "auto", 1_250},
		{"", "priority", 2_500},
		{"", "flex", 625},
		{"", "scale", 2_500},
		{"priority", "", 2_500},
		{"priority", "default", 1_250},
		{"flex", "", 625},
		{"default", "scale", 2_500},
	} {
		t.Run(tt.asked+" "+tt.told, func(t *testing.T) {
			c := w.start(g, callOf("gpt-5", llm.Estimate{InputTokens: 1_000, MaxOutputTokens: 1, ServiceTier: tt.asked}))
			require.NoError(t, c.Settle(t.Context(), llm.Usage{Tokens: tokens{Input: 1_000}, ServiceTier: tt.told}))
			assert.InDelta(t, tt.micros, usd(c), 0)
		})
	}
}

// TestToolsWithoutAFeeCostTokensAlone: also those need a bound of what they bring in.
func TestToolsWithoutAFeeCostTokensAlone(t *testing.T) {
	w, g := moneyWorld(t)
	for _, tool := range []string{"web_fetch", "mcp", "url_context"} {
		e := llm.Estimate{InputTokens: 1_000, AddedTokens: 500, MaxOutputTokens: 100, Tools: map[string]int64{tool: 5}}
		c := w.start(g, callOf("claude-haiku-4-5", e))
		assert.Equal(t, int64(1_500*5/4+500), usd(c))
		require.NoError(t, c.Settle(t.Context(), llm.Usage{Tokens: tokens{Input: 1_500}, Tools: map[string]int64{tool: 5}}))
		assert.Equal(t, int64(1_500), usd(c), "a search's price is not its")
		e.Tools[tool] = 0
		_, err := g.Start(t.Context(), callOf("claude-haiku-4-5", e))
		require.ErrorContains(t, err, "no bound")
	}
}

// TestAGuardKnowsWhetherItLimitsMoney, also behind a measure of the user's own.
func TestAGuardKnowsWhetherItLimitsMoney(t *testing.T) {
	w := memWorld(t)
	cost := llm.Cost(prices.CatalogList())
	for _, tt := range []struct {
		limits map[string]llm.Measure
		money  bool
	}{
		{nil, false},
		{map[string]llm.Measure{"tpm": llm.TotalTokens}, false},
		{map[string]llm.Measure{"tpm": llm.TotalTokens, "usd": cost}, true},
		{map[string]llm.Measure{"cents": func(u llm.Usage) (int64, error) { n, err := cost(u); return n / 10_000, err }}, true},
		{map[string]llm.Measure{"odd": func(llm.Usage) (int64, error) { panic("no usage") }}, false},
	} {
		g, err := llm.New(&llm.Options{Limiter: w.limiter, Limits: tt.limits})
		require.NoError(t, err)
		assert.Equal(t, tt.money, g.LimitsMoney())
	}
	assert.False(t, (*llm.Guard)(nil).LimitsMoney())
}

// TestMoneyIsNotLoweredToTheBurst: a call that is dearer than the whole limit is not made.
func TestMoneyIsNotLoweredToTheBurst(t *testing.T) {
	w := memWorld(t)
	g := w.moneyGuard(1_000)
	e := llm.Estimate{InputTokens: 1, MaxOutputTokens: 101, ServiceTier: "default"}
	_, err := g.Start(t.Context(), callOf("gpt-4o", e))
	require.ErrorIs(t, err, dynalimit.ErrExceedsBurst)
	_, ok := dynalimit.RetryAfter(err)
	assert.False(t, ok)
	e.MaxOutputTokens = 99
	assert.Equal(t, int64(994), usd(w.start(g, callOf("gpt-4o", e))))
}

// moving are prices that go up with each question.
type moving struct{ rate int64 }

func (m *moving) Price(string, time.Time) (prices.CallPrice, error) {
	m.rate += million
	return prices.CallPrice{Rates: prices.Rates{Input: m.rate, Output: m.rate}}, nil
}

// TestACallIsSettledAtThePriceOfItsEstimate, which was asked for once.
func TestACallIsSettledAtThePriceOfItsEstimate(t *testing.T) {
	prices := &moving{}
	w, g := moneyWorld(t, func(o *llm.Options) {
		o.Limits = map[string]llm.Measure{"usd": llm.Cost(prices)}
	})
	c := w.start(g, callOf("any", llm.Estimate{InputTokens: 1_000, MaxOutputTokens: 1_000}))
	assert.Equal(t, int64(2_250), usd(c))
	w.settle(c)
	assert.Equal(t, int64(2_300), usd(c))
	assert.Equal(t, int64(million), prices.rate)
}

// TestCostAlone: a measure can be asked without a guard.
func TestCostAlone(t *testing.T) {
	micros, err := llm.Cost(prices.CatalogList())(llm.Usage{Model: "gpt-4o-mini", Time: autumn, ServiceTier: "default", Tokens: tokens{Input: 1}})
	require.NoError(t, err)
	assert.Equal(t, int64(1), micros, "rounded up")
	_, err = llm.Cost(nil)(llm.Usage{Model: "gpt-4o-mini"})
	require.ErrorContains(t, err, "CatalogList")
}

// TestMoneyOfWhatNobodyReported: what is not known costs what was held for it.
func TestMoneyOfWhatNobodyReported(t *testing.T) {
	const in, cacheWrite, out, search = 1.0, 1.25, 5.0, 10_000.0
	plain := llm.Estimate{InputTokens: 400, InputBytes: 2_000, MaxOutputTokens: 4_000, ServiceTier: "standard"}
	tools := plain
	tools.AddedTokens, tools.Tools = 1_000, map[string]int64{"web_search": 3}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	type end = func(ctx context.Context, c *llm.Call) error
	metered := func(seen tokens) end {
		return func(ctx context.Context, c *llm.Call) error {
			c.Meter().Set(seen)
			return c.Meter().Close(ctx)
		}
	}
	settled := func(u llm.Usage) end {
		return func(ctx context.Context, c *llm.Call) error { return c.Settle(ctx, u) }
	}
	for name, tt := range map[string]struct {
		estimate llm.Estimate
		ctx      context.Context
		end      end
		micros   float64
	}{
		"cut in the middle":            {plain, gone, metered(tokens{Input: 450, Output: 100}), 450*in + 600*out},
		"cut near the end":             {plain, gone, metered(tokens{Input: 450, Output: 3_900}), 450*in + 4_000*out},
		"cut, without its prompt":      {plain, gone, metered(tokens{Output: 100}), 3_000*cacheWrite + 600*out},
		"cut before the first token":   {plain, gone, metered(tokens{}), 3_000*cacheWrite + 500*out},
		"cut while it searches":        {tools, gone, metered(tokens{Input: 450, Output: 100}), 4_000*cacheWrite + 600*out + 3*search},
		"said to be cut":               {plain, t.Context(), settled(llm.Usage{Tokens: tokens{Input: 450, Output: 100}, Status: llm.StatusCut}), 450*in + 600*out},
		"whole":                        {plain, t.Context(), metered(tokens{Input: 450, Output: 100}), 450*in + 100*out},
		"whole, without its prompt":    {plain, t.Context(), metered(tokens{Output: 100}), 3_000*cacheWrite + 100*out},
		"without any usage":            {plain, t.Context(), metered(tokens{}), 3_000*cacheWrite + 4_000*out},
		"metered, with searches":       {tools, t.Context(), metered(tokens{Input: 450, Output: 100}), 450*in + 100*out + 3*search},
		"settled, with a search":       {tools, t.Context(), settled(llm.Usage{Tokens: tokens{Input: 450, Output: 100}, Tools: map[string]int64{"web_search": 1}}), 450*in + 100*out + search},
		"a tool that has no price":     {tools, t.Context(), settled(llm.Usage{Tokens: tokens{Input: 450}, Tools: map[string]int64{"fetch": 1}}), 450*in + search},
		"a tier that has no price":     {plain, t.Context(), settled(llm.Usage{Tokens: tokens{Input: 450}, ServiceTier: "batch"}), 450 * in},
		"a meter that was never right": {plain, t.Context(), metered(tokens{Input: -1}), 3_000*cacheWrite + 4_000*out},
	} {
		t.Run(name, func(t *testing.T) {
			w, g := moneyWorld(t)
			c := w.start(g, callOf("claude-haiku-4-5", tt.estimate))
			held := usd(c)
			_ = tt.end(tt.ctx, c) // an impossible usage is said; what is charged matters here
			require.NoError(t, g.Close(t.Context()))
			assert.InDelta(t, tt.micros, usd(c), 0)
			assert.LessOrEqual(t, usd(c), held)
		})
	}
}

// TestSoundThatAMeterCannotTellIsTheWholePrompt.
func TestSoundThatAMeterCannotTellIsTheWholePrompt(t *testing.T) {
	w, g := moneyWorld(t, func(o *llm.Options) { o.CutTokens = 10 })
	e := llm.Estimate{InputTokens: 2_000, MaxOutputTokens: 1_000, Sound: true}
	c := w.start(g, callOf("gemini-2.5-flash", e))
	c.Meter().Set(tokens{Input: 1_000, Output: 100})
	require.NoError(t, c.Meter().Close(t.Context()))
	require.NoError(t, g.Close(t.Context()))
	assert.Equal(t, int64(1_000+250), usd(c))

	c = w.start(g, callOf("gemini-2.5-flash", e))
	require.NoError(t, c.Settle(t.Context(), llm.Usage{Status: llm.StatusCut, SoundTokens: 10, Tokens: tokens{Input: 1_000, Output: 100}}))
	assert.Equal(t, int64(990*3/10+10+275), usd(c))
	bad := c.Settle(t.Context(), llm.Usage{SoundTokens: 11, Tokens: tokens{Input: 10}})
	require.ErrorContains(t, bad, "usage.SoundTokens")
	bad = c.Settle(t.Context(), llm.Usage{Tools: map[string]int64{"web_search": -1}})
	require.ErrorContains(t, bad, "usage.Tools[web_search]")
}

// TestAMoneyLimitIsNotSkipped: the guard skips limits that nobody has, but not this one.
func TestAMoneyLimitIsNotSkipped(t *testing.T) {
	w := memWorld(t)
	w.clock.set(autumn)
	w.limits(dynalimit.PerMinute("rpm", 60))
	g := w.guard(with{limiter: true}, func(o *llm.Options) {
		o.Limits = map[string]llm.Measure{"rpm": llm.Requests, "tpm": llm.TotalTokens, "usd": llm.Cost(prices.CatalogList())}
	})
	r := callOf("gpt-4o", llm.Estimate{InputTokens: 1, MaxOutputTokens: 1})
	_, err := g.Start(t.Context(), r)
	var bad *llm.ValidationError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, "limits[usd]", bad.Field)
	report, err := w.limiter.Check(t.Context(), user, "all", nil)
	require.NoError(t, err)
	assert.Equal(t, int64(60), report.Statuses[0].Remaining, "what was taken is given back")

	admins := admin.New(w.repository())
	require.NoError(t, admins.Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "free"}))
	r.Entity = "free"
	w.settle(w.start(g, r))
}

// TestMoneyInAnOutage: the limiter's policy decides.
func TestMoneyInAnOutage(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		g := w.moneyGuard(million)
		w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
		r := callOf("gpt-4o", llm.Estimate{InputTokens: 1, MaxOutputTokens: 1})
		r.AcquireOptions = []dynalimit.AcquireOption{dynalimit.WithOnUnavailable(dynalimit.Allow)}
		c := w.start(g, r)
		assert.True(t, c.Lease().Degraded())
		w.settle(c)
		w.recovers()
	})
}

// TestMoneyBesideAKeeper: the label says the model, and both count the call.
func TestMoneyBesideAKeeper(t *testing.T) {
	w := memWorld(t)
	w.limits(dynalimit.PerDay("usd", million))
	g := w.guard(both, func(o *llm.Options) {
		o.Limits = map[string]llm.Measure{"usd": llm.Cost(prices.CatalogList())}
	})
	c := w.start(g, request())
	assert.Equal(t, premiumModel, c.Model)
	assert.Equal(t, int64(2_000*3.75+4_000*15), usd(c))
	w.settle(c)
	assert.Equal(t, int64(callMicros), usd(c))
	assert.Equal(t, int64(callMicros), w.spent("premium").CostMicros)
}

// TestTheModelIsTheResourceByDefault, and the other way round.
func TestTheModelIsTheResourceByDefault(t *testing.T) {
	w, g := moneyWorld(t)
	e := llm.Estimate{InputTokens: 1, MaxOutputTokens: 1}
	c := w.start(g, llm.Request{Entity: user, Resource: "gpt-4o", Estimate: e})
	assert.Equal(t, "gpt-4o", c.Model)
	c = w.start(g, llm.Request{Entity: user, Model: "gpt-4o", Estimate: e})
	assert.Equal(t, "gpt-4o", c.Model)
	_, err := llm.New(&llm.Options{Limiter: w.limiter, CutTokens: -1})
	require.ErrorContains(t, err, "options.CutTokens")
}

// TestPartsCostWhatTheirModelsDo, of which no token is counted twice: 1,000 in and 500 out of the
// model that was called cost 10,500 µ$, and 500 and 300 of another 1,600. The keeper, which knows
// the called one alone, counts all of them as that one's.
func TestPartsCostWhatTheirModelsDo(t *testing.T) {
	parts := []llm.Part{{Model: standardModel, Tokens: tokens{Input: 400, Output: 200}}, {Model: standardModel, Tokens: tokens{Input: 100, Output: 100}}}
	for status, micros := range map[string]int64{llm.StatusOK: 12_100, llm.StatusCut: 12_100 + 500*15} {
		t.Run(status, func(t *testing.T) {
			w, heard := memWorld(t), &endings{}
			w.limits(dynalimit.PerDay("usd", million), dynalimit.PerMinute("tpm", 100_000))
			g := w.guard(both, heard.hear, func(o *llm.Options) {
				o.Limits = map[string]llm.Measure{"usd": llm.Cost(prices.CatalogList()), "tpm": llm.TotalTokens}
			})
			c := w.start(g, request())
			require.NoError(t, c.Settle(t.Context(), llm.Usage{Tokens: used.Tokens, Parts: parts, Status: status}))
			assert.Equal(t, dynalimit.Amounts{"usd": micros, "tpm": 2_300}, c.Lease().Used())
			s := heard.one(t)
			assert.Equal(t, parts, s.Parts)
			assert.Equal(t, used.Tokens, s.Tokens)
			assert.Equal(t, int64(callMicros), w.spent("premium").CostMicros)
		})
	}
}

// TestPartsAreAmongTheTokens, or they are refused.
func TestPartsAreAmongTheTokens(t *testing.T) {
	w, g := moneyWorld(t)
	c := w.start(g, callOf("gpt-4o", llm.Estimate{InputTokens: 1, MaxOutputTokens: 1}))
	half := llm.Part{Tokens: tokens{Input: 800, Output: 400}}
	for _, parts := range [][]llm.Part{{half, half}, {{Tokens: tokens{CacheRead: 1}}}, {{Tokens: tokens{Input: -1}}}} {
		require.ErrorContains(t, c.Settle(t.Context(), llm.Usage{Tokens: used.Tokens, Parts: parts}), "usage.Parts[")
	}
}
