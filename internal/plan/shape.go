package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Kind is the shape of a write.
type Kind uint8

// The shapes of a write.
const (
	Nothing  Kind = iota // nothing to write
	Create               // makes a bucket that does not exist
	Spend                // changes the tokens of the limits named
	Claim                // credits every limit and moves the refill instant
	GiveBack             // returns tokens, which needs no decision
	Tell                 // adds pending updates to the counters, and returns tokens
)

// Write is a decided write. Its op id is added when it is sent.
type Write struct {
	// Kind tells which of Spend, Create and Claim is set.
	Kind   Kind
	Spend  schema.Spend
	Create *schema.Create
	Claim  *schema.Claim
	// Housekeeping means that the claim could have been a spend.
	Housekeeping bool
	// Guess is the form that was chosen for full limits (see Crowding).
	Guess bucket.Form
}
