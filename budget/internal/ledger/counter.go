package ledger

import (
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// TokenClasses are the classes of tokens, in the order of tokenCounts.
var TokenClasses = [...]string{"input", "cache_read", "cache_write_5m", "cache_write_1h", "output"}

// Tokens are tokens by class.
type Tokens [len(TokenClasses)]int64

func (t Tokens) add(o Tokens) Tokens {
	for i := range t {
		t[i] += o[i]
	}
	return t
}

// Counter is what one counter item contains. Every number but Used only rises.
type Counter struct {
	Writes   int64       // writes so far
	Cost     money.Picos // charges
	credit   money.Picos // credits
	Used     money.Picos // hard mode: spent and held
	Hard     bool        // used is kept
	Tokens   Tokens      // used by the calls
	Requests int64       // calls
}

// Spend is the charges less the credits.
func (r Counter) Spend() money.Picos { return r.Cost.Sub(r.credit) }

// Amount is what counts against a quota.
func (r Counter) Amount() Amount {
	a := Amount{Spend: r.Spend()}
	if r.Hard {
		a.Held = r.Used.Sub(a.Spend)
	}
	return a
}

// Add is the sum of two counters.
func (r Counter) Add(o Counter) Counter {
	return Counter{
		Writes: r.Writes + o.Writes, Cost: r.Cost.Add(o.Cost), credit: r.credit.Add(o.credit),
		Used: r.Used.Add(o.Used), Hard: r.Hard || o.Hard,
		Tokens: r.Tokens.add(o.Tokens), Requests: r.Requests + o.Requests,
	}
}

// CounterRef is a counter before its shard is drawn.
type CounterRef struct {
	PK     string // its partition
	Prefix string // of its sort keys
	Shards int    // it is spread over so many
}

// Debit is one counter that an operation changes.
type Debit struct {
	CounterRef
	Hard   bool // keep used
	Bare   bool // cost alone: not the label's day, which also counts tokens
	bound  money.Picos
	capped bool // a reservation must leave used within bound

	resetAt time.Time // of a capped one: when its period ends
}

// cap sets the bound of the counter for a reservation, until its period ends.
func (d *Debit) cap(bound money.Picos, resetAt time.Time) {
	d.bound, d.capped, d.resetAt = bound, true, resetAt
}

// ref is the key of the counter, without its shard.
func (d Debit) ref() store.Key { return store.Key{PK: d.PK, SK: d.Prefix} }

// Amount is what counts against one quota.
type Amount struct {
	Spend money.Picos // charges less credits
	Held  money.Picos // reserved and not settled
}

func (a Amount) add(b Amount) Amount {
	return Amount{Spend: a.Spend.Add(b.Spend), Held: a.Held.Add(b.Held)}
}

// Sum is what is spent and held.
func (a Amount) Sum() money.Picos { return a.Spend.Add(a.Held) }
