package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

// A list's price is compared with the one in force by these: more than so many times as
// much, or less than that part of it, waits for somebody to look.
const priceFactor = 3

// Why a price of a list is held back, see PriceChange.Reason.
const (
	heldDearer  = "dearer"
	heldCheaper = "cheaper"
	heldZero    = "zero"
	heldByHand  = "by_hand"
)

// PriceChange is a price of a list that differs from the one in force.
type PriceChange struct {
	// Model is the model without a prefix of its scope, as PriceImport.Accept names it.
	Model string `json:"model_id"`
	// Scope is the endpoints it is for.
	Scope prices.Scope `json:"scope,omitempty"`
	// EffectiveFrom is when it begins: for one that is accepted never before that.
	EffectiveFrom time.Time `json:"effective_from"`
	// Before is what is in force then without it; nil: nothing.
	Before *prices.Rates `json:"before,omitempty"`
	// After is what the list says, with the rates of classes that it has none for
	// carried over.
	After *prices.Rates `json:"after"`
	// Reason is why it is held back, empty when it is accepted: "dearer" or "cheaper" where
	// a class costs more than three times or less than a third of what it did, or something
	// that was free; "zero" where a class is to be free that was not; "by_hand" where the
	// price in force was put by hand, or is one of Options.Prices.
	Reason string `json:"reason,omitempty"`
	// Class is the token class at fault; empty when it is not about one.
	Class string `json:"class,omitempty"`
}

// carrying are the rates with those in force of the cache classes that have none.
func carrying(r, have prices.Rates) prices.Rates {
	for _, c := range tokenClasses {
		if rate := c.Rate(&r); *rate == 0 && !c.Always() {
			*rate = *c.Rate(&have)
		}
	}
	return r
}

// judge says why a price is to be looked at before it holds, and the class at fault; no
// reason: it need not be.
func judge(want, have prices.Price, layer string, known bool) (reason, class string) {
	byHand := layer == layerOptions || layer == layerTable && have.List == ""
	if byHand && plainRates(want.Rates) != plainRates(have.Rates) {
		return heldByHand, ""
	}
	for _, c := range tokenClasses {
		if reason := compare(c, *c.Rate(&want.Rates), *c.Rate(&have.Rates), known); reason != "" {
			return reason, c.Name
		}
	}
	return "", ""
}

// compare judges the rate of one class.
func compare(c prices.Class, after, before int64, known bool) string {
	free := func(rate int64) bool { return rate == prices.FreeRate || rate == 0 && c.Always() }
	switch {
	case free(after) && known && free(before):
		return ""
	case free(after):
		return heldZero
	case !known || before == 0 && !c.Always(): // nothing to compare with
		return ""
	case free(before), after > priceFactor*before:
		return heldDearer
	case after*priceFactor < before:
		return heldCheaper
	}
	return ""
}
