package prices

import (
	"cmp"
	"slices"
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

// Class is a class of tokens: its name, as counters and events have it, and its place in Tokens
// and in Rates.
type Class struct {
	// Name is the class's name in JSON, such as "cache_read".
	Name string
	// Count is where Tokens have the class's number.
	Count func(*Tokens) *int64
	// Rate is where Rates have the class's rate.
	Rate func(*Rates) *int64
}

var classes = [...]Class{
	{"input", func(t *Tokens) *int64 { return &t.Input }, func(r *Rates) *int64 { return &r.Input }},
	{"cache_read", func(t *Tokens) *int64 { return &t.CacheRead }, func(r *Rates) *int64 { return &r.CacheRead }},
	{"cache_write_5m", func(t *Tokens) *int64 { return &t.CacheWrite5m }, func(r *Rates) *int64 { return &r.CacheWrite5m }},
	{"cache_write_1h", func(t *Tokens) *int64 { return &t.CacheWrite1h }, func(r *Rates) *int64 { return &r.CacheWrite1h }},
	{"output", func(t *Tokens) *int64 { return &t.Output }, func(r *Rates) *int64 { return &r.Output }},
}

// Classes returns a new slice of the token classes, in the order of the fields of Tokens.
func Classes() []Class { return slices.Clone(classes[:]) }

// Always reports whether a rate of 0 is a rate for the class, as for input and output. For the cache classes 0
// means unknown.
func (c Class) Always() bool {
	return c.Name == classes[0].Name || c.Name == classes[len(classes)-1].Name
}

// Validate returns a *fault.ValidationError unless each count is 0 to 10^8; the error names the class.
func (t Tokens) Validate() error {
	for _, c := range classes {
		if n := *c.Count(&t); n < 0 || n > maxTokens {
			return invalid("tokens."+c.Name, "%d is not within 0 to %d", n, maxTokens)
		}
	}
	return nil
}

// FreeRate marks a token class that costs nothing. For Input and Output a rate of 0 also means
// free. For the cache classes 0 means an unknown price, and
// the dearest usual price holds: reads cost as much as the input,
// writes for 5 minutes a quarter more, writes for an hour twice as much. A call
// that has happened costs something, and PriceVersion names the assumption.
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

// Assumed returns the rates with each unknown cache rate (0) replaced. A read costs as much as input, a write
// 1.25 times for 5 minutes, rounded up, and twice for an hour. FreeRate stays.
func (r Rates) Assumed() Rates {
	input := max(r.Input, 0)
	r.CacheRead = cmp.Or(r.CacheRead, input)
	r.CacheWrite5m = cmp.Or(r.CacheWrite5m, input+(input+3)/4)
	r.CacheWrite1h = cmp.Or(r.CacheWrite1h, 2*input)
	return r
}
