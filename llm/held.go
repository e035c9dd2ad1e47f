package llm

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/prices"
)

// held is how the money of one call is measured, from the estimate on.
type held struct {
	estimate Estimate
	at       time.Time
	cut      int64 // tokens that are charged beyond what was seen of a call that was cut

	asked, money bool // whether the measure is one of money is asked; it is

	price *prices.CallPrice // nil until a Cost has asked for it
	most  money.Picos       // what the estimate came to
}
