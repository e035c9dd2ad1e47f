package budget

import (
	"regexp"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

const (
	// priceFactor bounds what a list may change: a class at more than so many times a price to
	// compare with, or at less than that part of it, waits for somebody to look.
	priceFactor = 3
	// priceMemory is how long a price stays one to compare with after a list changed it: a list
	// that halves a price day after day is held back, too.
	priceMemory = 30 * 24 * time.Hour
)

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
	// Reason is why it is held back, empty when it is accepted: "dearer" or "cheaper" where a
	// class costs more than three times or less than a third of what it does without the list,
	// or did 30 days ago, or something that was free (a new model is compared with the models of
	// its family); "zero" where a class is to be free that was not; "by_hand" where the price in
	// force was put by hand, or is one of Options.Prices.
	Reason string `json:"reason,omitempty"`
	// Class is the token class at fault; empty when it is not about one.
	Class string `json:"class,omitempty"`
}

// carrying returns the rates with those in force of the cache classes that have none. A rate that
// would be dearer than one that nobody knows stays out: the input became cheaper, and so did it.
func carrying(r, have prices.Rates) prices.Rates {
	dearest := r.Assumed()
	for _, c := range tokenClasses {
		if rate := c.Rate(&r); *rate == 0 && !c.Always() && *c.Rate(&have) <= *c.Rate(&dearest) {
			*rate = *c.Rate(&have)
		}
	}
	return r
}

// judge returns why a price is to be looked at before it holds, and the class at fault. The reason is
// empty for a price that is near enough to each of those to compare it with.
func judge(want prices.Price, compared []prices.Price) (reason, class string) {
	if len(compared) == 0 {
		compared = []prices.Price{{Rates: want.Rates}}
	}
	for _, have := range compared {
		for _, c := range tokenClasses {
			if reason := compare(c, *c.Rate(&want.Rates), *c.Rate(&have.Rates), have.Model != ""); reason != "" {
				return reason, c.Name
			}
		}
	}
	return "", ""
}

// compare judges the rate of one class. known is false if there is no price to compare with.
func compare(c prices.Class, after, before int64, known bool) string {
	free := func(rate int64) bool { return rate == prices.FreeRate || rate == 0 && c.Always() }
	switch {
	case free(after) && known && free(before):
		return ""
	case free(after):
		return heldZero
	case !known || (before == 0 || after == 0) && !c.Always(): // nothing to compare
		return ""
	case free(before), after > priceFactor*before:
		return heldDearer
	case after*priceFactor < before:
		return heldCheaper
	}
	return ""
}

// comparable returns the prices with which a list's price for a scope from an instant on is compared:
// the one in force without the list, and the one of 30 days ago, or else the oldest that is stored. For
// a model without a price they are those of its family.
func (l *listing) comparable(scope prices.Scope, at, now time.Time) []prices.Price {
	have, _, known := l.layers.lookup(l.probe(scope), at)
	if !known {
		return l.family
	}
	before, _, known := l.layers.lookup(l.probe(scope), now.Add(-priceMemory))
	for _, p := range l.stored {
		if !known && (p.Scope == scope || p.Scope == "") && (before.Model == "" || p.EffectiveFrom.Before(before.EffectiveFrom)) {
			before = p
		}
	}
	if before.Model == "" {
		return []prices.Price{have}
	}
	return []prices.Price{have, before}
}

// familyOf returns the model that an id is a version or a host's name of: without the prefix of its
// scope, the vendor's name before a dot, a version, and a date. It is the same for
// claude-3-5-sonnet-20241022 and us.anthropic.claude-3-5-sonnet-20241022-v2:0.
func familyOf(model string) string {
	name, _ := prices.SplitModel(model)
	names := prices.ModelNames(name)
	name = names[len(names)-1]
	vendor, rest, found := strings.Cut(name, ".")
	if found && !strings.ContainsFunc(vendor, func(r rune) bool { return r < 'a' || r > 'z' }) {
		name = rest
	}
	return datePattern.ReplaceAllString(name, "")
}

var datePattern = regexp.MustCompile(`-(?:20\d{6}|20\d\d-\d\d-\d\d|latest)$`)

// families returns the prices in force at an instant by the family of their models.
func (l priceLayers) families(at time.Time) map[string][]prices.Price {
	all := map[string][]prices.Price{}
	for _, layer := range l {
		for model, rows := range layer.book {
			for _, scope := range []prices.Scope{prices.Regional, prices.Global} {
				if p, ok := prices.InForce(rows, scope, at); ok {
					all[familyOf(model)] = append(all[familyOf(model)], p)
				}
			}
		}
	}
	return all
}
