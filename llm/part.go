package llm

import (
	"github.com/dynalimit/dynalimit/prices"
)

// Part is a part of a call's tokens that has a price of its own: that of its model, with a
// context as long as its own input, in the tier of the call.
type Part struct {
	// Model is by the id that the prices have. Defaults to the call's; one that has no price
	// costs what the call's does.
	Model string
	// Tokens are those of the part, by class. They are among the Usage's.
	Tokens prices.Tokens
}

// less are tokens without those of a part.
func less(t, part prices.Tokens) prices.Tokens {
	return prices.Tokens{
		Input:        t.Input - part.Input,
		CacheRead:    t.CacheRead - part.CacheRead,
		CacheWrite5m: t.CacheWrite5m - part.CacheWrite5m,
		CacheWrite1h: t.CacheWrite1h - part.CacheWrite1h,
		Output:       t.Output - part.Output,
	}
}
