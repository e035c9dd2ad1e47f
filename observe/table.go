package observe

import "time"

// ConfigLoad describes a read of the configuration of an entity on a resource.
type ConfigLoad struct {
	// EntityID and Resource are those of the configuration; the entity may be a parent of the
	// call's entity.
	EntityID, Resource string
	// Duration is the time it took.
	Duration time.Duration
	// Err is why it failed; nil usually.
	Err error
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

// PacingChange describes that a bucket's writes are paced, or are not any more.
type PacingChange struct {
	// EntityID and Resource name the bucket: the entity may be a parent of the
	// call's entity.
	EntityID, Resource string
	// Why names the cause of the last throttling.
	Why ThrottleCause
	// Interval is the least time between the starts of two writes as it is now; it
	// grows while requests are throttled, see dynalimit.Health. It is 0 when Paced is
	// false.
	Interval time.Duration
	// Paced is true when pacing begins, false when it is over.
	Paced bool
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
