package budget

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
)

func catalogLayers(t testing.TB) priceLayers {
	t.Helper()
	book, err := newPriceBook(Catalog())
	require.NoError(t, err)
	return priceLayers{{"catalog", book}}
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

func TestPriceLayersAndEffectiveDates(t *testing.T) {
	from := at(t, "2099-02-01T00:00:00Z")
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
