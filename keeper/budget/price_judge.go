package budget

import (
	"regexp"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

const (
	// priceFactor bounds the change by a list. A class at more than this multiple of a compared
	// price, or at less than that fraction of it, is held back.
	priceFactor = 3
	// priceMemory is how long a price stays a price to compare with after a list changed it, so
	// that a list that halves a price every day is held back too.
	priceMemory = 30 * 24 * time.Hour
)

// Reasons to hold back a price of a list, see PriceChange.Reason.
const (
	heldDearer  = "dearer"
	heldCheaper = "cheaper"
	heldZero    = "zero"
	heldByHand  = "by_hand"
)

// PriceChange is a price of a list that differs from the price in force.
type PriceChange struct {
	// Model is the model without the prefix of a scope, as in PriceImport.Accept.
	Model string `json:"model_id"`
	// Scope is the endpoints of the price.
	Scope prices.Scope `json:"scope,omitempty"`
	// EffectiveFrom is the start of the price. An accepted price never starts earlier.
	EffectiveFrom time.Time `json:"effective_from"`
	// Before is the price then in force without the list. It is nil if the model has no price.
	Before *prices.Rates `json:"before,omitempty"`
	// After is the list's price. Classes without a rate in the list keep theirs.
	After *prices.Rates `json:"after"`
	// Reason is why the price is held back. It is empty for an accepted price. "dearer" and
	// "cheaper" mean that a class costs more than three times, or less than a third of, its
	// price without the list or of 30 days ago, or that a free class now costs something. A new
	// model is compared with the models of its family. "zero" means that a class becomes free.
	// "by_hand" means that the price in force was put by hand or comes from Options.Prices.
	Reason string `json:"reason,omitempty"`
	// Class is the token class concerned. It is empty if the reason concerns no class.
	Class string `json:"class,omitempty"`
}

// carryRates returns r with missing rates of cache classes taken from have. A class whose rate in have is above
// the assumed one stays without, because the input probably became cheaper. r and have stay unchanged.
func carryRates(r, have prices.Rates) prices.Rates {
	dearest := r.Assumed()
	for _, c := range tokenClasses {
		if rate := c.Rate(&r); *rate == 0 && !c.Always() && *c.Rate(&have) <= *c.Rate(&dearest) {
			*rate = *c.Rate(&have)
		}
	}
	return r
}

// reasonToHold returns why to hold back the price want, and the token class concerned, or "" if it is close to
// all compared prices. Without compared prices it holds back only a free input or output.
func reasonToHold(want prices.Price, compared []prices.Price) (reason, class string) {
	if len(compared) == 0 {
		compared = []prices.Price{{Rates: want.Rates}}
	}
	for _, have := range compared {
		for _, c := range tokenClasses {
			if reason := compareRates(c, *c.Rate(&want.Rates), *c.Rate(&have.Rates), have.Model != ""); reason != "" {
				return reason, c.Name
			}
		}
	}
	return "", ""
}

// compareRates returns heldZero, heldDearer or heldCheaper for a new rate of a token class, or "" to accept it.
// It holds back a class that becomes free or stops being free, and changes beyond priceFactor. known is false
// without an earlier price; then it holds back only a free class.
func compareRates(c prices.Class, after, before int64, known bool) string {
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

// pricesToCompare returns the prices to compare a list's price with: the one in force then without the list,
// and an earlier one. That is the one 30 days before now, or the oldest stored. For a model without a price it
// returns those of its family.
func (l *listing) pricesToCompare(scope prices.Scope, at, now time.Time) []prices.Price {
	have, _, known := l.layers.lookup(l.probeID(scope), at)
	if !known {
		return l.family
	}
	before, _, known := l.layers.lookup(l.probeID(scope), now.Add(-priceMemory))
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

// familyOf returns a model's name without scope prefix, vendor, version and date, for comparison with the same
// model under other ids. So claude-3-5-sonnet-20241022 and us.anthropic.claude-3-5-sonnet-20241022-v2:0 have
// the same family.
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

// families returns, by familyOf, the prices of all models that are in force at an instant, from every layer,
// for regional and for global endpoints.
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
