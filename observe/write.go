package observe

import "time"

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
	// WriteTell adds amounts admitted without the bucket to its counters, and gives back amounts of
	// earlier failed give-backs.
	WriteTell WriteKind = "tell"
	// WriteTransaction charges an entity and its parents together; the events
	// name the entity.
	WriteTransaction WriteKind = "transaction"
)

// WriteStart describes a write to a bucket.
type WriteStart struct {
	// EntityID and Resource name the written bucket: the entity may be
	// a parent of the call's entity.
	EntityID, Resource string
	// Kind is the shape of the write.
	Kind WriteKind
	// Callers is how many callers' takes and adjusts it carries.
	Callers int
}

// WriteEnd describes the outcome of a write.
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
