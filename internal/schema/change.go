package schema

import "github.com/dynalimit/dynalimit/internal/bucket"

// Limit is a configured limit of a bucket, in millitokens and milliseconds.
type Limit struct {
	// Name is the name of the limit.
	Name string
	// Capacity is the nominal allowance a period, in millitokens. It is stored, and decides nothing.
	Capacity int64
	// Rate is its burst and refill, in millitokens and milliseconds.
	Rate bucket.Rate
	// Source names the source of the limit. It decides nothing.
	Source string
	// MaxDebt is the deepest debt from corrections, in millitokens; 0 for any debt.
	MaxDebt int64
	// Reserve is the amount kept from batch calls, in millitokens; 0 for a fifth of the burst, below 0 for none. It
	// is not stored in the bucket. See bucket.Rate.ReserveOf.
	Reserve int64
	// Longest is the longest time, in ms, for which a lease keeps its slots; 0 if it has none.
	Longest int64
}

// Change is the change of one limit by a write of its bucket.
type Change struct {
	// Name is the name of the limit. Quota means that the write changes the attributes of a quota, and not
	// those of a token bucket.
	Name  string
	Quota bool
	// Slots are the moves of slots. They are set for a limit of calls in flight alone.
	Slots *bucket.Moves
	// Kind is the kind of the change. A create knows only AddLimit; spends, give-backs and tells only
	// KeepLimit.
	Kind ChangeKind
	// SameLife means that the write requires the life of the limit in the image. A write without an image
	// requires the window and the life in Window. Begins means that the limit begins the life in Window.
	SameLife, Begins bool
	// Place is the place of the limit in the image from which the write is decided.
	Place int
	// Update is the change of the tokens and its bounds. A new limit has Put.
	bucket.Update
	// Consumed is the change of the counter, or the first value of a new limit's. Passed is the same for the
	// part that a level above counts too.
	Consumed, Passed int64
	// Window is the window of a quota and the life of the limit after a claim or a create. Of a give-back or
	// a tell, it is the window that the tokens belong to.
	Window bucket.WindowID
	// To are the parameters that the write gives the limit; nil if it leaves them as they are.
	To *Limit
}

// ChangeKind is the kind of the change of one limit.
type ChangeKind uint8

const (
	// KeepLimit changes the tokens and counters of a stored limit, and its parameters to To.
	KeepLimit ChangeKind = iota
	// AddLimit adds a limit that the item does not have.
	AddLimit
	// AdoptGhost completes a ghost, if the ghost is still as in the image.
	AdoptGhost
	// RemoveLimit removes a limit that is full and no longer configured.
	RemoveLimit
	// RemoveGhost removes a ghost that is no longer configured.
	RemoveGhost
	// ReplaceLimit removes a limit of the old kind, if it is still as in the image. An AddLimit in the same
	// claim adds the new kind.
	ReplaceLimit
)
