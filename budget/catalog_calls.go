package budget

import (
	"maps"
	"slices"
	"strings"
)

// CatalogList is the Catalog with all that calls of its models cost, for limits on money: other
// service tiers, long contexts, sound, a provider's own search. Models that one rate cannot
// tell are in it too, and the full ids of Bedrock's. The prices of tiers and tools are
// LiteLLM's of 2026-07-24 and later; those that a call has to ask for by name and that are not
// here, such as Anthropic's fast mode, are refused until they are put into Calls.
func CatalogList() PriceList {
	list := PriceList{Name: layerCatalog, Prices: slices.Concat(Catalog(), bedrockVersions()), Calls: map[string]CallPrice{}}
	maps.Copy(list.Calls, callsOpenAI())
	maps.Copy(list.Calls, callsAnthropic())
	maps.Copy(list.Calls, callsGemini())
	maps.Copy(list.Calls, callsBedrock())
	return list
}

// tier are rates of a service tier, without those of cache writes.
func tier(name string, input, output, cacheRead int64) CallRates {
	return CallRates{Tier: name, Rates: Rates{Input: input, Output: output, CacheRead: cacheRead}}
}

// long are rates of calls with more input than so many tokens.
func long(above int64, rates Rates) CallRates { return CallRates{Above: above, Rates: rates} }

// callsOpenAI are OpenAI's tiers: a project may be served with priority unasked. A dated id is
// served as its model is.
func callsOpenAI() map[string]CallPrice {
	calls := map[string]CallPrice{}
	add := func(kinds []CallRates, models ...string) {
		for _, model := range models {
			calls[model] = CallPrice{Variants: kinds}
		}
	}
	add([]CallRates{tier("priority", 3_500_000, 14_000_000, 875_000)}, "gpt-4.1", "gpt-4.1-2025-04-14")
	add([]CallRates{tier("priority", 700_000, 2_800_000, 175_000)}, "gpt-4.1-mini", "gpt-4.1-mini-2025-04-14")
	add([]CallRates{tier("priority", 200_000, 800_000, 50_000)}, "gpt-4.1-nano", "gpt-4.1-nano-2025-04-14")
	add([]CallRates{tier("priority", 4_250_000, 17_000_000, 2_125_000)}, "gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-2024-11-20")
	add([]CallRates{tier("priority", 250_000, 1_000_000, 125_000)}, "gpt-4o-mini", "gpt-4o-mini-2024-07-18")
	add([]CallRates{tier("priority", 2_500_000, 20_000_000, 250_000), tier("flex", 625_000, 5_000_000, 62_500)}, "gpt-5", "gpt-5-2025-08-07", "gpt-5-codex")
	add([]CallRates{tier("priority", 450_000, 3_600_000, 45_000), tier("flex", 125_000, 1_000_000, 12_500)}, "gpt-5-mini", "gpt-5-mini-2025-08-07")
	add([]CallRates{tier("flex", 25_000, 200_000, 2_500)}, "gpt-5-nano", "gpt-5-nano-2025-08-07")
	add([]CallRates{tier("priority", 2_500_000, 20_000_000, 250_000)}, "gpt-5.1", "gpt-5.1-2025-11-13", "gpt-5.1-codex")
	add([]CallRates{tier("priority", 450_000, 3_600_000, 45_000)}, "gpt-5.1-codex-mini")
	add([]CallRates{tier("priority", 3_500_000, 28_000_000, 350_000)}, "gpt-5.2", "gpt-5.2-2025-12-11", "gpt-5.3-codex")
	add([]CallRates{tier("priority", 1_500_000, 9_000_000, 150_000), tier("flex", 375_000, 2_250_000, 37_500)}, "gpt-5.4-mini", "gpt-5.4-mini-2026-03-17")
	add([]CallRates{tier("flex", 100_000, 625_000, 10_000)}, "gpt-5.4-nano", "gpt-5.4-nano-2026-03-17")
	add([]CallRates{tier("priority", 3_500_000, 14_000_000, 875_000), tier("flex", 1_000_000, 4_000_000, 250_000)}, "o3", "o3-2025-04-16")
	add([]CallRates{tier("priority", 2_000_000, 8_000_000, 500_000), tier("flex", 550_000, 2_200_000, 137_500)}, "o4-mini", "o4-mini-2025-04-16")
	for _, model := range []string{"gpt-5.4", "gpt-5.4-2026-03-05"} {
		calls[model] = CallPrice{
			Rates: Rates{Input: 2_500_000, Output: 15_000_000, CacheRead: 250_000},
			Variants: []CallRates{
				tier("priority", 5_000_000, 30_000_000, 500_000), tier("flex", 1_250_000, 7_500_000, 130_000),
				long(272_000, Rates{Input: 5_000_000, Output: 22_500_000, CacheRead: 500_000}),
			},
		}
	}
	return calls
}

// callsAnthropic are Anthropic's: the search, a tenth more for calls that are served in the US,
// which a workspace may ask for, and the long contexts of Sonnet 4 and 4.5.
func callsAnthropic() map[string]CallPrice {
	const perSearch, tenthMore = 10_000, 1_100
	calls := map[string]CallPrice{}
	for _, p := range catalogAnthropic() {
		call := calls[p.Model]
		call.Tools = map[string]int64{"web_search": perSearch}
		if servedInUS(p.Model) {
			call.Variants = append(call.Variants, CallRates{Tier: "us", Rates: p.times(tenthMore)})
		}
		calls[p.Model] = call
	}
	short := anthropicRates(3_000_000, 15_000_000)
	for _, model := range []string{"claude-sonnet-4-0", "claude-sonnet-4-20250514", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929"} {
		calls[model] = CallPrice{
			Rates: short, Variants: []CallRates{long(200_000, anthropicRates(6_000_000, 22_500_000))},
			Tools: map[string]int64{"web_search": perSearch},
		}
	}
	return calls
}

// servedInUS reports whether calls of a model can be asked to be served in the US.
func servedInUS(model string) bool {
	return slices.Contains([]string{"claude-fable-5", "claude-opus-5", "claude-opus-4-8", "claude-opus-4-7", "claude-opus-4-6", "claude-sonnet-5"}, model)
}

// callsGemini are Gemini's: sound, tiers, and the search, which its prices call grounding.
func callsGemini() map[string]CallPrice {
	const search, searchOf3 = 35_000, 14_000
	tools := func(perSearch int64) map[string]int64 { return map[string]int64{"web_search": perSearch} }
	withSound := func(r CallRates, sound int64) CallRates {
		r.Sound = sound
		return r
	}
	return map[string]CallPrice{
		"gemini-2.0-flash":      {Sound: 700_000, Tools: tools(search)},
		"gemini-2.0-flash-lite": {Sound: 75_000, Tools: tools(search)},
		"gemini-2.5-flash":      {Sound: 1_000_000, Tools: tools(search)},
		"gemini-2.5-flash-lite": {Sound: 300_000, Tools: tools(search)},
		"gemini-3-flash-preview": {Sound: 1_000_000, Tools: tools(searchOf3), Variants: []CallRates{
			withSound(tier("priority", 900_000, 5_400_000, 90_000), 1_800_000),
		}},
		"gemini-3.1-flash-lite": {Sound: 500_000, Tools: tools(searchOf3), Variants: []CallRates{
			tier("priority", 450_000, 2_700_000, 45_000), tier("flex", 125_000, 750_000, 12_500),
		}},
		"gemini-3.5-flash": {Sound: 1_000_000, Tools: tools(searchOf3), Variants: []CallRates{
			withSound(tier("priority", 2_700_000, 16_200_000, 270_000), 1_800_000),
		}},
		"gemini-3.5-flash-lite": {Tools: tools(searchOf3), Variants: []CallRates{
			tier("priority", 540_000, 4_500_000, 50_000), tier("flex", 150_000, 1_250_000, 20_000),
		}},
		"gemini-3.6-flash": {Tools: tools(searchOf3), Variants: []CallRates{
			tier("priority", 2_700_000, 13_500_000, 270_000), tier("flex", 750_000, 3_750_000, 75_000),
		}},
		"gemini-2.5-pro": {
			Rates: Rates{Input: 1_250_000, Output: 10_000_000, CacheRead: 125_000}, Tools: tools(search),
			Variants: []CallRates{long(200_000, Rates{Input: 2_500_000, Output: 15_000_000, CacheRead: 250_000})},
		},
	}
}

// callsBedrock are the long contexts of Sonnet 4 and 4.5 on Bedrock.
func callsBedrock() map[string]CallPrice {
	longer := func(input, output int64) CallPrice {
		return CallPrice{Variants: []CallRates{long(200_000, anthropicRates(input, output))}}
	}
	return map[string]CallPrice{
		"anthropic.claude-sonnet-4-20250514-v1":            longer(6_000_000, 22_500_000),
		"anthropic.claude-sonnet-4-5-20250929-v1":          longer(6_600_000, 24_750_000),
		"global.anthropic.claude-sonnet-4-5-20250929-v1:0": longer(6_000_000, 22_500_000),
		"anthropic.claude-sonnet-4-20250514":               longer(6_000_000, 22_500_000),
		"anthropic.claude-sonnet-4-5-20250929":             longer(6_600_000, 24_750_000),
	}
}

// bedrockVersions are the prices of Bedrock's models by their full ids, which have a version.
func bedrockVersions() []Price {
	var rows []Price
	for _, p := range catalogBedrock() {
		version := "-v1"
		if p.Model == "anthropic.claude-3-5-sonnet-20241022" {
			version = "-v2"
		}
		if versioned(p.Model) {
			p.Model += version
			rows = append(rows, p)
		}
	}
	return rows
}

// versioned reports whether a model's id ends in a version. Those with a number of their own
// for it have none.
func versioned(model string) bool {
	for _, without := range []string{"openai.", "anthropic.claude-opus-5", "mistral.mistral-large-3"} {
		if strings.HasPrefix(model, without) {
			return false
		}
	}
	return true
}
