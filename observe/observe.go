// Package observe is how a program hears what a limiter does: for traces, metrics and logs.
package observe

import (
	"context"
	"time"
)

// Observer is told what a limiter does, in pairs of start and end, for traces, metrics
// and logs. Set one in dynalimit.Options.Observer. The end of a pair gets the context that its
// start returned, so a start can put a span into it; nil stands for the context that the
// start was given. The limiter calls the methods on
// its hot path, from many goroutines: they must be quick and safe for concurrent use.
// Embed Nop and implement only the methods that you need; then a method added
// later does not break your type.
type Observer interface {
	// AcquireStart is called first in an Acquire, Wait or Do, before anything is looked
	// up.
	AcquireStart(ctx context.Context, e AcquireStart) context.Context
	// AcquireEnd is called before the Acquire, Wait or Do returns.
	AcquireEnd(ctx context.Context, e AcquireEnd)
	// WriteStart is called before a bucket is written.
	WriteStart(ctx context.Context, e WriteStart) context.Context
	// WriteEnd is called when the outcome of the write is known, or cannot be known.
	WriteEnd(ctx context.Context, e WriteEnd)
	// AvailabilityChanged is called once when the table stops answering and once
	// when it answers again.
	AvailabilityChanged(e AvailabilityChange)
	// PacingChanged is called when this process begins to leave an interval between its
	// writes to a bucket, because the bucket's partition throttles. It is called again
	// when that is over, at the next use of the bucket.
	PacingChanged(e PacingChange)
	// Overran is called when a limit was exceeded and denied nobody.
	Overran(e Overrun)
}

// AcquireStart describes an acquire.
type AcquireStart struct {
	// EntityID and Resource are the call's own; the events do not name its parents.
	EntityID, Resource string
	// Amounts is what it asks for, in whole tokens.
	Amounts map[string]int64
}

// AcquireEnd describes how an acquire ended.
type AcquireEnd struct {
	// EntityID and Resource are what the call names.
	EntityID, Resource string
	// Duration is the time it took.
	Duration time.Duration
	// Err is nil for a grant; errors.Is(err, dynalimit.ErrLimitExceeded) distinguishes a denial
	// from a failure of the store.
	Err error
	// Degraded means that a policy granted the call, not its buckets.
	Degraded bool
	// FromMemory means that no request was needed: the call was denied by what was last
	// seen, a block included, granted from tokens debited ahead (dynalimit.Options.Prefetch), or
	// nothing limits it.
	FromMemory bool
}

// WriteKind names the form of a write.
type WriteKind string

// The shapes of a write.
const (
	// WriteCreate makes the bucket.
	WriteCreate WriteKind = "create"
	// WriteSpend takes, adjusts and gives back; the refill instant stays.
	WriteSpend WriteKind = "spend"
	// WriteClaim also credits the refill, or brings changed limits.
	WriteClaim WriteKind = "claim"
	// WriteGiveBack only gives back.
	WriteGiveBack WriteKind = "give_back"
	// WriteTell tells a bucket what was admitted without it, and gives back what could not
	// be given back before.
	WriteTell WriteKind = "tell"
	// WriteTransaction charges an entity and its parents together; the events
	// name the entity.
	WriteTransaction WriteKind = "transaction"
)

// WriteStart describes a write to a bucket.
type WriteStart struct {
	// EntityID and Resource name the bucket that is written: the entity may be
	// a parent of the one that a call names.
	EntityID, Resource string
	// Kind is the shape of the write.
	Kind WriteKind
	// Callers is how many callers' takes and adjusts it carries.
	Callers int
}

// WriteEnd describes what became of a write.
type WriteEnd struct {
	// EntityID and Resource name the bucket, as in WriteStart.
	EntityID, Resource string
	// Kind is the shape of the write.
	Kind WriteKind
	// Callers is how many callers' takes and adjusts it carried.
	Callers int
	// Outcome is "landed", "refused" (its condition failed), "conflicted",
	// "throttled", "unsent" (it never left this process), "unconfirmed" or "failed".
	Outcome string
	// Tries is how many requests it took.
	Tries int
	// Duration is the time from the first request to the outcome.
	Duration time.Duration
	// Err is the store's error, nil for landed and refused.
	Err error
}

// PacingChange describes that a bucket's writes are paced, or are not any more.
type PacingChange struct {
	// EntityID and Resource name the bucket: the entity may be a parent of the one
	// that a call names.
	EntityID, Resource string
	// Why says what was throttled last.
	Why ThrottleCause
	// Interval is the least time between the starts of two writes as it is now; it
	// grows while requests are throttled, see dynalimit.Health. It is 0 when Paced is
	// false.
	Interval time.Duration
	// Paced is true when pacing begins, false when it is over.
	Paced bool
}

// Overrun says that something was counted and not charged: an acquire beyond a limit in shadow,
// or a correction beyond the deepest debt of a limit (dynalimit.Limit.MaxDebt).
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

// AvailabilityChange says that a table stopped answering, or answers again.
type AvailabilityChange struct {
	// Table is its name.
	Table string
	// Open means that the table does not answer any more, so the policy decides.
	Open bool
	// Cause is the failure that showed it, nil when it answers again.
	Cause error
}

// ThrottleCause says which requests of a bucket its partition has throttled.
type ThrottleCause string

const (
	// WritesThrottled means that the last throttled request was a write: one item takes
	// 1,000 write units a second.
	WritesThrottled ThrottleCause = "writes throttled"
	// ReadsThrottled means that it was a read: one item takes 3,000 read units a second.
	ReadsThrottled ThrottleCause = "reads throttled"
)

// Nop hears of everything and does nothing.
type Nop struct{}

var _ Observer = Nop{}

// AcquireStart returns ctx.
func (Nop) AcquireStart(ctx context.Context, _ AcquireStart) context.Context { return ctx }

// AcquireEnd does nothing.
func (Nop) AcquireEnd(context.Context, AcquireEnd) {}

// WriteStart returns ctx.
func (Nop) WriteStart(ctx context.Context, _ WriteStart) context.Context { return ctx }

// WriteEnd does nothing.
func (Nop) WriteEnd(context.Context, WriteEnd) {}

// AvailabilityChanged does nothing.
func (Nop) AvailabilityChanged(AvailabilityChange) {}

// PacingChanged does nothing.
func (Nop) PacingChanged(PacingChange) {}

// Overran does nothing.
func (Nop) Overran(Overrun) {}
