package dynalimit

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
)

// ThrottleCause says which requests of a bucket its partition has throttled.
type ThrottleCause string

const (
	// WritesThrottled means that the last throttled request was a write: one item takes
	// 1,000 write units a second.
	WritesThrottled ThrottleCause = "writes throttled"
	// ReadsThrottled means that it was a read: one item takes 3,000 read units a second.
	ReadsThrottled ThrottleCause = "reads throttled"
)

// String is the cause in words.
func (c ThrottleCause) String() string { return string(c) }

// HotBucket is a bucket whose writes are paced because its partition throttles:
// callers queue meanwhile, and one write carries them all.
type HotBucket struct {
	// EntityID and Resource name the bucket.
	EntityID, Resource string
	// Why says what was throttled last.
	Why ThrottleCause
	// Interval is the least time between the starts of two writes of this process, 2 s
	// at most. It is 0 when only reads were throttled.
	Interval time.Duration
	// LastThrottled is when a request was last throttled, by the local clock.
	LastThrottled time.Time
}

// PacingChange describes that a bucket's writes are paced, or are not any more.
type PacingChange struct {
	// EntityID and Resource name the bucket: the entity may be a parent of the one
	// that a call names.
	EntityID, Resource string
	// Why says what was throttled last.
	Why ThrottleCause
	// Interval is the least time between the starts of two writes as it is now; it
	// grows while requests are throttled, see Health.Hottest. It is 0 when Paced is
	// false.
	Interval time.Duration
	// Paced is true when pacing begins, false when it is over.
	Paced bool
}

// mostHottest bounds Health.Hottest.
const mostHottest = 10

// pacedBecause is why a bucket's writes are paced.
func pacedBecause(p lane.Paced) ThrottleCause {
	if p.Reads {
		return ReadsThrottled
	}
	return WritesThrottled
}
