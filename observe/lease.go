package observe

import "time"

// CorrectionKind names the kind of a lease's correction.
type CorrectionKind string

// The kinds of corrections.
const (
	// CorrectionConsume takes more, and may be denied.
	CorrectionConsume CorrectionKind = "consume"
	// CorrectionAdjust charges more, or gives back.
	CorrectionAdjust CorrectionKind = "adjust"
	// CorrectionSettle ends the lease at its usage.
	CorrectionSettle CorrectionKind = "settle"
	// CorrectionRollback ends the lease, and gives everything back.
	CorrectionRollback CorrectionKind = "rollback"
)

// Correction describes how a lease was corrected.
type Correction struct {
	// EntityID and Resource are those of the call that made the lease.
	EntityID, Resource string
	// Kind is the kind of the correction.
	Kind CorrectionKind
	// Used is the lease's amount since then, in whole tokens.
	Used map[string]int64
	// Change is by how much Used differs from before; limits that stayed are left out.
	Change map[string]int64
	// Units are the units of the limits that have one: "usd" for money, in micro-dollars. It is nil without one.
	Units map[string]string
	// Duration is the time it took.
	Duration time.Duration
	// Err is the error of the correction, such as a *dynalimit.UnconfirmedError for
	// writes that may not have landed; usually nil.
	Err error
}

// SlotsExpired are the slots of leases that kept them for the longest time (dynalimit.Limit.Longest). They are free
// after one more hold, and the late ends of the leases give nothing back.
type SlotsExpired struct {
	// EntityID and Resource name the bucket: the entity may be a parent of the call's entity.
	EntityID, Resource string
	// Limit is the limit's name.
	Limit string
	// Slots is the number of slots.
	Slots int64
}

// Overrun is an amount that was counted and not charged: an acquire beyond a limit in shadow,
// a further charge of its lease, or a correction beyond the deepest debt of a limit
// (dynalimit.Limit.MaxDebt).
type Overrun struct {
	// EntityID and Resource name the bucket: the entity may be a parent of the call's
	// entity.
	EntityID, Resource string
	// Limit is the limit's name.
	Limit string
	// Amount is how much was not charged, in whole tokens.
	Amount int64
	// Unit is "usd" for money, in micro-dollars; empty for any other limit.
	Unit string
	// Shadow means that the limit is in shadow: enforced, it would have denied.
	Shadow bool
}

// Crossing says that the use of a quota has reached a percentage of its alerts (dynalimit.Limit.AlertAt), by the
// answer to a write of this process.
type Crossing struct {
	// EntityID and Resource name the bucket: the entity may be a parent of the call's entity, and the resource a
	// group of the call's resource.
	EntityID, Resource string
	// Limit is the limit's name.
	Limit string
	// Percent is the percentage, 1 to 99. That a call was denied is Observer.Denied's.
	Percent int
	// Amount is the quota, and Used the used or reserved part of it, in whole tokens, of money in micro-dollars. Grants
	// of the window count as less use. Used may be lower again: estimates come back.
	Amount, Used int64
	// Unit is "usd" for money, else empty.
	Unit string
}

// Drop has amounts that will not be charged, counted or given back any more. Their bucket or limit
// is gone, or too many buckets had pending updates, or a policy admitted them while the limiter was closed;
// dynalimit.Health.Dropped counts these. Or they were pending when it was closed, which Health.Waiting
// still shows.
type Drop struct {
	// Amounts are whole tokens by limit, without a sign.
	Amounts map[string]int64
}
