package prices

import (
	"slices"
	"time"
)

// Catalog returns a new slice with the embedded prices of common models of Amazon Bedrock, Anthropic, Gemini
// and OpenAI. Each has its Source and the day of its check. Prices given in Options or stored in the table come
// before it.
func Catalog() []Price {
	return slices.Concat(catalogBedrock(), catalogAnthropic(), catalogGemini(), catalogOpenAI())
}

// newPrices returns a price row for each model id, all with the same rates in micro-dollars a million tokens.
// The prices were read at the address source on the day checked. They apply from the day from on, or always if
// that is "".
func newPrices(source, checked, from string, rates Rates, models ...string) []Price {
	rows := make([]Price, len(models))
	for i, model := range models {
		p := Price{Model: model, EffectiveFrom: parseDay(from), Rates: rates, Source: source, Checked: checked}
		rows[i] = p.Normalized()
	}
	return rows
}

// parseDay returns the day of a text like 2026-07-29, at midnight UTC, and the zero time for "". It panics for
// a malformed day.
func parseDay(day string) time.Time {
	if day == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		panic("prices: catalog: " + err.Error())
	}
	return t
}
