package prices

import "slices"

// catalogAnthropic returns the prices of models of Anthropic's own API, in micro-dollars a million tokens. It
// leaves out models priced by the length of the context, because one rate cannot express their price.
func catalogAnthropic() []Price {
	const source = "https://www.anthropic.com/pricing#api"
	return slices.Concat(
		newPrices(source, "2026-07-29", "", Rates{Input: 10_000_000, Output: 50_000_000, CacheRead: 1_000_000, CacheWrite5m: 12_500_000, CacheWrite1h: 20_000_000}, "claude-fable-5"),
		newPrices(source, "2026-07-29", "", Rates{Input: 5_000_000, Output: 25_000_000, CacheRead: 500_000, CacheWrite5m: 6_250_000, CacheWrite1h: 10_000_000}, "claude-opus-5"),
		newPrices(source, "2026-07-29", "", Rates{Input: 5_000_000, Output: 25_000_000, CacheRead: 500_000, CacheWrite5m: 6_250_000, CacheWrite1h: 10_000_000}, "claude-opus-4-8"),
		newPrices(source, "2026-07-29", "", Rates{Input: 5_000_000, Output: 25_000_000, CacheRead: 500_000, CacheWrite5m: 6_250_000, CacheWrite1h: 10_000_000}, "claude-opus-4-7"),
		newPrices(source, "2026-07-29", "2026-03-13", Rates{Input: 5_000_000, Output: 25_000_000, CacheRead: 500_000, CacheWrite5m: 6_250_000, CacheWrite1h: 10_000_000}, "claude-opus-4-6"),
		newPrices(source, "2026-07-29", "", Rates{Input: 5_000_000, Output: 25_000_000, CacheRead: 500_000, CacheWrite5m: 6_250_000, CacheWrite1h: 10_000_000}, "claude-opus-4-5", "claude-opus-4-5-20251101"),
		newPrices(source, "2026-07-29", "", Rates{Input: 15_000_000, Output: 75_000_000, CacheRead: 1_500_000, CacheWrite5m: 18_750_000, CacheWrite1h: 30_000_000}, "claude-opus-4-1", "claude-opus-4-1-20250805"),
		newPrices(source, "2026-07-29", "", Rates{Input: 15_000_000, Output: 75_000_000, CacheRead: 1_500_000, CacheWrite5m: 18_750_000, CacheWrite1h: 30_000_000}, "claude-opus-4-0", "claude-opus-4-20250514"),
		newPrices(source, "2026-07-29", "", Rates{Input: 2_000_000, Output: 10_000_000, CacheRead: 200_000, CacheWrite5m: 2_500_000, CacheWrite1h: 4_000_000}, "claude-sonnet-5"),
		newPrices(source, "2026-07-29", "2026-03-13", Rates{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite5m: 3_750_000, CacheWrite1h: 6_000_000}, "claude-sonnet-4-6"),
		newPrices(source, "2026-07-29", "", Rates{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite5m: 3_750_000, CacheWrite1h: 6_000_000}, "claude-sonnet-4-0", "claude-sonnet-4-20250514"),
		newPrices(source, "2026-07-29", "", Rates{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite5m: 3_750_000, CacheWrite1h: 6_000_000}, "claude-3-7-sonnet-latest", "claude-3-7-sonnet-20250219"),
		newPrices(source, "2026-07-29", "", Rates{Input: 1_000_000, Output: 5_000_000, CacheRead: 100_000, CacheWrite5m: 1_250_000, CacheWrite1h: 2_000_000}, "claude-haiku-4-5", "claude-haiku-4-5-20251001"),
		newPrices(source, "2026-07-29", "", Rates{Input: 800_000, Output: 4_000_000, CacheRead: 80_000, CacheWrite5m: 1_000_000, CacheWrite1h: 1_600_000}, "claude-3-5-haiku-latest", "claude-3-5-haiku-20241022"),
	)
}
