package budget

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

// listing is a list's prices of one model, without scope prefix, with the known prices to
// compare them with.
type listing struct {
	name   string
	list   string         // the list's name
	rows   []prices.Price // the list's prices; empty if the list no longer has the model
	stored []prices.Price // the model's stored prices
	layers priceLayers    // all applicable prices, including the stored ones
	others prices.Book    // prices to be stored of related models, whose prices apply to this one too
	twice  []prices.Scope // scopes with two different prices in the list
	accept bool           // the import accepts the model explicitly
	family []prices.Price // prices of the same model under other names
}

// probeID returns the model id by which lookup finds a scope's price: the name, with "global." before it for
// prices.Global only.
func (l *listing) probeID(scope prices.Scope) string {
	if scope == prices.Global {
		return "global." + l.name
	}
	return l.name
}

// newListing returns the facts for the review of one model: a list's rows, merged by scope and start, and the
// known prices. A row without a scope becomes regional if any price of a scope is known, because it would hide
// that. It stores nothing.
func newListing(name, list string, rows, stored []prices.Price, layers priceLayers, now time.Time) *listing {
	l := &listing{name: name, list: list, stored: stored, layers: layers}
	global, _, okGlobal := layers.lookup(l.probeID(prices.Global), now)
	regional, _, okRegional := layers.lookup(name, now)
	split := okGlobal && global.Scope == prices.Global || okRegional && regional.Scope == prices.Regional ||
		slices.ContainsFunc(rows, func(p prices.Price) bool { return p.Scope != "" })
	for _, p := range rows {
		if p.Scope == "" && split {
			p.Scope = prices.Regional
		}
		l.addRow(p)
	}
	return l
}

// addRow adds a row of the list to l.rows. It merges a second row of the same scope and start into the first if
// they differ only in missing classes. Otherwise it marks the scope as listed twice.
func (l *listing) addRow(p prices.Price) {
	for i := range l.rows {
		q := &l.rows[i]
		if q.Scope != p.Scope || !q.EffectiveFrom.Equal(p.EffectiveFrom) {
			continue
		}
		q.Rates = carryRates(q.Rates, p.Rates)
		if plainRates(q.Rates) != plainRates(carryRates(p.Rates, q.Rates)) && !slices.Contains(l.twice, p.Scope) {
			l.twice = append(l.twice, p.Scope)
		}
		return
	}
	l.rows = append(l.rows, p)
}

// plainRates returns r with 0 in place of prices.FreeRate for a free input or output, so that rates can be
// compared with ==.
func plainRates(r prices.Rates) prices.Rates {
	r.Input, r.Output = max(r.Input, 0), max(r.Output, 0)
	return r
}

// review is the result of comparing a model with a list: its new stored prices, the accepted
// changes, the held ones, and unusable rows. No price starts in the past.
type review struct {
	stored         []prices.Price
	accepted, held []PriceChange
	skipped        []prices.Skipped
}

// hasChanged reports whether r.stored, the prices to store after the review, differs from before, the stored
// ones.
func (r *review) hasChanged(before []prices.Price) bool { return !slices.Equal(r.stored, before) }

// reviewList compares the list with the known prices of its model and returns the prices to store, the accepted
// and the held ones. It stores nothing, and prices before now stay. If more than maxPrices would be stored, the
// model is skipped unchanged.
func (l *listing) reviewList(now time.Time) review {
	r := review{stored: slices.Clone(l.stored)}
	for _, scope := range l.scopes() {
		l.reviewScope(&r, scope, now)
	}
	if len(r.stored) > maxPrices {
		r.stored = withoutSuperseded(r.stored, now)
	}
	if len(r.stored) > maxPrices {
		reason := fmt.Sprintf("%d prices are stored for it, and calls by each may still come", len(l.stored))
		return review{stored: slices.Clone(l.stored), held: r.held, skipped: append(r.skipped, prices.Skipped{Model: l.name, Reason: reason})}
	}
	return r
}

// reviewScope adds to r the prices of a scope at now and each later change: the list's where the list decides,
// else the present ones. A scope listed twice is skipped and keeps its prices.
func (l *listing) reviewScope(r *review, scope prices.Scope, now time.Time) {
	if slices.Contains(l.twice, scope) {
		r.skipped = append(r.skipped, prices.Skipped{Model: l.name, Reason: "the list has two prices for it: name fewer providers"})
		l.keepPrice(r, scope, now)
		return
	}
	for _, at := range l.changeInstants(scope, now) {
		if l.decidesAt(scope, at, now) {
			l.reviewAt(r, scope, at, now)
		} else {
			l.keepPrice(r, scope, at)
		}
	}
}

// scopes returns the scopes of the list's rows for the model, sorted, each once; "" is a row without a scope.
func (l *listing) scopes() []prices.Scope {
	var scopes []prices.Scope
	for _, p := range l.rows {
		scopes = append(scopes, p.Scope)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// changeInstants returns now and all later instants at which a price of the scope starts, in the list or among
// the known prices, in order.
func (l *listing) changeInstants(scope prices.Scope, now time.Time) []time.Time {
	all := []time.Time{now}
	add := func(p prices.Price) {
		if (p.Scope == scope || p.Scope == "" || scope == "") && p.EffectiveFrom.After(now) {
			all = append(all, p.EffectiveFrom.UTC())
		}
	}
	for _, p := range l.rows {
		add(p)
	}
	for _, layer := range append(l.layersWith(l.stored), l.layers...) {
		for _, name := range prices.ModelNames(l.name) {
			for _, p := range layer.book[name] {
				add(p)
			}
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(all, time.Time.Equal)
}

// decidesAt reports whether the list decides about the scope's price from at on. It does at now, and always if
// it has future prices of the scope. Else it decides only where it would replace an earlier price of the same
// list.
func (l *listing) decidesAt(scope prices.Scope, at, now time.Time) bool {
	if at.Equal(now) || slices.ContainsFunc(l.rows, func(p prices.Price) bool { return p.Scope == scope && p.EffectiveFrom.After(now) }) {
		return true
	}
	have, _, known := l.layers.lookup(l.probeID(scope), at)
	return known && have.List == l.list
}

// reviewAt adds the list's price of a scope from at on to r: to accepted and stored, or to held with the
// reason. If it is held or equal, the present price stays in force. Without such a listed price it does
// nothing.
func (l *listing) reviewAt(r *review, scope prices.Scope, at, now time.Time) {
	want, ok := prices.InForce(l.rows, probeScope(scope), at)
	if !ok || want.Scope != scope {
		return
	}
	want.List, want.Model = l.list, l.name
	c := PriceChange{Model: l.name, Scope: scope, EffectiveFrom: at}
	have, layer, known := l.layers.lookup(l.probeID(scope), at)
	if known {
		want.Rates, c.Before = carryRates(want.Rates, have.Rates), ratesOf(have)
	}
	c.After = ratesOf(want)
	if known && plainRates(want.Rates) == plainRates(have.Rates) {
		l.keepPrice(r, scope, at)
		return
	}
	if c.Reason, c.Class = reasonToHold(want, l.pricesToCompare(scope, at, now)); layer == layerOptions || layer == layerTable && have.List == "" {
		c.Reason, c.Class = heldByHand, ""
	}
	if c.Reason != "" && !l.accept {
		r.held = append(r.held, c)
		l.keepPrice(r, scope, at)
		return
	}
	c.Reason, c.Class = "", ""
	r.accepted = append(r.accepted, c)
	r.putPrice(startingAt(want, at))
}

// keepPrice makes sure that the present price of the scope is in force from at on, also after the import. If an
// accepted price would hide it, it adds a copy with that start to r.stored; otherwise it does nothing.
func (l *listing) keepPrice(r *review, scope prices.Scope, at time.Time) {
	have, layer, known := l.layers.lookup(l.probeID(scope), at)
	if !known {
		return
	}
	if now, _, ok := l.layersWith(r.stored).lookup(l.probeID(scope), at); ok && plainRates(now.Rates) == plainRates(have.Rates) {
		return
	}
	have.Model, have.Scope = l.name, scope
	switch layer { // the price comes from no list
	case layerOptions:
		have.List = ""
	case layerCatalog:
		have.List = layerCatalog
	}
	r.putPrice(startingAt(have, at))
}

// startingAt returns a copy of p that starts at at, without its source and check date, which are not stored.
func startingAt(p prices.Price, at time.Time) prices.Price {
	p.EffectiveFrom, p.Source, p.Checked = at, "", ""
	return p
}

// layersWith returns a copy of the layers of prices in which the table has stored as the model's prices, and
// l.others for related models. It is the state after the import; l stays unchanged.
func (l *listing) layersWith(stored []prices.Price) priceLayers {
	layers := slices.Clone(l.layers)
	book := prices.Book{}
	maps.Copy(book, l.others)
	book[l.name] = stored
	layers[0].book = book
	return layers
}

// putPrice appends p to r.stored, after it has removed a price of the same scope and start. It writes nothing
// to the store.
func (r *review) putPrice(p prices.Price) {
	r.stored = slices.DeleteFunc(r.stored, func(q prices.Price) bool {
		return q.Scope == p.Scope && q.EffectiveFrom.Equal(p.EffectiveFrom)
	})
	r.stored = append(r.stored, p)
}

// ratesOf returns a pointer to a copy of a price's rates.
func ratesOf(p prices.Price) *prices.Rates {
	r := p.Rates
	return &r
}

// probeScope returns the scope under which to look up a listed price: prices.Global for that scope, and
// prices.Regional for any other, also for none.
func probeScope(scope prices.Scope) prices.Scope {
	if scope == prices.Global {
		return prices.Global
	}
	return prices.Regional
}

// reach is the maximal age of a record's time.
const reach = 72 * time.Hour

// withoutSuperseded returns a copy of rows, sorted by start, without the oldest prices that late records cannot
// need any more. It drops only until maxPrices remain; more remain if all are needed.
func withoutSuperseded(rows []prices.Price, now time.Time) []prices.Price {
	byAge := slices.Clone(rows)
	slices.SortStableFunc(byAge, func(a, b prices.Price) int { return a.EffectiveFrom.Compare(b.EffectiveFrom) })
	for i := 0; i < len(byAge) && len(byAge) > maxPrices; {
		if isSuperseded(byAge[i], byAge[i+1:], now.Add(-reach)) {
			byAge = slices.Delete(byAge, i, i+1)
			continue
		}
		i++
	}
	return byAge
}

// isSuperseded reports whether one of the later prices has p's scope and started before the instant before, so
// that no record needs p any more.
func isSuperseded(p prices.Price, later []prices.Price, before time.Time) bool {
	return slices.ContainsFunc(later, func(q prices.Price) bool { return q.Scope == p.Scope && q.EffectiveFrom.Before(before) })
}
