package llm

import (
	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/prices"
)

// Source says where the tokens of a call are from.
type Source string

const (
	// Reported means that whoever settled the call said them, as a provider's usage does.
	Reported Source = "reported"
	// Metered means that they were counted as the reply arrived.
	Metered Source = "metered"
	// Estimated means that the estimate stands for some of them or for all.
	Estimated Source = "estimated"
)

// Settled is how a call ended, for invoices, logs and metrics. It is a plain value.
type Settled struct {
	// Request is the call's, with its RequestID.
	Request Request
	// Model is what was called.
	Model string
	// Tokens are what were counted; none for a call that was given back.
	Tokens prices.Tokens
	// Parts are those of Tokens that have a price of their own, as the Usage has them.
	Parts []Part
	// Source says where they are from; empty for a call that was given back.
	Source Source
	// CostMicros is what the dearest limit that Cost measures was charged, in micro-dollars; 0
	// if it measures none.
	CostMicros int64
	// Status is the record's; empty for a call that was given back.
	Status string
	// Statuses are the limits after the last answer, as Lease.Statuses has them.
	Statuses []dynalimit.LimitStatus
	// Err is what is not known to be written; nil if nothing.
	Err error
}
