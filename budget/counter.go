package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// counterRow is what one counter item holds. All but used only rise.
type counterRow struct {
	n        int64       // writes so far
	cost     money.Picos // charges
	credit   money.Picos // credits
	used     money.Picos // hard mode: spent and held
	hard     bool        // used is kept
	tokens   Tokens
	requests int64
}

func (r counterRow) spend() money.Picos { return r.cost.Sub(r.credit) }

// amount is what counts against a quota.
func (r counterRow) amount() amount {
	a := amount{spend: r.spend()}
	if r.hard {
		a.held = r.used.Sub(a.spend)
	}
	return a
}

func (r counterRow) add(o counterRow) counterRow {
	return counterRow{
		n: r.n + o.n, cost: r.cost.Add(o.cost), credit: r.credit.Add(o.credit),
		used: r.used.Add(o.used), hard: r.hard || o.hard,
		tokens: r.tokens.add(o.tokens), requests: r.requests + o.requests,
	}
}

// counterRef is a counter before its shard is drawn.
type counterRef struct {
	pk, prefix string
	shards     int
}

// debit is one counter an operation touches.
type debit struct {
	counterRef
	hard   bool // keep used
	bare   bool // cost alone: not the label's day, which also counts tokens
	bound  money.Picos
	capped bool // a reservation must leave used within bound

	resetAt time.Time // of a capped one: when its period ends
}

// cap bounds the counter for a reservation until its period ends.
func (d *debit) cap(bound money.Picos, resetAt time.Time) {
	d.bound, d.capped, d.resetAt = bound, true, resetAt
}

// ref is the counter, whatever its shard.
func (d debit) ref() store.Key { return store.Key{PK: d.pk, SK: d.prefix} }
