package bucket

// Update is what a write does to one limit. Below full it adds Add to the tokens
// if they lie in Low…High; without HasLow there is no lower bound. A full bucket
// is worth its burst however much more is stored: with Full it puts the tokens
// at Put if they are at least Low, so that it need not know who took what since
// it was seen.
type Update struct {
	Add, Low, High int64
	HasLow         bool
	Full           bool
	Put            int64
}

// Amounts are the sums one write carries for a limit: Back is given back first,
// then Take is admitted or denied, then Adjust is taken whatever is there.
type Amounts struct {
	Back, Take, Adjust int64
}

// Form is which of its two updates a write of a limit takes. Either is exact on
// every state that it accepts, so a writer may choose freely.
type Form uint8

const (
	// ByState fills where the seen state is full, else adds.
	ByState Form = iota
	// Adding adds, whatever was seen.
	Adding
	// Filling puts a full bucket's tokens, whatever was seen.
	Filling
)

// Way is how a write goes about a limit.
type Way struct {
	// Move says that it also sets the refill instant to max(Refilled, now), so
	// that the credit must be in the tokens.
	Move bool
	Form Form
	// Slack is how far below its burst the filling form takes a bucket to be
	// full, and leaves it: 0 to the burst less the take. What it puts there is
	// lost; writes that fill so hold on what others left who did.
	Slack int64
}

// Decide returns the update that carries a, whose take fits, from the seen state; credit is that of now.
//
// The update is exact on every state it accepts that has the same refill instant
// and rate, but for the slack: above High the bucket is full and would be
// credited for time it was so, below Low the take is not there, or the bucket is
// not full any more. A credit above MaxCredit must be moved (see Credit).
func (s State) Decide(credit int64, a Amounts, w Way) Update {
	kept := credit // what the tokens will not hold
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
