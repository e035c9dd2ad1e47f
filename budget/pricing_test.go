package budget

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/fault"
)

func catalogLayers(t testing.TB) priceLayers {
	t.Helper()
	book, err := newPriceBook(Catalog())
	require.NoError(t, err)
	return priceLayers{{"catalog", book}}
}

func TestCost(t *testing.T) {
	sonnet46 := Rates{Input: 3_300_000, CacheRead: 330_000, CacheWrite5m: 4_125_000, Output: 16_500_000}
	for _, tc := range []struct {
		name   string
		rates  Rates
		tokens Tokens
		want   int64
	}{
		{"premium", Rates{Input: 3_000_000, Output: 15_000_000}, Tokens{Input: 1500, Output: 800}, 16_500},
		{"standard", Rates{Input: 800_000, Output: 4_000_000}, Tokens{Input: 1200, Output: 600}, 3_360},
		{"disjoint classes", sonnet46, Tokens{Input: 1000, CacheRead: 50_000, CacheWrite5m: 2000, Output: 800}, 41_250},
		{"nothing", sonnet46, Tokens{}, 0},
	} {
		cost, assumed := tc.rates.cost(tc.tokens)
		assert.Empty(t, assumed, tc.name)
		assert.Equal(t, money.FromMicros(tc.want), cost, tc.name)
	}
	cost, _ := Rates{Input: 35_000, Output: 140_000}.cost(Tokens{Input: 28, Output: 7})
	assert.Equal(t, "1960000", cost.String(), "1.96 µ$, not 0")

	free, assumed := Rates{Input: 1, CacheRead: FreeRate}.cost(Tokens{CacheRead: 1000})
	assert.Empty(t, assumed)
	assert.True(t, free.IsZero())
}

// TestCacheTokensWithoutAPrice cost what they do where they are dearest: a call
// that has happened is never free, nor refused.
func TestCacheTokensWithoutAPrice(t *testing.T) {
	rates := Rates{Input: 2_500_000, Output: 10_000_000}
	for class, want := range map[string]int64{"cache_read": 2_500_000, "cache_write_5m": 3_125_000, "cache_write_1h": 5_000_000} {
		tokens := tokensOfClass(class, 1_000_000)
		cost, assumed := rates.cost(tokens)
		assert.Equal(t, money.FromMicros(want), cost, class)
		assert.Equal(t, []string{class}, assumed)
	}
	free, assumed := Rates{Input: FreeRate, Output: 1}.cost(Tokens{CacheRead: 1, CacheWrite5m: 1, CacheWrite1h: 1})
	assert.True(t, free.IsZero())
	assert.Empty(t, assumed)

	w := newWorld(t, func(o *Options) {
		o.Models = map[string]string{"premium": "gpt-4o", "standard": standardModel, "economy": economyModel}
		o.Prices = []Price{{Model: "gpt-4o", Rates: rates}}
	})
	w.org(fixtureOrg())
	r := w.submit(w.a, Usage{RequestID: uuid(1), Label: "premium", Tokens: Tokens{Input: 8_000, CacheRead: 2_000, Output: 500}})
	assert.Equal(t, int64(30_000), r.CostMicros)
	assert.Equal(t, "options|gpt-4o|any|always|cache_read assumed", r.PriceVersion)
}

// tokensOfClass are tokens of one class.
func tokensOfClass(class string, n int64) (t Tokens) {
	for _, c := range tokenClasses {
		if c.name == class {
			*c.count(&t) = n
		}
	}
	return t
}

func TestTokensHaveBounds(t *testing.T) {
	for _, class := range tokenClasses {
		require.NoError(t, tokensOfClass(class.name, maxTokens).validate())
		for _, n := range []int64{-1, maxTokens + 1} {
			v := requireCode(t, tokensOfClass(class.name, n).validate(), fault.InvalidRequest)
			assert.Equal(t, "tokens."+class.name, v.Field)
		}
	}
}

func TestCatalogLookup(t *testing.T) {
	before, after := at(t, "2026-08-31T23:59:59Z"), at(t, "2026-09-01T00:00:01Z")
	for _, tc := range []struct {
		model string
		at    time.Time
		input int64
	}{
		{"global.anthropic.claude-sonnet-4-6", before, 3_000_000},
		{"us.anthropic.claude-sonnet-4-6", before, 3_300_000},
		{"anthropic.claude-sonnet-4-6", before, 3_300_000},
		{"jp.anthropic.claude-sonnet-4-6-v1:0", before, 3_300_000},
		{"arn:aws:bedrock:us-east-1:123456789012:inference-profile/global.anthropic.claude-sonnet-4-6-v1:0", before, 3_000_000},
		{"anthropic.claude-sonnet-5-v1:0", before, 2_200_000},
		{"anthropic.claude-sonnet-5-v1:0", after, 3_300_000},
		{"global.anthropic.claude-sonnet-5", after, 3_000_000},
		{"anthropic.claude-3-5-sonnet-20241022-v2:0", before, 3_000_000},
		{"apac.anthropic.claude-3-5-haiku-20241022-v1:0", before, 800_000},
		{"anthropic.claude-3-haiku-20240307-v1:0", before, 250_000},
		{"eu.amazon.nova-micro-v1:0", before, 35_000},
	} {
		p, layer, ok := catalogLayers(t).lookup(tc.model, tc.at)
		require.True(t, ok, tc.model)
		assert.Equal(t, tc.input, p.Input, tc.model)
		assert.Equal(t, layerCatalog, layer)
	}
	_, _, ok := catalogLayers(t).lookup("anthropic.claude-unheard-of", before)
	assert.False(t, ok)
}

func TestPriceLayersAndEffectiveDates(t *testing.T) {
	from := at(t, "2026-02-01T00:00:00Z")
	table, err := newPriceBook([]Price{{Model: "us.m1", EffectiveFrom: from, Rates: Rates{Input: 5}}})
	require.NoError(t, err)
	options, err := newPriceBook([]Price{{Model: "m1", Rates: Rates{Input: 4}}, {Model: "m1", EffectiveFrom: from, Rates: Rates{Input: 6}}})
	require.NoError(t, err)
	layers := priceLayers{{"table", table}, {"options", options}}
	for _, tc := range []struct {
		model string
		at    time.Time
		want  int64
	}{
		{"m1", from.Add(-time.Second), 4},
		{"m1", from, 5},
		{"global.m1", from, 6},
		{"eu.m1-v1:0", from, 5},
	} {
		p, _, ok := layers.lookup(tc.model, tc.at)
		require.True(t, ok)
		assert.Equal(t, tc.want, p.Input, "%s at %s", tc.model, tc.at)
	}
	_, err = newPriceBook([]Price{{Model: "m1", Rates: Rates{Input: -2}}})
	require.Error(t, err)
}

// TestVersionsOfAModelHaveTheirOwnPrices: and one without a price of its own
// has that of the model.
func TestVersionsOfAModelHaveTheirOwnPrices(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Models = map[string]string{
			"premium": "amazon.titan-embed-text-v1", "standard": "us.amazon.titan-embed-text-v2:0", "economy": "amazon.titan-embed-text-v2:1",
		}
		o.Prices = []Price{{Model: "amazon.titan-embed-text", Rates: Rates{Input: 7_000}}}
	})
	w.org(fixtureOrg())
	costs := func() (got [3]int64) {
		for i, label := range fixtureOrg().Ordering {
			var err error
			got[i], err = w.a.Estimate(t.Context(), orgO, appA, label, 1_000_000, 0)
			require.NoError(t, err)
		}
		return got
	}
	assert.Equal(t, [3]int64{7_000, 7_000, 7_000}, costs())
	for model, input := range map[string]int64{"amazon.titan-embed-text-v1": 100_000, "amazon.titan-embed-text-v2:0": 20_000} {
		require.NoError(t, w.a.Prices().Put(t.Context(), model, Price{Model: model, Rates: Rates{Input: input}}))
	}
	assert.Equal(t, [3]int64{100_000, 20_000, 20_000}, costs(), "a later revision has the version's")
	require.NoError(t, w.a.Prices().Put(t.Context(), "amazon.titan-embed-text-v2:1", Price{Model: "amazon.titan-embed-text-v2:1", Rates: Rates{Input: 30_000}}))
	assert.Equal(t, [3]int64{100_000, 20_000, 30_000}, costs())
	require.NoError(t, w.a.Prices().Put(t.Context(), "amazon.titan-embed-text-v1"))
	assert.Equal(t, [3]int64{7_000, 20_000, 30_000}, costs(), "taken back")
}

func TestLoadLiteLLM(t *testing.T) {
	const doc = `{
	 "sample_spec": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "litellm_provider": "one of ..."},
	 "a.model-v1:0": {"litellm_provider": "bedrock", "input_cost_per_token": 3e-06, "output_cost_per_token": 0.000015,
	   "cache_read_input_token_cost": 3e-07, "cache_creation_input_token_cost": 3.75e-06, "cache_creation_input_token_cost_above_1hr": 6e-06},
	 "bedrock/us.b.model": {"litellm_provider": "bedrock", "input_cost_per_token": 0, "output_cost_per_token": 1.4e-07},
	 "c.long": {"litellm_provider": "bedrock", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6, "input_cost_per_token_above_200k_tokens": 2e-6},
	 "d.image": {"litellm_provider": "bedrock", "output_cost_per_image": 0.04},
	 "other": {"litellm_provider": "openai", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}}`
	list, err := LoadPrices(strings.NewReader(doc), "bedrock")
	require.NoError(t, err)
	require.Len(t, list.Prices, 2)
	assert.Equal(t, Rates{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite5m: 3_750_000, CacheWrite1h: 6_000_000}, list.Prices[0].Rates)
	assert.Equal(t, "us.b.model", list.Prices[1].Model)
	assert.Equal(t, Rates{Input: FreeRate, Output: 140_000}, list.Prices[1].Rates)
	require.Len(t, list.Skipped, 2)
	assert.Equal(t, "c.long", list.Skipped[0].Model)
}

func TestLoadOwnPrices(t *testing.T) {
	list, err := LoadPrices(strings.NewReader(`[
	 {"model_id":"global.x.model","input_usd_micros_per_1m":2000000,"output_usd_micros_per_1m":10000000,"cache_read_usd_micros_per_1m":-1},
	 {"model_id":"x.model","input_usd_micros_per_1m":2200000,"output_usd_micros_per_1m":11000000},
	 {"model_id":"x.model","effective_from":"2026-09-01T00:00:00Z","input_usd_micros_per_1m":3300000,"output_usd_micros_per_1m":16500000}]`))
	require.NoError(t, err)
	assert.Empty(t, list.Skipped)
	assert.Equal(t, "prices", list.Name)
	layers := layersOf(t, list.Prices)
	for _, tc := range []struct {
		model, at string
		want      Rates
	}{
		{"global.x.model", "2026-09-02T00:00:00Z", Rates{Input: 2_000_000, Output: 10_000_000, CacheRead: FreeRate}},
		{"us.x.model", "2026-08-31T00:00:00Z", Rates{Input: 2_200_000, Output: 11_000_000}},
		{"us.x.model", "2026-09-01T00:00:00Z", Rates{Input: 3_300_000, Output: 16_500_000}},
	} {
		p, _, ok := layers.lookup(tc.model, at(t, tc.at))
		require.True(t, ok)
		assert.Equal(t, tc.want, p.Rates, tc.model)
	}
}
