package prices

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Scope says which endpoints a price holds for.
type Scope string

// The scopes of a price; an empty one is of all endpoints for which none of its own is
// known. Regional is a bare model id or one with a us., eu., apac., jp. or au. prefix;
// Global one with global.
const (
	Regional Scope = "regional" // of one region or geography
	Global   Scope = "global"   // of endpoints that route anywhere
)

// Price is the price of a model from an instant on.
type Price struct {
	// Model is the model id. A scope prefix (global., us., …) sets Scope. With a
	// version suffix (-v1:0) the price is that version's, without one it is the
	// price of every version that has none of its own.
	Model string `json:"model_id"`
	// Scope defaults to the scope of the id's prefix, empty for a bare id.
	Scope Scope `json:"scope,omitempty"`
	// EffectiveFrom is when the price begins; the zero time is always.
	EffectiveFrom time.Time `json:"effective_from,omitzero"`
	Rates
	// Source says where the fact comes from; it is not used, and not stored.
	Source string `json:"source,omitempty"`
	// Checked is the day on which Source said so, like 2026-08-21; it is not used, and not
	// stored. Defaults to "": not known.
	Checked string `json:"checked,omitempty"`
	// List is the price list from which a keeper's import stored the price. Empty: a person stored
	// it, and no import replaces it without acceptance.
	// "catalog": an import stored it so that a price of the Catalog stays in force beside
	// the list's.
	List string `json:"list,omitempty"`
}

// Validate returns a *fault.ValidationError for an invalid model id or scope, or a rate outside FreeRate to
// 10^12 micro-dollars a million tokens. It returns nil for a valid price.
func (p Price) Validate() error {
	if base, _ := SplitModel(p.Model); base == "" || len(p.Model) > maxName || !utf8.ValidString(p.Model) {
		return invalidConfig("model", "%q is not a model id of 1 to 256 characters", p.Model)
	}
	if p.Scope != "" && p.Scope != Regional && p.Scope != Global {
		return invalidConfig("scope", "%q is not regional, global or empty", p.Scope)
	}
	for _, c := range classes {
		if rate := *c.Rate(&p.Rates); rate < FreeRate || rate > maxRate {
			return invalidConfig("price."+c.Name, "%d µ$ per million tokens is not within 0 to %d", rate, int64(maxRate))
		}
	}
	return nil
}

// Normalized returns a copy of the price without the scope prefix and the revision :0 in its id. The prefix
// sets an empty Scope; a given Scope stays.
func (p Price) Normalized() Price {
	name, scope := SplitModel(p.Model)
	if p.Scope == "" && name != strings.TrimSuffix(p.Model, ":0") {
		p.Scope = scope
	}
	p.Model = name
	return p
}

// Book is prices by model, without the prefix of a scope.
type Book map[string][]Price

// NewBook returns a book of prices by normalized model id, each model's in the order of rows. It fails with the
// *fault.ValidationError of the first invalid price.
func NewBook(rows []Price) (Book, error) {
	book := Book{}
	for i, row := range rows {
		if err := row.Validate(); err != nil {
			return nil, fmt.Errorf("price %d (%s): %w", i, row.Model, err)
		}
		row = row.Normalized()
		book[row.Model] = append(book[row.Model], row)
	}
	return book, nil
}

// Lookup returns the price in force at t of a model with these names, the closest first (see ModelNames), for a
// scope. It prefers the first name with a price, then the exact scope, then the latest start. It returns false
// without one.
func (b Book) Lookup(names []string, scope Scope, t time.Time) (Price, bool) {
	for _, name := range names {
		if p, ok := InForce(b[name], scope, t); ok {
			return p, true
		}
	}
	return Price{}, false
}

// InForce returns the price in force at t among those of one model, for a scope or for all scopes. It prefers
// the exact scope, then the latest start, then the last of rows. It returns false without one.
func InForce(rows []Price, scope Scope, t time.Time) (Price, bool) {
	var best *Price
	rank := func(p *Price) int {
		if p.Scope == scope {
			return 1
		}
		return 0
	}
	for i := range rows {
		p := &rows[i]
		if p.Scope != "" && p.Scope != scope || p.EffectiveFrom.After(t) {
			continue
		}
		if best == nil || rank(p) > rank(best) || rank(p) == rank(best) && !p.EffectiveFrom.Before(best.EffectiveFrom) {
			best = p
		}
	}
	if best == nil {
		return Price{}, false
	}
	return *best, true
}
