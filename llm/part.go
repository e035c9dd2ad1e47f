package llm

import (
	"github.com/dynalimit/dynalimit/prices"
)

// Part is a part of a call's tokens with a price of its own: its model's price, for a
// context as long as its own input, in the tier of the call.
type Part struct {
	// Model is the id of the price. Defaults to the call's model; a model without a price
	// costs as much as the call's.
	Model string
	// Tokens are the tokens of the part, by class. The Usage includes them.
	Tokens prices.Tokens
}

// subtractPart returns t minus the tokens of a part, class by class. A difference may be negative.
func subtractPart(t, part prices.Tokens) prices.Tokens {
	return prices.Tokens{
		Input:        t.Input - part.Input,
		CacheRead:    t.CacheRead - part.CacheRead,
		CacheWrite5m: t.CacheWrite5m - part.CacheWrite5m,
		CacheWrite1h: t.CacheWrite1h - part.CacheWrite1h,
		Output:       t.Output - part.Output,
	}
}
