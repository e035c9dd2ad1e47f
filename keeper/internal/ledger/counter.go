package ledger

import (
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// TokenClasses are the classes of tokens, in the order of Tokens.
var TokenClasses = [...]string{"input", "cache_read", "cache_write_5m", "cache_write_1h", "output"}

// Tokens is numbers of tokens by class.
type Tokens [len(TokenClasses)]int64

// add returns the sum of both, class by class. It leaves t unchanged.
func (t Tokens) add(o Tokens) Tokens {
	for i := range t {
		t[i] += o[i]
	}
	return t
}

// Counter is the content of one counter item. Every number only increases.
type Counter struct {
	Writes   int64       // writes so far
	Cost     money.Picos // charges
	credit   money.Picos // credits
	Tokens   Tokens      // used by the calls
	Requests int64       // calls
}

// Spend returns the charges minus the credits, as an exact amount of money.
func (r Counter) Spend() money.Picos { return r.Cost.Sub(r.credit) }

// Add returns the sum of two counters.
func (r Counter) Add(o Counter) Counter {
	return Counter{
		Writes: r.Writes + o.Writes, Cost: r.Cost.Add(o.Cost), credit: r.credit.Add(o.credit),
		Tokens: r.Tokens.add(o.Tokens), Requests: r.Requests + o.Requests,
	}
}

// Debit is one counter that an operation changes, before a shard is chosen.
type Debit struct {
	PK     string // partition of the counter
	Prefix string // prefix of its sort keys
	Shards int    // its number of shards
	Bare   bool   // counts money only. The label's day also counts tokens
}

// counterKey returns the key of the counter, without its shard.
func (d Debit) counterKey() store.Key { return store.Key{PK: d.PK, SK: d.Prefix} }
