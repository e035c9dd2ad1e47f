package prices

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
)

// TestAPriceForMoneyIsOfExactlyThatModel: no path and no version is taken away.
func TestAPriceForMoneyIsOfExactlyThatModel(t *testing.T) {
	day := at(t, "2026-11-27T12:00:00Z")
	list := CatalogList()
	for model, input := range map[string]int64{
		"gpt-4o": 2_500_000,
		"anthropic.claude-3-5-sonnet-20241022-v2:0":        3_000_000,
		"anthropic.claude-3-5-sonnet-20241022-v2":          3_000_000,
		"us.anthropic.claude-haiku-4-5-20251001-v1:0":      1_100_000,
		"anthropic.claude-haiku-4-5-20251001-v1:0":         1_100_000,
		"global.anthropic.claude-haiku-4-5-20251001-v1:0":  1_000_000,
		"global.anthropic.claude-sonnet-4-5-20250929-v1:0": 3_000_000,
		"jp.anthropic.claude-sonnet-4-5-20250929-v1:0":     3_300_000,
		"openai.gpt-oss-120b-1:0":                          150_000,
		"gemini-3.6-flash":                                 750_000,
		"gpt-5.4":                                          2_500_000,
		"claude-sonnet-5":                                  2_000_000,
		"amazon.nova-pro-v1:0":                             800_000,
		"us.amazon.nova-pro-v1:0":                          800_000,
		"eu.amazon.nova-pro-v1:0":                          1_050_000,
		"us-gov.anthropic.claude-opus-5":                   6_000_000,
		"text-embedding-3-small":                           20_000,
	} {
		p, err := list.Price(model, day)
		require.NoError(t, err)
		assert.Equal(t, input, p.Input, model)
	}
	later, err := list.Price("gemini-3.6-flash", at(t, "2027-01-01T00:00:00Z"))
	require.NoError(t, err)
	assert.Equal(t, int64(1_500_000), later.Input, "by the day")
	for _, model := range []string{
		"", "gpt-4o-v2", "acme-tuned/gpt-4o-mini", "us.gpt-4o", "us.gpt-4.1", "gpt-4o:0", "ft:gpt-4o:acme:7", "anthropic.claude-3-5-sonnet-20241022-v3:0",
		"sa.amazon.nova-pro-v1:0", "global.amazon.nova-pro-v1:0", "ca.anthropic.claude-opus-5", // geographies without a price of their own
		"arn:aws:bedrock:us-east-1:1:custom-model-deployment/amazon.nova-pro-v1:0",
	} {
		_, err := list.Price(model, day)
		var bad *fault.ValidationError
		require.ErrorAs(t, err, &bad, model)
		assert.Equal(t, fault.InvalidConfig, bad.Code)
	}
}

// TestAnOperatorPricesIdsOfHisOwn.
func TestAnOperatorPricesIdsOfHisOwn(t *testing.T) {
	day := at(t, "2026-11-27T12:00:00Z")
	list := CatalogList()
	p, err := list.Price("gpt-4o", day)
	require.NoError(t, err)
	list.Calls["our-deployment"] = p
	list.Prices = append(list.Prices, Price{Model: "acme-tuned/gpt-4o-mini", Rates: Rates{Input: 7, Output: 8}})
	same, err := list.Price("our-deployment", day)
	require.NoError(t, err)
	assert.Equal(t, p, same)
	tuned, err := list.Price("acme-tuned/gpt-4o-mini", day)
	require.NoError(t, err)
	assert.Equal(t, int64(7), tuned.Input)
	for what, bad := range map[string]CallPrice{
		"rate":  {Rates: Rates{Input: -2, Output: 1}},
		"kind":  {Rates: Rates{Input: 1}, Variants: []CallRates{{Rates: Rates{Output: maxRate + 1}}}},
		"above": {Rates: Rates{Input: 1}, Variants: []CallRates{{Above: -1}}},
		"sound": {Rates: Rates{Input: 1}, Sound: -1},
		"tool":  {Rates: Rates{Input: 1}, Tools: map[string]int64{"x": -1}},
	} {
		list.Calls["bad"] = bad
		_, err := list.Price("bad", day)
		var invalid *fault.ValidationError
		require.ErrorAs(t, err, &invalid, what)
	}
}

// TestTheDearestKindThatFitsHolds, class by class.
func TestTheDearestKindThatFitsHolds(t *testing.T) {
	p := CallPrice{
		Rates: Rates{Input: 10, Output: 40, CacheRead: FreeRate}, Sound: 30,
		Variants: []CallRates{
			{Tier: "priority", Rates: Rates{Input: 25, Output: 80, CacheRead: 5}},
			{Above: 100, Sound: 50, Rates: Rates{Input: 20, Output: 90, CacheWrite1h: 35}},
			{Tier: "flex", Rates: Rates{Input: 5, Output: 20}},
		},
	}
	for name, tt := range map[string]struct {
		tokens int64
		tiers  []string
		rates  Rates
		sound  int64
	}{
		"the standard tier":     {100, []string{""}, Rates{10, 40, 0, 13, 20}, 30},
		"a longer context":      {101, []string{""}, Rates{20, 90, 20, 25, 35}, 50},
		"a tier":                {101, []string{"flex"}, Rates{5, 20, 5, 7, 10}, 30},
		"a tier that is dearer": {1, []string{"priority"}, Rates{25, 80, 5, 32, 50}, 90},
		"all":                   {101, nil, Rates{25, 90, 20, 32, 50}, 90},
		"a tier that has none":  {1, []string{"scale"}, Rates{}, 0},
	} {
		rates, sound := p.For(tt.tokens, tt.tiers...)
		assert.Equal(t, tt.rates, rates, name)
		assert.Equal(t, tt.sound, sound, name)
	}
	assert.True(t, p.HasTier("") && p.HasTier("flex"))
	assert.False(t, p.HasTier("scale"))
	silent := CallPrice{Rates: Rates{Input: 1}}
	_, sound := silent.For(1)
	assert.Zero(t, sound, "no price of sound is known")
}

// TestNoPriceOfTheCatalogIsBelowLiteLLMs, of any tier, length, sound or tool.
func TestNoPriceOfTheCatalogIsBelowLiteLLMs(t *testing.T) {
	for file, tt := range map[string]struct {
		day       string
		providers []string
		all       bool // the catalog has each model
		compared  int
	}{
		"litellm.json":         {"2026-08-21", []string{"openai", "anthropic", "vertex_ai-language-models"}, false, 40},
		"litellm-1.110.2.json": {"2026-11-28", []string{"openai", "text-completion-openai", "anthropic", "bedrock", "bedrock_converse", "gemini"}, true, 40},
	} {
		theirs, ours, compared := loaded(t, file, tt.providers...), CatalogList(), 0
		for _, model := range slices.Sorted(maps.Keys(theirs.Calls)) {
			own, err := ours.Price(model, parseDay(tt.day))
			if err != nil && !tt.all || model == "gpt-5-nano" { // of which theirs had a priority that cost 50 times as much
				continue
			}
			require.NoError(t, err)
			p, err := theirs.Price(model, parseDay(tt.day))
			require.NoError(t, err)
			for _, v := range p.allRates() {
				require.True(t, own.HasTier(v.Tier), "%s: %q", model, v.Tier)
				rates, sound := own.For(v.Above+1, v.Tier)
				for _, c := range classes {
					if rate := *c.Rate(&v.Rates); rate > *c.Rate(&rates) && !cheaperSince(model, tt.day) {
						assert.Fail(t, "below the list", "%s %s: %q above %d: %s is %d for %d", file, model, v.Tier, v.Above, c.Name, *c.Rate(&rates), rate)
					}
				}
				assert.GreaterOrEqual(t, sound, v.Sound, model)
				compared++
			}
			for tool, micros := range p.Tools {
				assert.GreaterOrEqual(t, own.Tools[tool], micros, "%s: %s", model, tool)
			}
		}
		assert.GreaterOrEqual(t, compared, tt.compared)
	}
}

// cheaperSince reports whether a model costs less than it did on the day of an older list.
func cheaperSince(model, day string) bool { return day < catalogTableDay && model == cheaperUntil2027 }

// TestTheTableIsOfItsDay, has each model once, and prices that can be.
func TestTheTableIsOfItsDay(t *testing.T) {
	head, _, _ := strings.Cut(catalogTable, "\n")
	assert.True(t, strings.HasSuffix(head, " "+catalogTableDay), head)
	models := 0
	for line := range strings.Lines(catalogTable) {
		for _, field := range strings.Fields(line) {
			if strings.Contains(field, "/") {
				break
			}
			models++
		}
	}
	calls := tableCalls()
	assert.Len(t, calls, models-len(strings.Fields(strings.Split(head, "/")[0])), "a model twice")
	for model, call := range calls {
		require.NoError(t, call.validate(model))
		assert.Positive(t, call.Input, model)
	}
}

// TestALoaderReadsWhatCallsCost, and refuses what no number of tokens tells.
func TestALoaderReadsWhatCallsCost(t *testing.T) {
	const row = `"litellm_provider": "openai", "input_cost_per_token": 1e-06, "output_cost_per_token": 4e-06`
	list, err := Load(strings.NewReader(`{
		"plain": {` + row + `},
		"all": {` + row + `, "input_cost_per_token_above_200k_tokens": 2e-06, "output_cost_per_token_above_200k_tokens": 6e-06,
			"input_cost_per_token_above_200k_tokens_priority": 3e-06, "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 5e-06,
			"input_cost_per_token_batches": 5e-07, "input_cost_per_audio_token": 8e-06, "output_cost_per_reasoning_token": 5e-06,
			"provider_specific_entry": {"us": 1.1, "fast": 6.0},
			"search_context_cost_per_query": {"search_context_size_low": 0.03, "search_context_size_high": 0.05}},
		"m": {` + row + `, "input_cost_per_token_priority": 2e-06}, "m-2026-01-02": {` + row + `},
		"m-2026-01-03": {"litellm_provider": "openai", "input_cost_per_token": 3e-06, "output_cost_per_token": 4e-06},
		"cached": {` + row + `, "cache_creation_input_token_cost": 2e-06, "cache_creation_input_token_cost_above_12hr": 3e-06,
			"cache_creation_input_token_cost_above_12hr_priority": 7e-06, "input_cost_per_token_priority": 2e-06, "input_cost_per_token_ultrafast": 1e-04,
			"google_maps_grounding_cost_per_query": 0.0251, "cache_read_input_audio_token_cost_flex": 1e-07, "input_cost_per_image_token": 1e-06},
		"pictures": {` + row + `, "input_cost_per_image_token": 2e-06},
		"video": {` + row + `, "output_cost_per_second": 0.1},
		"free video": {` + row + `, "output_cost_per_second": 0.0, "input_cost_per_image": null},
		"dear": {` + row + `, "input_cost_per_token_priority": 1e+30},
		"a/twice": {` + row + `}, "b/twice": {"litellm_provider": "openai", "input_cost_per_token": 3e-06, "output_cost_per_token": 1e-06,
			"search_context_cost_per_query": {"x": 0.01}},
		"large": {` + row + `, "input_cost_per_audio_token": -1},
		"search": {` + row + `, "search_context_cost_per_query": {"x": "free"}},
		"embedding": {"litellm_provider": "openai", "input_cost_per_token": 1e-06}
	}`))
	require.NoError(t, err)
	day := at(t, "2026-11-27T12:00:00Z")
	p, err := list.Price("all", day)
	require.NoError(t, err)
	assert.Equal(t, CallPrice{
		Rates: Rates{Input: 1_000_000, Output: 5_000_000}, Sound: 8_000_000, Tools: map[string]int64{"web_search": 50_000},
		Variants: []CallRates{
			{Above: 200_000, Rates: Rates{Input: 2_000_000, Output: 6_000_000, CacheWrite1h: 5_000_000}},
			{Above: 200_000, Tier: "priority", Rates: Rates{Input: 3_000_000, Output: 4_000_000}},
			{Tier: "us", Rates: Rates{Input: 1_100_000, Output: 5_500_000}},
		},
	}, p)
	cached, err := list.Price("cached", day)
	require.NoError(t, err)
	assert.Equal(t, CallPrice{
		Rates: Rates{Input: 1_000_000, Output: 4_000_000, CacheWrite5m: 2_000_000, CacheWrite1h: 3_000_000}, Tools: map[string]int64{"google_maps": 25_100},
		Variants: []CallRates{{Tier: "priority", Rates: Rates{Input: 2_000_000, Output: 4_000_000, CacheWrite1h: 7_000_000}}},
	}, cached)
	for model, kinds := range map[string]int{"m": 1, "m-2026-01-02": 1, "m-2026-01-03": 0} {
		p, err := list.Price(model, day)
		require.NoError(t, err)
		assert.Len(t, p.Variants, kinds, model)
	}
	twice, err := list.Price("twice", day)
	require.NoError(t, err)
	rates, _ := twice.For(1, "")
	assert.Equal(t, []int64{3_000_000, 4_000_000}, []int64{rates.Input, rates.Output}, "the dearer of both")
	assert.Equal(t, int64(10_000), twice.Tools["web_search"])
	for _, model := range []string{"plain", "free video"} {
		_, err := list.Price(model, day)
		require.NoError(t, err, model)
	}
	for _, model := range []string{"video", "dear", "large", "search", "embedding", "pictures"} {
		_, err := list.Price(model, day)
		require.Error(t, err, model)
	}
}
