package budget

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
)

// Tokens counts one call's tokens by class. The classes are disjoint: Input is
// the uncached input alone. Each is 0 to 10^8.
type Tokens struct {
	Input        int64 `json:"input,omitempty"`          // uncached input
	CacheRead    int64 `json:"cache_read,omitempty"`     // input read from the prompt cache
	CacheWrite5m int64 `json:"cache_write_5m,omitempty"` // input written to the cache for 5 minutes
	CacheWrite1h int64 `json:"cache_write_1h,omitempty"` // input written to the cache for an hour
	Output       int64 `json:"output,omitempty"`         // the reply, reasoning included
}

const maxTokens = 100_000_000

// tokenClass ties a class's name to its count and its rate.
type tokenClass struct {
	name  string
	count func(*Tokens) *int64
	rate  func(*Rates) *int64
}

// tokenClasses has the order of the ledger's counts.
var tokenClasses = [...]tokenClass{
	{ledger.TokenClasses[0], func(t *Tokens) *int64 { return &t.Input }, func(r *Rates) *int64 { return &r.Input }},
	{ledger.TokenClasses[1], func(t *Tokens) *int64 { return &t.CacheRead }, func(r *Rates) *int64 { return &r.CacheRead }},
	{ledger.TokenClasses[2], func(t *Tokens) *int64 { return &t.CacheWrite5m }, func(r *Rates) *int64 { return &r.CacheWrite5m }},
	{ledger.TokenClasses[3], func(t *Tokens) *int64 { return &t.CacheWrite1h }, func(r *Rates) *int64 { return &r.CacheWrite1h }},
	{ledger.TokenClasses[4], func(t *Tokens) *int64 { return &t.Output }, func(r *Rates) *int64 { return &r.Output }},
}

func (t Tokens) validate() error {
	for _, c := range tokenClasses {
		if n := *c.count(&t); n < 0 || n > maxTokens {
			return invalid("tokens."+c.name, "%d is not within 0 to %d", n, maxTokens)
		}
	}
	return nil
}

// counts are the tokens by class, as counters have them.
func (t Tokens) counts() ledger.Tokens {
	var counts ledger.Tokens
	for i, c := range tokenClasses {
		counts[i] = *c.count(&t)
	}
	return counts
}

// tokensOf is the inverse of counts.
func tokensOf(counts ledger.Tokens) Tokens {
	var t Tokens
	for i, c := range tokenClasses {
		*c.count(&t) = counts[i]
	}
	return t
}

// FreeRate marks a token class that costs nothing. A rate of 0 says so too for
// Input and Output; for the cache classes 0 means that no price is known, and
// they cost what they do where they are dearest: reads as much as the input,
// writes for 5 minutes a quarter more, writes for an hour twice as much. A call
// that has happened costs something, and PriceVersion names what was assumed.
const FreeRate = -1

const maxRate = 1_000_000_000_000

// Rates are prices in micro-dollars per million tokens.
type Rates struct {
	Input        int64 `json:"input_usd_micros_per_1m"`                    // 0 or FreeRate: free
	Output       int64 `json:"output_usd_micros_per_1m"`                   // 0 or FreeRate: free
	CacheRead    int64 `json:"cache_read_usd_micros_per_1m,omitempty"`     // 0: as Input; FreeRate: free
	CacheWrite5m int64 `json:"cache_write_5m_usd_micros_per_1m,omitempty"` // 0: 1.25 times Input; FreeRate: free
	CacheWrite1h int64 `json:"cache_write_1h_usd_micros_per_1m,omitempty"` // 0: twice Input; FreeRate: free
}

// PriceScope says which endpoints a price holds for.
type PriceScope string

// The scopes of a price; an empty one is of all endpoints for which none of its own is
// known. Regional is a bare model id or one with a us., eu., apac., jp. or au. prefix;
// Global one with global.
const (
	Regional PriceScope = "regional" // of one region or geography
	Global   PriceScope = "global"   // of endpoints that route anywhere
)

// Price is what a model costs from an instant on.
type Price struct {
	// Model is the model id. A scope prefix (global., us., …) sets Scope. With a
	// version suffix (-v1:0) the price is that version's, without one it is the
	// price of every version that has none of its own.
	Model string `json:"model_id"`
	// Scope defaults to what the id's prefix says, none for a bare id.
	Scope PriceScope `json:"scope,omitempty"`
	// EffectiveFrom is when the price begins; the zero time is always.
	EffectiveFrom time.Time `json:"effective_from,omitzero"`
	Rates
	// Source says where the fact comes from; it is not used, and not stored.
	Source string `json:"source,omitempty"`
	// Checked is the day on which Source said so, like 2026-08-21; it is not used, and not
	// stored. Defaults to "": not known.
	Checked string `json:"checked,omitempty"`
	// List is the price list by which Prices.Import stored the price, see
	// PriceImport.List. Empty: it was put by hand, and no import replaces it unasked.
	// "catalog": an import stored it so that a price of the Catalog stays in force beside
	// the list's.
	List string `json:"list,omitempty"`
}

func (p Price) validate() error {
	if base, _ := splitModel(p.Model); base == "" || len(p.Model) > maxName || !utf8.ValidString(p.Model) {
		return invalidConfig("model", "%q is not a model id of 1 to 256 characters", p.Model)
	}
	if p.Scope != "" && p.Scope != Regional && p.Scope != Global {
		return invalidConfig("scope", "%q is not regional, global or empty", p.Scope)
	}
	for _, c := range tokenClasses {
		if rate := *c.rate(&p.Rates); rate < FreeRate || rate > maxRate {
			return invalidConfig("price."+c.name, "%d µ$ per million tokens is not within 0 to %d", rate, int64(maxRate))
		}
	}
	return nil
}

// normal is the price with its id split.
func (p Price) normal() Price {
	name, scope := splitModel(p.Model)
	if p.Scope == "" && name != strings.TrimSuffix(p.Model, ":0") {
		p.Scope = scope
	}
	p.Model = name
	return p
}

// version names the row a record was priced by.
func (p Price) version(layer string) string {
	from := "always"
	if !p.EffectiveFrom.IsZero() {
		from = p.EffectiveFrom.UTC().Format(time.RFC3339)
	}
	scope := cmp.Or(string(p.Scope), "any")
	return strings.Join([]string{layer, p.Model, scope, from}, "|")
}

// priceBook is the rows of one layer by model, without its scope prefix.
type priceBook map[string][]Price

func newPriceBook(rows []Price) (priceBook, error) {
	book := priceBook{}
	for i, row := range rows {
		if err := row.validate(); err != nil {
			return nil, fmt.Errorf("price %d (%s): %w", i, row.Model, err)
		}
		row = row.normal()
		book[row.Model] = append(book[row.Model], row)
	}
	return book, nil
}

// lookup is the row in force at t of a model with names, the closest first: of those that have
// begun, one for the exact version before one for all, one for the exact scope before one for
// any, then the latest.
func (b priceBook) lookup(names []string, scope PriceScope, t time.Time) (Price, bool) {
	for _, name := range names {
		if p, ok := inForce(b[name], scope, t); ok {
			return p, true
		}
	}
	return Price{}, false
}

// inForce is the row of one model for a scope at t.
func inForce(rows []Price, scope PriceScope, t time.Time) (Price, bool) {
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

// The layers of prices, as versions of prices name them.
const (
	layerTable   = "table"
	layerOptions = "options"
	layerCatalog = "catalog"
)

// priceLayers asks the layers in turn: table, options, catalog.
type priceLayers []struct {
	name string
	book priceBook
}

// lookup is the price in force at t, and the layer it is in.
func (l priceLayers) lookup(model string, t time.Time) (Price, string, bool) {
	name, scope := splitModel(model)
	names := priceNames(name)
	for _, layer := range l {
		if p, ok := layer.book.lookup(names, scope, t); ok {
			return p, layer.name, true
		}
	}
	return Price{}, "", false
}

// next is when another price of a model may begin after t; the zero time if none does.
func (l priceLayers) next(model string, t time.Time) (first time.Time) {
	name, _ := splitModel(model)
	for _, layer := range l {
		for _, name := range priceNames(name) {
			for _, row := range layer.book[name] {
				if from := row.EffectiveFrom; from.After(t) && (first.IsZero() || from.Before(first)) {
					first = from
				}
			}
		}
	}
	return first
}
