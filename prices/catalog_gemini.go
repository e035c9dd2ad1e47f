package prices

import "slices"

// catalogGemini returns the prices of models of the Gemini API for text, images and video, not sound, in
// micro-dollars a million tokens. It leaves out models priced by the length of the context, because one rate
// cannot express their price.
func catalogGemini() []Price {
	const source = "https://ai.google.dev/gemini-api/docs/pricing"
	return slices.Concat(
		newPrices(source, "2025-07-04", "", Rates{Input: 100_000, Output: 400_000, CacheRead: 25_000}, "gemini-2.0-flash"),
		newPrices(source, "2025-07-04", "", Rates{Input: 75_000, Output: 300_000}, "gemini-2.0-flash-lite"),
		newPrices(source, "2025-10-31", "", Rates{Input: 300_000, Output: 2_500_000, CacheRead: 30_000}, "gemini-2.5-flash"),
		newPrices(source, "2025-10-31", "", Rates{Input: 100_000, Output: 400_000, CacheRead: 10_000}, "gemini-2.5-flash-lite"),
		newPrices(source, "2025-12-19", "", Rates{Input: 500_000, Output: 3_000_000, CacheRead: 50_000}, "gemini-3-flash-preview"),
		newPrices(source, "2026-05-12", "", Rates{Input: 250_000, Output: 1_500_000, CacheRead: 25_000}, "gemini-3.1-flash-lite"),
		newPrices(source, "2026-05-19", "", Rates{Input: 1_500_000, Output: 9_000_000, CacheRead: 150_000}, "gemini-3.5-flash"),
		newPrices(source, "2026-07-22", "", Rates{Input: 300_000, Output: 2_500_000, CacheRead: 30_000}, "gemini-3.5-flash-lite"),
		newPrices(source, "2026-08-13", "", Rates{Input: 750_000, Output: 3_750_000, CacheRead: 75_000}, "gemini-3.6-flash"),
		newPrices(source, "2026-08-13", "2027-01-01", Rates{Input: 1_500_000, Output: 7_500_000, CacheRead: 150_000}, "gemini-3.6-flash"),
		newPrices(source, "2026-08-13", "", Rates{Input: 750_000, Output: 3_750_000, CacheRead: 75_000}, "gemini-3.7-flash"),
		newPrices(source, "2026-08-13", "2027-01-01", Rates{Input: 1_500_000, Output: 7_500_000, CacheRead: 150_000}, "gemini-3.7-flash"),
	)
}
