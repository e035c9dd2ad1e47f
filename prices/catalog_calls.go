package prices

import (
	"maps"
	"slices"
	"strings"
)

// catalogName is the name of the list of the Catalog.
const catalogName = "catalog"

// CatalogList is the Catalog with the complete prices of calls, for limits on money: other
// service tiers, long contexts, sound, a provider's own tools. It also has the ids of LiteLLM's list
// of the day in docs/prices.md, among them embeddings and Bedrock's geographies. If the
// Catalog and that list have different prices for an id, the dearer holds, class by class.
//
// Ids are exact: a geography of Bedrock (us., eu., …) without a price of its own is refused. So is
// an unlisted tier that a call has to request by name, such as Anthropic's fast mode.
// Put them into Calls.
func CatalogList() List {
	byHand := List{Prices: slices.Concat(Catalog(), bedrockVersions()), Calls: callsByHand()}
	list := List{
		Name: catalogName, Prices: slices.Concat(catalogAnthropic(), catalogGemini(), catalogOpenAI()),
		Calls: maps.Clone(byHand.Calls), exact: true,
	}
	add := func(id string, call CallPrice) {
		if own, err := byHand.Price(id, parseDay(catalogTableDay)); err == nil {
			call = call.dearest(own)
			if call.Rates == own.Rates && slices.ContainsFunc(list.Prices, func(p Price) bool { return p.Model == id }) {
				call.Rates = Rates{} // those of Prices, which may have a day
			}
		}
		list.Calls[id] = call
	}
	for _, p := range slices.Concat(catalogBedrock(), bedrockVersions()) {
		if p.Scope == Global {
			p.Model = "global." + p.Model
		}
		add(p.Model, CallPrice{})
	}
	for id, call := range tableCalls() {
		add(id, call)
	}
	return list
}

// dearest returns the prices of p and q together: the variants of both, and the dearer one of each token class,
// sound and tool. A missing price counts as cheaper. It may change the map p.Tools in place.
func (p CallPrice) dearest(q CallPrice) CallPrice {
	for _, c := range classes {
		ours, theirs := c.Rate(&p.Rates), c.Rate(&q.Rates)
		if *ours == 0 || *theirs > *ours && *theirs != 0 {
			*ours = *theirs
		}
	}
	p.Sound = max(p.Sound, q.Sound)
	p.Variants = slices.Concat(p.Variants, q.Variants)
	for name, micros := range q.Tools {
		p.raiseToolPrice(name, micros)
	}
	return p
}

// tierRates returns the rates of the service tier name, from rates in micro-dollars a million tokens. Its rates
// for cache writes stay 0: For assumes them.
func tierRates(name string, input, output, cacheRead int64) CallRates {
	return CallRates{Tier: name, Rates: Rates{Input: input, Output: output, CacheRead: cacheRead}}
}

// callsByHand returns a new map of prices, by model, that the embedded table lacks. They are tiers of Codex,
// long contexts of Sonnet 4 and 4.5, searches, and sound of older models. Gemini's Flash models have the tiers
// of 2027, at twice the price.
func callsByHand() map[string]CallPrice {
	const perSearch, perOldSearch = 10_000, 35_000
	search := func(micros int64) map[string]int64 { return map[string]int64{"web_search": micros} }
	long := func(input, output int64) []CallRates {
		return []CallRates{{Above: 200_000, Rates: anthropicRates(input, output)}}
	}
	calls := map[string]CallPrice{}
	for _, p := range catalogAnthropic() {
		calls[p.Model] = CallPrice{Tools: search(perSearch)}
	}
	for _, model := range []string{"claude-sonnet-4-0", "claude-sonnet-4-20250514", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929"} {
		calls[model] = CallPrice{Rates: anthropicRates(3_000_000, 15_000_000), Variants: long(6_000_000, 22_500_000), Tools: search(perSearch)}
	}
	from2027 := []CallRates{tierRates("priority", 2_700_000, 13_500_000, 270_000), tierRates("flex", 750_000, 3_750_000, 75_000)}
	maps.Copy(calls, map[string]CallPrice{
		"gpt-5-codex":           {Variants: []CallRates{tierRates("priority", 2_500_000, 20_000_000, 250_000), tierRates("flex", 625_000, 5_000_000, 62_500)}},
		"gpt-5.1-codex":         {Variants: []CallRates{tierRates("priority", 2_500_000, 20_000_000, 250_000)}},
		"gpt-5.1-codex-mini":    {Variants: []CallRates{tierRates("priority", 450_000, 3_600_000, 45_000)}},
		"gemini-2.0-flash":      {Sound: 700_000, Tools: search(perOldSearch)},
		"gemini-2.0-flash-lite": {Sound: 75_000, Tools: search(perOldSearch)},
		"gemini-3.6-flash":      {Variants: from2027},
		"gemini-3.7-flash":      {Variants: from2027},

		"anthropic.claude-sonnet-4-20250514-v1":            {Variants: long(6_000_000, 22_500_000)},
		"anthropic.claude-sonnet-4-5-20250929-v1":          {Variants: long(6_600_000, 24_750_000)},
		"global.anthropic.claude-sonnet-4-5-20250929-v1:0": {Variants: long(6_000_000, 22_500_000)},
		"anthropic.claude-sonnet-4-20250514":               {Variants: long(6_000_000, 22_500_000)},
		"anthropic.claude-sonnet-4-5-20250929":             {Variants: long(6_600_000, 24_750_000)},
	})
	return calls
}

// bedrockVersions returns copies of the prices of Bedrock's models under their full ids, which end in a version
// such as -v1. It leaves out models with full ids without a version.
func bedrockVersions() []Price {
	var rows []Price
	for _, p := range catalogBedrock() {
		version := "-v1"
		if p.Model == "anthropic.claude-3-5-sonnet-20241022" {
			version = "-v2"
		}
		if isVersioned(p.Model) {
			p.Model += version
			rows = append(rows, p)
		}
	}
	return rows
}

// isVersioned reports whether the full Bedrock id of a model ends in a version such as -v1. Ids of some newer
// models do not.
func isVersioned(model string) bool {
	for _, without := range []string{"openai.", "anthropic.claude-opus-5", "mistral.mistral-large-3"} {
		if strings.HasPrefix(model, without) {
			return false
		}
	}
	return true
}
