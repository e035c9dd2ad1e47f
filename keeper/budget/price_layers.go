package budget

import (
	"cmp"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

// The layers of prices, as in price versions.
const (
	layerTable   = "table"
	layerOptions = "options"
	layerCatalog = "catalog"
)

// priceLayers is the sources of prices in order of precedence: table, options, catalog.
type priceLayers []struct {
	name string
	book prices.Book
}

// lookup returns the price in force at t of a model id, whose prefix chooses the scope, and the name of its
// layer. The first layer with one decides, even if a later one has a newer price. It returns false without a
// price.
func (l priceLayers) lookup(model string, t time.Time) (prices.Price, string, bool) {
	name, scope := prices.SplitModel(model)
	names := prices.ModelNames(name)
	for _, layer := range l {
		if p, ok := layer.book.Lookup(names, scope, t); ok {
			return p, layer.name, true
		}
	}
	return prices.Price{}, "", false
}

// nextChange returns the first instant after t at which any price of the model starts, in any layer and scope.
// It returns the zero time if none does.
func (l priceLayers) nextChange(model string, t time.Time) (first time.Time) {
	name, _ := prices.SplitModel(model)
	for _, layer := range l {
		for _, name := range prices.ModelNames(name) {
			for _, row := range layer.book[name] {
				if from := row.EffectiveFrom; from.After(t) && (first.IsZero() || from.Before(first)) {
					first = from
				}
			}
		}
	}
	return first
}

// versionOf returns a text that identifies a price, for receipts: layer, model, scope ("any" without one) and
// start ("always" without one), joined by "|".
func versionOf(p prices.Price, layer string) string {
	from := "always"
	if !p.EffectiveFrom.IsZero() {
		from = p.EffectiveFrom.UTC().Format(time.RFC3339)
	}
	scope := cmp.Or(string(p.Scope), "any")
	return strings.Join([]string{layer, p.Model, scope, from}, "|")
}

// costOf returns the exact cost of the tokens t at the rates r, in pico-dollars. assumed are the names of used
// token classes for which r has no rate, so that an assumed one applied.
func costOf(r prices.Rates, t prices.Tokens) (sum money.Picos, assumed []string) {
	full := r.Assumed()
	for _, c := range tokenClasses {
		n, rate := *c.Count(&t), *c.Rate(&full)
		if n == 0 {
			continue
		}
		if rate != *c.Rate(&r) {
			assumed = append(assumed, c.Name)
		}
		sum = sum.Add(money.Cost(n, max(rate, 0)))
	}
	return sum, assumed
}

// tokenClasses are in the order of ledger.TokenClasses.
var tokenClasses = prices.Classes()

// countsOf returns the tokens of a call as counts of the ledger, in the order of its token classes.
func countsOf(t prices.Tokens) ledger.Tokens {
	var counts ledger.Tokens
	for i, c := range tokenClasses {
		counts[i] = *c.Count(&t)
	}
	return counts
}

// tokensOf returns token counts of the ledger as prices.Tokens.
func tokensOf(counts ledger.Tokens) prices.Tokens {
	var t prices.Tokens
	for i, c := range tokenClasses {
		*c.Count(&t) = counts[i]
	}
	return t
}
