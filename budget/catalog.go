package budget

import "time"

// catalogSource is where the catalog's facts come from.
const catalogSource = "https://aws.amazon.com/bedrock/pricing/ (on-demand, US regions, as of 2026-08-21)"

// anthropicRates derives the cache rates Anthropic publishes as multiples of
// the input price: reads 0.1×, writes 1.25× for 5 minutes and 2× for an hour.
func anthropicRates(input, output int64) Rates {
	return Rates{
		Input: input, Output: output,
		CacheRead: input / 10, CacheWrite5m: input * 5 / 4, CacheWrite1h: input * 2,
	}
}

// split is a model whose regional endpoints cost a tenth more than global ones.
func split(model string, from time.Time, input, output int64) []Price {
	return []Price{
		{Model: model, Scope: Global, EffectiveFrom: from, Rates: anthropicRates(input, output), Source: catalogSource},
		{Model: model, Scope: Regional, EffectiveFrom: from, Rates: anthropicRates(input/10*11, output/10*11), Source: catalogSource},
	}
}

func single(model string, r Rates) []Price {
	return []Price{{Model: model, Rates: r, Source: catalogSource}}
}

// Catalog is the embedded prices: common models on Amazon Bedrock. Prices
// given in Options or stored in the table come before it.
func Catalog() []Price {
	always := time.Time{}
	sonnet5Raise := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	nova := func(in, out, read int64) Rates {
		return Rates{Input: in, Output: out, CacheRead: read}
	}
	rows := [][]Price{
		split("anthropic.claude-opus-5", always, 5_000_000, 25_000_000),
		split("anthropic.claude-opus-4-6", always, 5_000_000, 25_000_000),
		split("anthropic.claude-opus-4-5-20251101", always, 5_000_000, 25_000_000),
		split("anthropic.claude-opus-4-5", always, 5_000_000, 25_000_000), // the undated alias
		split("anthropic.claude-sonnet-5", always, 2_000_000, 10_000_000),
		split("anthropic.claude-sonnet-5", sonnet5Raise, 3_000_000, 15_000_000),
		split("anthropic.claude-sonnet-4-6", always, 3_000_000, 15_000_000),
		split("anthropic.claude-sonnet-4-5-20250929", always, 3_000_000, 15_000_000),
		split("anthropic.claude-haiku-4-5-20251001", always, 1_000_000, 5_000_000),
		single("anthropic.claude-sonnet-4-20250514", anthropicRates(3_000_000, 15_000_000)),
		single("anthropic.claude-3-7-sonnet-20250219", anthropicRates(3_000_000, 15_000_000)),
		single("anthropic.claude-3-5-sonnet-20241022", anthropicRates(3_000_000, 15_000_000)),
		single("anthropic.claude-3-5-haiku-20241022", anthropicRates(800_000, 4_000_000)),
		single("anthropic.claude-3-haiku-20240307", Rates{Input: 250_000, Output: 1_250_000}),
		single("amazon.nova-pro", nova(800_000, 3_200_000, 200_000)),
		single("amazon.nova-lite", nova(60_000, 240_000, 15_000)),
		single("amazon.nova-micro", nova(35_000, 140_000, 8_750)),
	}
	var all []Price
	for _, r := range rows {
		all = append(all, r...)
	}
	return all
}
