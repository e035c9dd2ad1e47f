package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/money"
)

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
