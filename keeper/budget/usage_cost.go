package budget

import (
	"cmp"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/prices"
)

// setCost returns the record's cost in pico-dollars at the price in force at the instant at, and sets e.Cost
// and e.PriceVersion. A record with a cost keeps it. A model that its label neither has nor had lately, or one
// without a price, is a *fault.ValidationError.
func (e *SpooledUsage) setCost(t *tenant, at, now time.Time) (money.Picos, error) {
	if e.isPriced() {
		cost, err := money.ParsePicos(e.Cost)
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

// recordModel returns the id of the model that prices a record: the named one if its label has or had it within
// pastFor. Without a named one it is the label's present or last one. Another named model, or none at all, is a
// *fault.ValidationError.
func (t *tenant) recordModel(u prices.Usage, now time.Time) (string, error) {
	last, had := t.pastModel(u.Label, u.Model, now)
	model := cmp.Or(t.model(t.policy(), u.Label), last)
	switch {
	case model == "":
		return "", noModelError(u.Label)
	case u.Model == "":
		return model, nil
	case had, u.Model == model, u.Model == t.config.Models[u.Label], u.Model == t.options[u.Label]:
		return u.Model, nil
	}
	return "", invalid("model_id", "label %q is model %q, not %q", u.Label, model, u.Model)
}

// pastModel returns the model that the label had last before its present one, if that ended within pastFor
// before now, else "". had reports whether named was among its models of that time.
func (t *tenant) pastModel(label, named string, now time.Time) (last string, had bool) {
	past := slices.Concat(t.past.org, t.past.app)
	slices.SortStableFunc(past, func(a, b pastModel) int { return cmp.Compare(a.Until, b.Until) })
	for _, p := range past {
		if p.Label == label && p.Until >= now.Add(-pastFor).Unix() {
			last, had = p.Model, had || p.Model == named
		}
	}
	return last, had
}

// costOf returns the exact cost of tokens in pico-dollars at the model's price at an instant, and that price's
// version with the assumed token classes. A model without a price is a *fault.ValidationError, about label.
func (t *tenant) costOf(label, model string, tokens prices.Tokens, at time.Time) (money.Picos, string, error) {
	price, layer, ok := t.prices.lookup(model, at)
	if !ok {
		return money.Picos{}, "", invalidConfig("models."+label, "model %q has no price", model)
	}
	cost, assumed := costOf(price.Rates, tokens)
	version := versionOf(price, layer)
	for _, class := range assumed {
		version += "|" + class + " assumed"
	}
	return cost, version, nil
}

// labelCost returns the exact cost of tokens, in pico-dollars, at a label's price in force at an instant. A
// label without a model, or whose model has no price, is a *fault.ValidationError.
func (t *tenant) labelCost(label string, tokens prices.Tokens, at time.Time) (money.Picos, error) {
	model := t.model(t.policy(), label)
	if model == "" {
		return money.Picos{}, noModelError(label)
	}
	cost, _, err := t.costOf(label, model, tokens, at)
	return cost, err
}
