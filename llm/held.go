package llm

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/prices"
)

// held is the state of one call's money measurement, from the estimate on.
type held struct {
	estimate Estimate
	at       time.Time
	cut      int64 // tokens charged beyond the metered ones of a cut call

	asked, money bool // asked: only test whether the measure is of money; money: it is

	price *prices.CallPrice // nil until Cost reads it
	most  money.Picos       // the cost of the estimate
}
