package observe

import "time"

// AcquireStart describes an acquire.
type AcquireStart struct {
	// EntityID and Resource are the call's own; the events do not name its parents.
	EntityID, Resource string
	// Amounts are the requested amounts in whole tokens. It may be the caller's own map: do not
	// change or keep it.
	Amounts map[string]int64
}

// AcquireEnd describes how an acquire ended.
type AcquireEnd struct {
	// EntityID and Resource are those of the call.
	EntityID, Resource string
	// Amounts are the requested amounts, as in AcquireStart.
	Amounts map[string]int64
	// Units are the units of the limits that have one, of a grant: "usd" for money, in micro-dollars. It is nil
	// without one.
	Units map[string]string
	// Duration is the time it took.
	Duration time.Duration
	// Err is nil for a grant; errors.Is(err, dynalimit.ErrLimitExceeded) distinguishes a denial
	// from a failure of the store.
	Err error
	// Degraded means that a policy granted the call, not its buckets.
	Degraded bool
	// FromMemory means that no request was needed: the last answer denied the call,
	// a block included, or prefetched tokens granted it (dynalimit.Options.Prefetch), or
	// it has no limits.
	FromMemory bool
}

// Level says which bucket of a cascade it is.
type Level string

// The levels of a cascade.
const (
	// LevelEntity is the entity that the call names.
	LevelEntity Level = "entity"
	// LevelParent is a parent of it, or a parent of a parent.
	LevelParent Level = "parent"
)

// Denial says that limits denied a call. Nothing was taken.
type Denial struct {
	// EntityID and Resource are those of the call.
	EntityID, Resource string
	// Exceeded are the limits that denied it, at least one.
	Exceeded []Exceeded
	// RetryAfter is the wait until the whole call fits; dynalimit.Never if it never does.
	RetryAfter time.Duration
	// FromMemory means that no request was needed: the last answer denied it.
	FromMemory bool
}

// Exceeded is a limit that denied a call.
type Exceeded struct {
	// EntityID and Resource name the bucket: the entity may be a parent of the call's entity,
	// and the resource a group of the call's resource.
	EntityID, Resource string
	// Level is the bucket's place in the cascade.
	Level Level
	// Limit is the limit's name.
	Limit string
	// Requested is the call's amount, and Remaining the bucket's tokens, both whole;
	// Remaining is below 0 in debt.
	Requested, Remaining int64
	// RetryAfter is the wait until Requested fits; dynalimit.Never if it never does.
	RetryAfter time.Duration
}
