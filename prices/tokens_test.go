package prices

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
)

// tokensOfClass are tokens of one class.
func tokensOfClass(class string, n int64) (t Tokens) {
	for _, c := range classes {
		if c.Name == class {
			*c.Count(&t) = n
		}
	}
	return t
}

func TestTokensHaveBounds(t *testing.T) {
	for _, class := range classes {
		require.NoError(t, tokensOfClass(class.Name, maxTokens).Validate())
		for _, n := range []int64{-1, maxTokens + 1} {
			v, ok := errors.AsType[*fault.ValidationError](tokensOfClass(class.Name, n).Validate())
			require.True(t, ok)
			assert.Equal(t, "tokens."+class.Name, v.Field)
		}
	}
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
	list, err := Load(strings.NewReader(doc), "bedrock")
	require.NoError(t, err)
	require.Len(t, list.Prices, 2)
	assert.Equal(t, Rates{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite5m: 3_750_000, CacheWrite1h: 6_000_000}, list.Prices[0].Rates)
	assert.Equal(t, "us.b.model", list.Prices[1].Model)
	assert.Equal(t, Rates{Input: FreeRate, Output: 140_000}, list.Prices[1].Rates)
	require.Len(t, list.Skipped, 2)
	assert.Equal(t, "c.long", list.Skipped[0].Model)
}
