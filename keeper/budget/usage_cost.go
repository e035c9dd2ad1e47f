package budget

import (
	"cmp"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/prices"
)

// setCost returns the record's cost at the price in force at the instant at, and sets e.Cost and
// e.PriceVersion. A model that the record names must be one that the label has, or had within pastFor before
// now. Another is a *fault.ValidationError. A record with a cost keeps it.
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

// recordModel returns the model that prices a record: the one it names, if its label has or had that one, else
// the label's model, or its last model. Another named model, or a label without a model, is a *fault.ValidationError, so a record cannot choose its price.
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

// pastModel returns the last earlier model that a label had within pastFor, "" if there is none, and whether
// the named one was among those earlier models.
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

// costOf returns the exact cost of tokens, in pico-dollars, at the model's price in force at an instant. It
// also returns the version of that price, with the token classes whose rate is assumed. A model without a price
// is a *fault.ValidationError.
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
