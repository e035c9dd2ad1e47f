package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/money"
)

// SpooledUsage is a record that the store has not accepted yet.
type SpooledUsage struct {
	Org      string    `json:"org_id"`   // the organisation's id
	App      string    `json:"app_id"`   // the app's id
	Usage    Usage     `json:"usage"`    // as it was submitted
	Received time.Time `json:"received"` // the time of a record that has none
	// Cost is what it costs, in pico-dollars, by the configuration and the prices that were
	// known when it was received. Empty: none was known.
	Cost string `json:"cost_picos,omitempty"`
	// PriceVersion is where its price is from. Empty if Cost is.
	PriceVersion string `json:"price_version,omitempty"`
	Refusal      string `json:"refusal,omitempty"` // why it was refused for good
}

// priced reports whether it was found good, and priced, before.
func (e *SpooledUsage) priced() bool { return e.Cost != "" }

// cost is what the record costs, by the model that it names and the price in force at an
// instant; what was found once stays.
func (e *SpooledUsage) cost(t *tenant, at, now time.Time) (money.Picos, error) {
	if e.priced() {
		cost, err := money.Parse(e.Cost)
		if err != nil {
			return cost, invalid("cost_picos", "%v", err)
		}
		return cost, nil
	}
	model, err := t.recordModel(e.Usage, now)
	if err != nil {
		return money.Picos{}, err
	}
	cost, version, err := t.costOf(e.Usage.Label, model, e.Usage.Tokens, at)
	if err == nil {
		e.Cost, e.PriceVersion = cost.String(), version
	}
	return cost, err
}
