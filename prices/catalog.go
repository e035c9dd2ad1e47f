package prices

import (
	"slices"
	"time"
)

// Catalog returns the embedded prices of common models of Amazon Bedrock, Anthropic, Gemini and OpenAI. Each
// has its Source and the day of its check. Prices given in Options or stored in the table come before it.
func Catalog() []Price {
	return slices.Concat(catalogBedrock(), catalogAnthropic(), catalogGemini(), catalogOpenAI())
}

// priceFacts returns a price row for each model id, all with the same rates. source is where they were found,
// on the day checked. They apply from the day from on, or always if that is empty.
func priceFacts(source, checked, from string, rates Rates, models ...string) []Price {
	rows := make([]Price, len(models))
	for i, model := range models {
		p := Price{Model: model, EffectiveFrom: catalogDay(from), Rates: rates, Source: source, Checked: checked}
		rows[i] = p.Normalized()
	}
	return rows
}

// catalogDay parses a day of the catalog, "" as the zero time. It panics for a malformed day.
func catalogDay(day string) time.Time {
	if day == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		panic("prices: catalog: " + err.Error())
	}
	return t
}
