package ledger

import (
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// TokenClasses are the classes of tokens, in the order of Tokens.
var TokenClasses = [...]string{"input", "cache_read", "cache_write_5m", "cache_write_1h", "output"}

// Tokens is numbers of tokens by class.
type Tokens [len(TokenClasses)]int64

// add returns the sums of the token numbers of t and o, class by class. It leaves t and o unchanged.
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

// Spend returns the counter's charges minus its credits, in pico-dollars. It is negative if the credits are
// larger.
func (r Counter) Spend() money.Picos { return r.Cost.Sub(r.credit) }

// Add returns a counter with the sums of all numbers of r and o: writes, charges, credits, tokens and requests.
// It leaves r and o unchanged.
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

// counterKey returns the partition and the prefix of sort keys of the debited counter as a key. It identifies
// the counter, but is not the key of an item.
func (d Debit) counterKey() store.Key { return store.Key{PK: d.PK, SK: d.Prefix} }
