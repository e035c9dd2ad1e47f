package prices

import "slices"

// bedrockSource and bedrockChecked are where the prices of Bedrock come from: on demand, in
// US regions.
const (
	bedrockSource  = "https://aws.amazon.com/bedrock/pricing/"
	bedrockChecked = "2026-08-21"
)

// catalogBedrock returns the prices of models on Amazon Bedrock, on demand and in US regions, in micro-dollars
// a million tokens.
func catalogBedrock() []Price {
	return slices.Concat(
		splitEndpoints("anthropic.claude-opus-5", "", 5_000_000, 25_000_000),
		splitEndpoints("anthropic.claude-opus-4-6", "", 5_000_000, 25_000_000),
		splitEndpoints("anthropic.claude-opus-4-5-20251101", "", 5_000_000, 25_000_000),
		splitEndpoints("anthropic.claude-opus-4-5", "", 5_000_000, 25_000_000), // the undated alias
		splitEndpoints("anthropic.claude-sonnet-5", "", 2_000_000, 10_000_000),
		splitEndpoints("anthropic.claude-sonnet-4-6", "", 3_000_000, 15_000_000),
		splitEndpoints("anthropic.claude-sonnet-4-5-20250929", "", 3_000_000, 15_000_000),
		splitEndpoints("anthropic.claude-haiku-4-5-20251001", "", 1_000_000, 5_000_000),
		bedrockPrice("anthropic.claude-sonnet-4-20250514", anthropicRates(3_000_000, 15_000_000)),
		bedrockPrice("anthropic.claude-3-7-sonnet-20250219", anthropicRates(3_000_000, 15_000_000)),
		bedrockPrice("anthropic.claude-3-5-sonnet-20241022", anthropicRates(3_000_000, 15_000_000)),
		bedrockPrice("anthropic.claude-3-5-haiku-20241022", anthropicRates(800_000, 4_000_000)),
		bedrockPrice("anthropic.claude-3-haiku-20240307", Rates{Input: 250_000, Output: 1_250_000}),
		bedrockPrice("amazon.nova-pro", Rates{Input: 800_000, Output: 3_200_000, CacheRead: 200_000}),
		bedrockPrice("amazon.nova-lite", Rates{Input: 60_000, Output: 240_000, CacheRead: 15_000}),
		bedrockPrice("amazon.nova-micro", Rates{Input: 35_000, Output: 140_000, CacheRead: 8_750}),
		splitEndpoints("anthropic.claude-fable-5", "", 10_000_000, 50_000_000),
		splitEndpoints("anthropic.claude-opus-4-8", "", 5_000_000, 25_000_000),
		splitEndpoints("anthropic.claude-opus-4-7", "", 5_000_000, 25_000_000),
		bedrockPrice("anthropic.claude-opus-4-1-20250805", anthropicRates(15_000_000, 75_000_000)),
		bedrockPrice("anthropic.claude-opus-4-20250514", anthropicRates(15_000_000, 75_000_000)),
		bedrockPrice("global.amazon.nova-2-lite", Rates{Input: 300_000, Output: 2_500_000, CacheRead: 75_000}),
		bedrockPrice("regional.amazon.nova-2-lite", Rates{Input: 330_000, Output: 2_750_000, CacheRead: 82_500}),
		bedrockPrice("amazon.nova-premier", Rates{Input: 2_500_000, Output: 12_500_000, CacheRead: 625_000}),
		bedrockPrice("deepseek.r1", Rates{Input: 1_350_000, Output: 5_400_000}),
		bedrockPrice("meta.llama3-3-70b-instruct", Rates{Input: 720_000, Output: 720_000}),
		bedrockPrice("meta.llama4-maverick-17b-instruct", Rates{Input: 240_000, Output: 970_000}),
		bedrockPrice("meta.llama4-scout-17b-instruct", Rates{Input: 170_000, Output: 660_000}),
		bedrockPrice("mistral.mistral-large-3-675b-instruct", Rates{Input: 500_000, Output: 1_500_000}),
		bedrockPrice("mistral.pixtral-large-2502", Rates{Input: 2_000_000, Output: 6_000_000}),
		bedrockPrice("openai.gpt-oss-120b-1", Rates{Input: 150_000, Output: 600_000}),
		bedrockPrice("openai.gpt-oss-20b-1", Rates{Input: 70_000, Output: 300_000}),
		bedrockPrice("qwen.qwen3-32b", Rates{Input: 150_000, Output: 600_000}),
	)
}

// bedrockPrice returns the price that all endpoints of a Bedrock model have in common, as a list of one. Rates
// are in micro-dollars a million tokens.
func bedrockPrice(model string, r Rates) []Price {
	return newPrices(bedrockSource, bedrockChecked, "", r, model)
}

// splitEndpoints returns two prices of a Bedrock model, global and regional, from rates of global endpoints in
// micro-dollars a million tokens. Regional endpoints cost a tenth more. Cache rates are Anthropic's multiples
// of the input rate; both apply from the day from on.
func splitEndpoints(model, from string, input, output int64) []Price {
	return slices.Concat(
		newPrices(bedrockSource, bedrockChecked, from, anthropicRates(input, output), "global."+model),
		newPrices(bedrockSource, bedrockChecked, from, anthropicRates(input/10*11, output/10*11), "regional."+model),
	)
}

// anthropicRates returns rates in micro-dollars a million tokens, with the cache rates that Anthropic publishes
// as multiples of the input price. Reads cost 0.1×, writes 1.25× for 5 minutes and 2× for an hour.
func anthropicRates(input, output int64) Rates {
	return Rates{
		Input: input, Output: output,
		CacheRead: input / 10, CacheWrite5m: input * 5 / 4, CacheWrite1h: input * 2,
	}
}
