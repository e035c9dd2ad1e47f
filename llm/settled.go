package llm

import (
	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/prices"
)

// Source is the origin of a call's tokens.
type Source string

const (
	// Reported means that the settling caller gave them, as from a provider's usage.
	Reported Source = "reported"
	// Metered means that the Meter counted them as the reply arrived.
	Metered Source = "metered"
	// Estimated means that the estimate replaces some of them or all.
	Estimated Source = "estimated"
)

// Settled describes the end of a call, for invoices, logs and metrics. It is a plain value.
type Settled struct {
	// Request is the call's, with its RequestID.
	Request Request
	// Model is the called model.
	Model string
	// Tokens are the counted tokens; zero for a call that was given back.
	Tokens prices.Tokens
	// Parts are the parts of Tokens with a price of their own, as the Usage has them.
	Parts []Part
	// Source is the origin of Tokens; empty for a call that was given back.
	Source Source
	// CostMicros is the charge of the dearest limit that Cost measures, in micro-dollars; 0
	// without such a limit.
	CostMicros int64
	// Status is the record's status; empty for a call that was given back.
	Status string
	// Statuses are the limits after the last answer, as Lease.Statuses returns them.
	Statuses []dynalimit.LimitStatus
	// Err has the writes without a confirmation; nil if all are confirmed.
	Err error
}
