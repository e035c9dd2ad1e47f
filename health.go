package dynalimit

import (
	"time"

	"github.com/dynalimit/dynalimit/observe"
)

// Health is the state of a limiter and its store, for readiness checks, dashboards and alarms. It is a
// plain value.
type Health struct {
	// Ready means that calls can be served: the table answers, or the policy admits
	// calls without it. An instance that is not ready would fail every call. Under Allow
	// and Local, an instance that cannot reach the table is ready.
	Ready bool
	// Open means that the table does not answer, since Since, because of Cause. It is probed in the
	// background; NextProbe is the time of the next probe.
	Open      bool
	Since     time.Time // zero while it answers
	Cause     error     // nil while it answers
	NextProbe time.Time // zero while it answers
	// SilentBuckets is the number of buckets that do not answer although the table may:
	// a partition of it fails.
	SilentBuckets int
	// WaitingBuckets is the number of buckets with pending updates: amounts admitted or used without
	// the bucket, and give-backs that could not be written. They are written when the bucket answers,
	// and lost if the process ends before.
	WaitingBuckets int
	// Waiting is the sum of the pending updates, in whole tokens by limit, with those in flight. The
	// buckets' counters may differ from the true use by as much.
	Waiting Amounts
	// InFlight is the sum of the slots of this process's open calls, by limit of calls in flight. A call counts in each
	// bucket that limits it.
	InFlight Amounts
	// Settling is the number of leases that SettleSoon is settling.
	Settling int
	// Doubt is the sum of the amounts whose write (a charge, a count or a give-back) got no answer,
	// since the limiter was made, in whole tokens by limit. The true use is that of the counters, give
	// or take Doubt. Dropped is the sum of the updates that were never written: the bucket or its limit
	// is gone, too many buckets waited, or the limiter was closed.
	Doubt, Dropped Amounts
	// Hottest are the buckets with throttling partitions, now or in the last minutes. This process
	// leaves an interval between its writes to them. The longest interval comes first; there are at
	// most 10.
	Hottest []HotBucket
}

// Health reports whether the store answers, the pending updates and the amounts in doubt. It does no
// I/O. Ready is false for a limiter that New did not make, and for a closed one.
func (l *RateLimiter) Health() Health {
	if l == nil || l.repo == nil {
		return Health{}
	}
	s := l.repo.breaker.State()
	h := Health{
		Open: s.Open, SilentBuckets: l.desk.Lanes.CountSilent(),
		InFlight: tokensOf(l.desk.Lanes.InFlight.Sum()), Settling: l.settling.count(),
		Ready: !l.closed.Load() && (!s.Open || l.desk.KnownPolicy().Admits()),
	}
	if s.Open {
		h.Since, h.Cause, h.NextProbe = s.Since, s.Cause, s.NextProbe
	}
	buckets, waiting := l.desk.Lanes.SumPendingUpdates()
	h.WaitingBuckets, h.Waiting = buckets, tokensOf(waiting)
	doubted, dropped := l.desk.Lanes.Uncertain()
	h.Doubt, h.Dropped = tokensOf(doubted), tokensOf(dropped)
	for _, p := range l.desk.Lanes.PacedBuckets(mostHottest) {
		h.Hottest = append(h.Hottest, HotBucket{
			EntityID: p.Entity, Resource: p.Resource, Why: pacedBecause(p), Cause: p.Cause, Interval: p.Interval, LastThrottled: p.Throttled,
		})
	}
	return h
}

// HotBucket is a bucket whose writes are paced because its partition throttles. Callers queue
// meanwhile, and one write carries them all.
type HotBucket struct {
	// EntityID and Resource name the bucket.
	EntityID, Resource string
	// Why is the cause of the last throttling.
	Why observe.ThrottleCause
	// Cause is DynamoDB's answer, which names the table or the index and the limit that was
	// exceeded.
	Cause error
	// Interval is the least time between the starts of two writes of this process, 2 s
	// at most. It is 0 when only reads were throttled.
	Interval time.Duration
	// LastThrottled is the time of the last throttled request, by the local clock.
	LastThrottled time.Time
}

// mostHottest bounds Health.Hottest.
const mostHottest = 10
