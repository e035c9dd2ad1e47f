package budget

import "time"

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
	Scope PriceScope `json:"scope,omitempty"`
	// EffectiveFrom is when it begins: for one that is accepted never before that.
	EffectiveFrom time.Time `json:"effective_from"`
	// Before is what is in force then without it; nil: nothing.
	Before *Rates `json:"before,omitempty"`
	// After is what the list says, with the rates of classes that it has none for
	// carried over.
	After *Rates `json:"after"`
	// Reason is why it is held back, empty when it is accepted: "dearer" or "cheaper" where
	// a class costs more than three times or less than a third of what it did, or something
	// that was free; "zero" where a class is to be free that was not; "by_hand" where the
	// price in force was put by hand, or is one of Options.Prices.
	Reason string `json:"reason,omitempty"`
	// Class is the token class at fault; empty when it is not about one.
	Class string `json:"class,omitempty"`
}

// carrying are the rates with those in force of the cache classes that have none.
func (r Rates) carrying(have Rates) Rates {
	for _, c := range tokenClasses {
		if rate := c.rate(&r); *rate == 0 && !c.always() {
			*rate = *c.rate(&have)
		}
	}
	return r
}

// always reports whether every price has a rate for the class.
func (c tokenClass) always() bool {
	return c.name == tokenClasses[0].name || c.name == tokenClasses[len(tokenClasses)-1].name
}

// judge says why a price is to be looked at before it holds, and the class at fault; no
// reason: it need not be.
func judge(want, have Price, layer string, known bool) (reason, class string) {
	byHand := layer == layerOptions || layer == layerTable && have.List == ""
	if byHand && want.Rates.plain() != have.Rates.plain() {
		return heldByHand, ""
	}
	for _, c := range tokenClasses {
		if reason := compare(c, *c.rate(&want.Rates), *c.rate(&have.Rates), known); reason != "" {
			return reason, c.name
		}
	}
	return "", ""
}

// compare judges the rate of one class.
func compare(c tokenClass, after, before int64, known bool) string {
	free := func(rate int64) bool { return rate == FreeRate || rate == 0 && c.always() }
	switch {
	case free(after) && known && free(before):
		return ""
	case free(after):
		return heldZero
	case !known || before == 0 && !c.always(): // nothing to compare with
		return ""
	case free(before), after > priceFactor*before:
		return heldDearer
	case after*priceFactor < before:
		return heldCheaper
	}
	return ""
}
