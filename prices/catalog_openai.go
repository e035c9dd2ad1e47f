package prices

import "slices"

// catalogOpenAI returns the prices of OpenAI's models, in micro-dollars a million tokens. It leaves out models
// priced by the length of the context, because one rate cannot express their price.
func catalogOpenAI() []Price {
	const source = "https://platform.openai.com/docs/pricing"
	return slices.Concat(
		newPrices(source, "2025-07-04", "", Rates{Input: 500_000, Output: 1_500_000}, "gpt-3.5-turbo", "gpt-3.5-turbo-0125"),
		newPrices(source, "2025-07-04", "", Rates{Input: 10_000_000, Output: 30_000_000}, "gpt-4-turbo", "gpt-4-turbo-2024-04-09"),
		newPrices(source, "2025-07-04", "", Rates{Input: 2_000_000, Output: 8_000_000, CacheRead: 500_000}, "gpt-4.1", "gpt-4.1-2025-04-14"),
		newPrices(source, "2025-07-04", "", Rates{Input: 400_000, Output: 1_600_000, CacheRead: 100_000}, "gpt-4.1-mini", "gpt-4.1-mini-2025-04-14"),
		newPrices(source, "2025-07-04", "", Rates{Input: 100_000, Output: 400_000, CacheRead: 25_000}, "gpt-4.1-nano", "gpt-4.1-nano-2025-04-14"),
		newPrices(source, "2025-07-04", "", Rates{Input: 2_500_000, Output: 10_000_000, CacheRead: 1_250_000}, "gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-2024-11-20"),
		newPrices(source, "2025-07-04", "", Rates{Input: 150_000, Output: 600_000, CacheRead: 75_000}, "gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
		newPrices(source, "2025-11-13", "", Rates{Input: 1_250_000, Output: 10_000_000, CacheRead: 125_000}, "gpt-5", "gpt-5-2025-08-07", "gpt-5-codex"),
		newPrices(source, "2025-11-13", "", Rates{Input: 250_000, Output: 2_000_000, CacheRead: 25_000}, "gpt-5-mini", "gpt-5-mini-2025-08-07"),
		newPrices(source, "2025-11-13", "", Rates{Input: 50_000, Output: 400_000, CacheRead: 5_000}, "gpt-5-nano", "gpt-5-nano-2025-08-07"),
		newPrices(source, "2025-11-13", "", Rates{Input: 15_000_000, Output: 120_000_000}, "gpt-5-pro", "gpt-5-pro-2025-10-06"),
		newPrices(source, "2025-11-13", "", Rates{Input: 1_250_000, Output: 10_000_000, CacheRead: 125_000}, "gpt-5.1", "gpt-5.1-2025-11-13", "gpt-5.1-codex"),
		newPrices(source, "2025-11-13", "", Rates{Input: 250_000, Output: 2_000_000, CacheRead: 25_000}, "gpt-5.1-codex-mini"),
		newPrices(source, "2025-12-11", "", Rates{Input: 1_750_000, Output: 14_000_000, CacheRead: 175_000}, "gpt-5.2", "gpt-5.2-2025-12-11"),
		newPrices(source, "2025-12-11", "", Rates{Input: 21_000_000, Output: 168_000_000}, "gpt-5.2-pro", "gpt-5.2-pro-2025-12-11"),
		newPrices(source, "2026-02-05", "", Rates{Input: 1_750_000, Output: 14_000_000, CacheRead: 175_000}, "gpt-5.3-codex"),
		newPrices(source, "2026-03-18", "", Rates{Input: 750_000, Output: 4_500_000, CacheRead: 75_000}, "gpt-5.4-mini", "gpt-5.4-mini-2026-03-17"),
		newPrices(source, "2026-03-18", "", Rates{Input: 200_000, Output: 1_250_000, CacheRead: 20_000}, "gpt-5.4-nano", "gpt-5.4-nano-2026-03-17"),
		newPrices(source, "2025-07-04", "", Rates{Input: 15_000_000, Output: 60_000_000, CacheRead: 7_500_000}, "o1", "o1-2024-12-17"),
		newPrices(source, "2025-07-04", "", Rates{Input: 150_000_000, Output: 600_000_000}, "o1-pro", "o1-pro-2025-03-19"),
		newPrices(source, "2025-07-12", "", Rates{Input: 10_000_000, Output: 40_000_000, CacheRead: 500_000}, "o3", "o3-2025-04-16"),
		newPrices(source, "2025-07-12", "2025-06-10", Rates{Input: 2_000_000, Output: 8_000_000, CacheRead: 500_000}, "o3", "o3-2025-04-16"),
		newPrices(source, "2025-07-04", "", Rates{Input: 1_100_000, Output: 4_400_000, CacheRead: 550_000}, "o3-mini", "o3-mini-2025-01-31"),
		newPrices(source, "2025-07-04", "", Rates{Input: 1_100_000, Output: 4_400_000, CacheRead: 275_000}, "o4-mini", "o4-mini-2025-04-16"),
	)
}
