package observe

import "time"

// CorrectionKind names what a lease was corrected by.
type CorrectionKind string

// The kinds of corrections.
const (
	// CorrectionConsume takes more, and may be denied.
	CorrectionConsume CorrectionKind = "consume"
	// CorrectionAdjust charges more, or gives back.
	CorrectionAdjust CorrectionKind = "adjust"
	// CorrectionSettle ends the lease with what was used.
	CorrectionSettle CorrectionKind = "settle"
	// CorrectionRollback ends the lease, and gives back all that it holds.
	CorrectionRollback CorrectionKind = "rollback"
)

// Correction describes how a lease was corrected.
type Correction struct {
	// EntityID and Resource are what the call names that made the lease.
	EntityID, Resource string
	// Kind is what corrected it.
	Kind CorrectionKind
	// Used is what the lease holds since then, in whole tokens.
	Used map[string]int64
	// Change is by how much Used differs from before; limits that stayed are left out.
	Change map[string]int64
	// Duration is the time it took.
	Duration time.Duration
	// Err is the error that the correction returned, such as a *dynalimit.UnconfirmedError of
	// what may not have been written; nil usually.
	Err error
}

// Overrun says that something was counted and not charged: an acquire beyond a limit in shadow,
// what its lease is charged further, or a correction beyond the deepest debt of a limit
// (dynalimit.Limit.MaxDebt).
type Overrun struct {
	// EntityID and Resource name the bucket: the entity may be a parent of the one that a
	// call names.
	EntityID, Resource string
	// Limit is the limit's name.
	Limit string
	// Amount is how much was not charged, in whole tokens.
	Amount int64
	// Shadow means that the limit is in shadow: enforced, it would have denied.
	Shadow bool
}

// Drop says that amounts will not be charged, counted or given back any more: their bucket or limit
// is gone, or too many buckets waited, or a policy admitted them while the limiter was closed, which
// dynalimit.Health.Dropped counts; or they waited when it had been closed, which Health.Waiting
// still shows.
type Drop struct {
	// Amounts is how much, in whole tokens by limit, whatever the sign.
	Amounts map[string]int64
}
