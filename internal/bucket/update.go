package bucket

// Update is the change of one limit by a write. Below full it adds Add to the tokens if they lie in Low…High;
// without HasLow there is no lower bound. A full bucket has its burst, even if more is stored. With Full the
// write therefore sets the tokens to Put if they are at least Low, so takes since the image do not matter.
type Update struct {
	Add, Low, High int64
	HasLow         bool
	Full           bool
	Put            int64
}

// Amounts are the sums of one write for a limit. Back is given back first, then Take is admitted or denied,
// then Adjust is charged without a check.
type Amounts struct {
	Back, Take, Adjust int64
}

// Form selects one of the two updates of a limit. Either is exact on every state that it accepts, so a writer
// may choose freely.
type Form uint8

const (
	// ByState fills if the seen state is full, else adds.
	ByState Form = iota
	// Adding always adds.
	Adding
	// Filling always sets a full bucket's tokens.
	Filling
)

// Way is the form of a write of a limit.
type Way struct {
	// Move means that the write also sets the refill instant to max(Refilled, now), so that the credit must
	// be in the tokens.
	Move bool
	Form Form
	// Slack is the gap below the burst at which the filling form accepts a bucket as full, and which it
	// leaves: 0 to the burst less the take. The tokens in the slack are forfeited. Concurrent filling writes
	// then pass each other's conditions.
	Slack int64
}

// Decide returns the update that carries a from the seen state. The take of a must fit, and credit must be
// the credit at the time of the decision.
//
// The update is exact, apart from the slack, on every accepted state with the same refill instant and rate.
// Above High the bucket is full and would be credited for the time since. Below Low the take does not fit, or
// the bucket is not full any more. A credit above MaxCredit must be moved (see Credit).
func (s State) Decide(credit int64, a Amounts, w Way) Update {
	kept := credit // credit that the tokens will not include
	if w.Move {
		kept = 0
	}
	full := s.Burst - credit - a.Back // tokens from which the bucket is full
	low := a.Take - credit - a.Back   // tokens from which the take fits
	if w.Form == Filling || w.Form == ByState && s.Tokens > full {
		return Update{Full: true, Put: s.Burst - w.Slack - kept - a.Take - a.Adjust, Low: full - w.Slack, HasLow: true}
	}
	u := Update{Add: credit - kept + a.Back - a.Take - a.Adjust, High: full}
	if a.Take > 0 {
		u.Low, u.HasLow = low, true
	}
	return u
}
