package budget

import (
	"math/bits"
	"time"
)

// A list's price is compared with the one in force by these: more than so many times as
// much, or less than that part of it, waits for somebody to look.
const priceFactor = 3

// HeldReason says why a price of a list is not taken without being asked for.
type HeldReason string

// The reasons.
const (
	HeldDearer    HeldReason = "dearer"     // a class costs more than three times as much, or was free
	HeldCheaper   HeldReason = "cheaper"    // a class costs less than a third
	HeldZero      HeldReason = "zero"       // a class is to be free that was not
	HeldModelGone HeldReason = "model_gone" // the list had the model before
	HeldClassGone HeldReason = "class_gone" // the list had a price for the class before
	HeldByHand    HeldReason = "by_hand"    // the price in force was put by hand, or is one of Options.Prices
	HeldOtherList HeldReason = "other_list" // the price in force is another list's
	HeldAmbiguous HeldReason = "two_prices" // the list has two prices for it: name fewer providers
	HeldTooMany   HeldReason = "too_many"   // more prices are stored for the model than can be
)

// String is the reason as reports have it.
func (r HeldReason) String() string { return string(r) }

// PriceChange is a price of a list that differs from the one in force.
type PriceChange struct {
	// Model is the model without a prefix of its scope, as PriceImport.Accept names it.
	Model string
	// Scope is the endpoints it is for.
	Scope PriceScope
	// EffectiveFrom is when it begins: for one that is accepted never before that.
	EffectiveFrom time.Time
	// Before is what is in force then without it; nil: nothing.
	Before *Rates
	// After is what the list says, with the rates of classes that it has none for
	// carried over; nil: it has the model no more.
	After *Rates
	// Reason is why it is held back; empty when it is accepted.
	Reason HeldReason
	// Class is the token class at fault; empty when it is not about one.
	Class string
}

// given are the classes with a rate, by their bits.
func (r Rates) given() (classes uint8) {
	for i, c := range tokenClasses {
		if c.always() || *c.rate(&r) != 0 {
			classes |= 1 << i
		}
	}
	return classes
}

// given are the classes with a rate in any of the list's prices for a scope.
func (l *listing) given(scope PriceScope) (classes uint8) {
	for _, p := range l.rows {
		if p.Scope == scope {
			classes |= p.given()
		}
	}
	return classes
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

// judge says why a price is to be looked at before it holds; no reason: it need not be.
// gone are the classes, by their bits, that the list had rates for.
func (l *listing) judge(want, have Price, layer string, known bool, gone uint8) (HeldReason, string) {
	if reason := owner(have, layer, l.list); reason != "" && want.Rates.plain() != have.Rates.plain() {
		return reason, ""
	}
	for _, c := range tokenClasses {
		if reason := compare(c, *c.rate(&want.Rates), *c.rate(&have.Rates), known); reason != "" {
			return reason, c.name
		}
	}
	if gone != 0 {
		return HeldClassGone, tokenClasses[bits.TrailingZeros8(gone)].name
	}
	return "", ""
}

// owner says whose the price in force is, if it is not for a list to change.
func owner(have Price, layer, list string) HeldReason {
	switch {
	case layer == layerOptions || layer == layerTable && have.List == "":
		return HeldByHand
	case layer == layerTable && have.List != list && have.List != layerCatalog:
		return HeldOtherList
	}
	return ""
}

// compare judges the rate of one class.
func compare(c tokenClass, after, before int64, known bool) HeldReason {
	free := func(rate int64) bool { return rate == FreeRate || rate == 0 && c.always() }
	switch {
	case free(after) && known && free(before):
		return ""
	case free(after):
		return HeldZero
	case !known || before == 0 && !c.always(): // nothing to compare with
		return ""
	case free(before), after > priceFactor*before:
		return HeldDearer
	case after*priceFactor < before:
		return HeldCheaper
	}
	return ""
}
