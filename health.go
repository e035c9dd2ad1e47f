package dynalimit

import (
	"time"

	"github.com/dynalimit/dynalimit/observe"
)

// Health is what a limiter knows about its store, for readiness checks, dashboards and
// alarms. It is a plain value.
type Health struct {
	// Ready means that calls can be served: the table answers, or the policy admits
	// calls without it. An instance that is not ready would fail every call. Under Allow
	// and Local, an instance that cannot reach the table is ready.
	Ready bool
	// Open means that the table does not answer, since Since, because of Cause. It is
	// probed in the background; NextProbe is when it is asked next.
	Open      bool
	Since     time.Time // zero while it answers
	Cause     error     // nil while it answers
	NextProbe time.Time // zero while it answers
	// SilentBuckets is the number of buckets that do not answer although the table may:
	// a partition of it fails.
	SilentBuckets int
	// WaitingBuckets is the number of buckets that have still to be told something: what
	// was admitted, or used, without them, and what could not be given back to them. That
	// is written when the bucket answers, and lost if the process ends before.
	WaitingBuckets int
	// Waiting is how much that is, in whole tokens by limit, with what is under way: by so
	// much the buckets' counters may differ from what was used.
	Waiting Amounts
	// Settling is the number of leases that SettleSoon is settling.
	Settling int
	// Doubt is what may have been charged, counted or given back although no answer came,
	// since the limiter was made, in whole tokens by limit: what was used is what the
	// counters tell, give or take this. Dropped is what no bucket was told: it or its limit
	// does not exist any more, too many buckets waited, or the limiter was closed.
	Doubt, Dropped Amounts
	// Hottest are the buckets whose partitions throttle, or did in the last minutes, so
	// that this process leaves an interval between its writes to them: the longest
	// interval first, at most 10.
	Hottest []HotBucket
}

// Health reports whether the store answers, what buckets have to be told and what is in
// doubt.
// It does no I/O. A limiter that New did not make is not Ready, nor is one that was
// closed.
func (l *RateLimiter) Health() Health {
	if l == nil || l.repo == nil {
		return Health{}
	}
	s := l.repo.breaker.State()
	h := Health{
		Open: s.Open, SilentBuckets: l.desk.lanes.Silent(),
		Settling: l.desk.settling.count(),
		Ready:    !l.closed.Load() && (!s.Open || l.desk.routes.knownPolicy().admits()),
	}
	if s.Open {
		h.Since, h.Cause, h.NextProbe = s.Since, s.Cause, s.NextProbe
	}
	buckets, waiting := l.desk.lanes.Waiting()
	h.WaitingBuckets, h.Waiting = buckets, tokensOf(waiting)
	doubted, dropped := l.desk.lanes.Uncertain()
	h.Doubt, h.Dropped = tokensOf(doubted), tokensOf(dropped)
	for _, p := range l.desk.lanes.Hottest(mostHottest) {
		h.Hottest = append(h.Hottest, HotBucket{
			EntityID: p.Entity, Resource: p.Resource, Why: pacedBecause(p), Cause: p.Cause, Interval: p.Interval, LastThrottled: p.Throttled,
		})
	}
	return h
}

// HotBucket is a bucket whose writes are paced because its partition throttles:
// callers queue meanwhile, and one write carries them all.
type HotBucket struct {
	// EntityID and Resource name the bucket.
	EntityID, Resource string
	// Why says what was throttled last.
	Why observe.ThrottleCause
	// Cause is DynamoDB's answer, which names the table or the index and the limit that was
	// exceeded.
	Cause error
	// Interval is the least time between the starts of two writes of this process, 2 s
	// at most. It is 0 when only reads were throttled.
	Interval time.Duration
	// LastThrottled is when a request was last throttled, by the local clock.
	LastThrottled time.Time
}

// mostHottest bounds Health.Hottest.
const mostHottest = 10
