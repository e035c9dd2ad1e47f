package budget

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

// listing is what a list says of one model, without its scope prefix, and what is known
// of the model.
type listing struct {
	name   string
	list   string         // the list's name
	rows   []prices.Price // what it says; none: nothing any more
	stored []prices.Price // the model's stored prices
	layers priceLayers    // all prices that apply, the stored ones among them
	others prices.Book    // what is to be stored of the models whose prices hold for it too
	twice  []prices.Scope // scopes for which it says two things
	accept bool           // somebody asked for it
	family []prices.Price // of models that are the same one under another name
}

// probe is an id by which the price of a scope is looked up.
func (l *listing) probe(scope prices.Scope) string {
	if scope == prices.Global {
		return "global." + l.name
	}
	return l.name
}

// newListing sorts a list's rows of one model. A price for any endpoint is one for regional
// ones where there is another for global ones, in the list or in force: it must not stand in
// that one's way.
func newListing(name, list string, rows, stored []prices.Price, layers priceLayers, now time.Time) *listing {
	l := &listing{name: name, list: list, stored: stored, layers: layers}
	global, _, okGlobal := layers.lookup(l.probe(prices.Global), now)
	regional, _, okRegional := layers.lookup(name, now)
	split := okGlobal && global.Scope == prices.Global || okRegional && regional.Scope == prices.Regional ||
		slices.ContainsFunc(rows, func(p prices.Price) bool { return p.Scope != "" })
	for _, p := range rows {
		if p.Scope == "" && split {
			p.Scope = prices.Regional
		}
		l.add(p)
	}
	return l
}

// add takes a row, once. Two rows of which one lacks classes that the other has are one.
func (l *listing) add(p prices.Price) {
	for i := range l.rows {
		q := &l.rows[i]
		if q.Scope != p.Scope || !q.EffectiveFrom.Equal(p.EffectiveFrom) {
			continue
		}
		q.Rates = carrying(q.Rates, p.Rates)
		if plainRates(q.Rates) != plainRates(carrying(p.Rates, q.Rates)) && !slices.Contains(l.twice, p.Scope) {
			l.twice = append(l.twice, p.Scope)
		}
		return
	}
	l.rows = append(l.rows, p)
}

// plainRates are the rates with one way to say that input and output are free.
func plainRates(r prices.Rates) prices.Rates {
	r.Input, r.Output = max(r.Input, 0), max(r.Output, 0)
	return r
}

// review is what becomes of a model by its listing: its stored prices, the changes that
// are in them, those that are held back, and what cannot be used. Nothing begins before now.
type review struct {
	stored         []prices.Price
	accepted, held []PriceChange
	skipped        []prices.Skipped
}

// changed reports whether there are prices to store.
func (r *review) changed(before []prices.Price) bool { return !slices.Equal(r.stored, before) }

// review decides. What was in force before now stays what it was.
func (l *listing) review(now time.Time) review {
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

// reviewScope decides for one scope.
func (l *listing) reviewScope(r *review, scope prices.Scope, now time.Time) {
	if slices.Contains(l.twice, scope) {
		r.skipped = append(r.skipped, prices.Skipped{Model: l.name, Reason: "the list has two prices for it: name fewer providers"})
		l.leave(r, scope, now)
		return
	}
	for _, at := range l.instants(scope, now) {
		if l.speaksOf(scope, at, now) {
			l.reviewAt(r, scope, at, now)
		} else {
			l.leave(r, scope, at)
		}
	}
}

// scopes are those that the list has prices for.
func (l *listing) scopes() []prices.Scope {
	var scopes []prices.Scope
	for _, p := range l.rows {
		scopes = append(scopes, p.Scope)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// instants are now and when a price of the scope changes later, by the list or without it.
func (l *listing) instants(scope prices.Scope, now time.Time) []time.Time {
	all := []time.Time{now}
	add := func(p prices.Price) {
		if (p.Scope == scope || p.Scope == "" || scope == "") && p.EffectiveFrom.After(now) {
			all = append(all, p.EffectiveFrom.UTC())
		}
	}
	for _, p := range l.rows {
		add(p)
	}
	for _, layer := range append(l.with(l.stored), l.layers...) {
		for _, name := range prices.ModelNames(l.name) {
			for _, p := range layer.book[name] {
				add(p)
			}
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(all, time.Time.Equal)
}

// speaksOf reports whether the list says what holds from an instant on. One without a later
// price for the scope says what holds today: a change that was announced elsewhere stays.
func (l *listing) speaksOf(scope prices.Scope, at, now time.Time) bool {
	if at.Equal(now) || slices.ContainsFunc(l.rows, func(p prices.Price) bool { return p.Scope == scope && p.EffectiveFrom.After(now) }) {
		return true
	}
	have, _, known := l.layers.lookup(l.probe(scope), at)
	return known && have.List == l.list
}

// reviewAt decides what holds for a scope from an instant on. A price that is held back
// leaves what would hold without the list.
func (l *listing) reviewAt(r *review, scope prices.Scope, at, now time.Time) {
	want, ok := prices.InForce(l.rows, probeScope(scope), at)
	if !ok || want.Scope != scope {
		return
	}
	want.List, want.Model = l.list, l.name
	c := PriceChange{Model: l.name, Scope: scope, EffectiveFrom: at}
	have, layer, known := l.layers.lookup(l.probe(scope), at)
	if known {
		want.Rates, c.Before = carrying(want.Rates, have.Rates), rates(have)
	}
	c.After = rates(want)
	if known && plainRates(want.Rates) == plainRates(have.Rates) {
		l.leave(r, scope, at)
		return
	}
	if c.Reason, c.Class = judge(want, l.comparable(scope, at, now)); layer == layerOptions || layer == layerTable && have.List == "" {
		c.Reason, c.Class = heldByHand, ""
	}
	if c.Reason != "" && !l.accept {
		r.held = append(r.held, c)
		l.leave(r, scope, at)
		return
	}
	c.Reason, c.Class = "", ""
	r.accepted = append(r.accepted, c)
	r.put(beginning(want, at))
}

// leave lets what holds without the list hold from an instant on, also where a price that
// was accepted would hide it: one with an earlier beginning, or of another model whose
// prices hold for this one.
func (l *listing) leave(r *review, scope prices.Scope, at time.Time) {
	have, layer, known := l.layers.lookup(l.probe(scope), at)
	if !known {
		return
	}
	if now, _, ok := l.with(r.stored).lookup(l.probe(scope), at); ok && plainRates(now.Rates) == plainRates(have.Rates) {
		return
	}
	have.Model, have.Scope = l.name, scope
	switch layer { // a list said neither
	case layerOptions:
		have.List = ""
	case layerCatalog:
		have.List = layerCatalog
	}
	r.put(beginning(have, at))
}

// beginning is a price from an instant on, as it is stored.
func beginning(p prices.Price, at time.Time) prices.Price {
	p.EffectiveFrom, p.Source, p.Checked = at, "", ""
	return p
}

// with are the layers after the import, with these prices stored of the model.
func (l *listing) with(stored []prices.Price) priceLayers {
	layers := slices.Clone(l.layers)
	book := prices.Book{}
	maps.Copy(book, l.others)
	book[l.name] = stored
	layers[0].book = book
	return layers
}

// put stores a row, in the place of one that begins at the same time.
func (r *review) put(p prices.Price) {
	r.stored = slices.DeleteFunc(r.stored, func(q prices.Price) bool {
		return q.Scope == p.Scope && q.EffectiveFrom.Equal(p.EffectiveFrom)
	})
	r.stored = append(r.stored, p)
}

func rates(p prices.Price) *prices.Rates {
	r := p.Rates
	return &r
}

// probeScope is the scope of an id with that of a price: a bare id is regional.
func probeScope(scope prices.Scope) prices.Scope {
	if scope == prices.Global {
		return prices.Global
	}
	return prices.Regional
}

// reach is how far back a record's time may lie.
const reach = 72 * time.Hour

// withoutSuperseded drops the oldest prices that no record to come can be priced by, until
// there are few enough.
func withoutSuperseded(rows []prices.Price, now time.Time) []prices.Price {
	byAge := slices.Clone(rows)
	slices.SortStableFunc(byAge, func(a, b prices.Price) int { return a.EffectiveFrom.Compare(b.EffectiveFrom) })
	for i := 0; i < len(byAge) && len(byAge) > maxPrices; {
		if superseded(byAge[i], byAge[i+1:], now.Add(-reach)) {
			byAge = slices.Delete(byAge, i, i+1)
			continue
		}
		i++
	}
	return byAge
}

func superseded(p prices.Price, later []prices.Price, before time.Time) bool {
	return slices.ContainsFunc(later, func(q prices.Price) bool { return q.Scope == p.Scope && q.EffectiveFrom.Before(before) })
}
