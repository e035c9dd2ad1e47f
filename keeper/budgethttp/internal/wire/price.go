package wire

import (
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// Prices is the stored prices and the built-in ones. Stored prices take precedence.
type Prices struct {
	Stored  []StoredModel `json:"stored" nullable:"false" doc:"Put by hand or by an import; they come before the catalogue. By model"`
	Catalog []PriceRow    `json:"catalog" nullable:"false" doc:"Built in"`
}

// StoredModel is a model with its stored prices.
type StoredModel struct {
	Model       string     `json:"model_id" doc:"The model"`
	Tier        string     `json:"tier,omitempty" doc:"How the operator ranks it"`
	Family      string     `json:"family,omitempty" doc:"What it belongs to"`
	Description string     `json:"description,omitempty" doc:"A sentence about it"`
	Prices      []PriceRow `json:"prices" nullable:"false" doc:"In the order they were put"`
}

// PriceRow is a price with its start.
type PriceRow struct {
	Model         string    `json:"model_id" doc:"The model"`
	Scope         string    `json:"scope,omitempty" enum:"regional,global" doc:"Which endpoints it is for; absent: all, where none of its own is known"`
	EffectiveFrom time.Time `json:"effective_from,omitzero" doc:"When it begins; absent: always"`
	Price
	List    string `json:"list,omitempty" doc:"The price list that it was imported from; absent: put by hand, or built in"`
	Source  string `json:"source,omitempty" doc:"Where a built-in price is from"`
	Checked string `json:"checked,omitempty" doc:"The day on which the source said so" example:"2026-08-21"`
}

// NewStoredModel converts a model with its stored prices and ModelInfo for a response.
func NewStoredModel(m budget.StoredModel) StoredModel {
	return StoredModel{m.Model, m.Info.Tier, m.Info.Family, m.Info.Description, NewPriceRows(m.Prices)}
}

// NewPriceRows converts prices for responses, in their order: rates in micro-dollars a million tokens, starts
// in UTC.
func NewPriceRows(prices []prices.Price) []PriceRow {
	out := make([]PriceRow, len(prices))
	for i, p := range prices {
		out[i] = PriceRow{
			Model: p.Model, Scope: string(p.Scope), EffectiveFrom: p.EffectiveFrom.UTC(), Price: NewPrice(p.Rates),
			List: p.List, Source: p.Source, Checked: p.Checked,
		}
	}
	return out
}
