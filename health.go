package dynalimit

import (
	"time"
)

// Health is what a limiter knows of its store, for readiness checks, dashboards
// and alarms.
type Health struct {
	// Ready says that calls can be served: the table answers, or the policy
	// admits without it. An instance that is not ready would only fail calls;
	// under Allow and Local one that is cut off from the table is ready.
	Ready bool
	// Open says that the table does not answer, since Since, because of Cause.
	// It is probed in the background; the next probe is at NextProbe.
	Open      bool
	Since     time.Time // zero while it answers
	Cause     error     // nil while it answers
	NextProbe time.Time // zero while it answers
	// SilentBuckets is how many buckets do not answer although the table may: a
	// sick partition.
	SilentBuckets int
	// OwedBuckets is for how many buckets the process keeps what they are owed:
	// what was admitted without them, or could not be given back. It is written
	// when they answer, and lost if the process ends before.
	OwedBuckets int
	// Owed is that backlog's charges, in whole tokens by limit.
	Owed Amounts
	// Doubt is what may have been charged or given back although no answer came,
	// since the limiter was made, in whole tokens by limit. It counts as
	// consumed. Dropped is what was owed to buckets or limits that are gone, and
	// was never charged.
	Doubt, Dropped Amounts
}

// Health reports whether the store answers, what is owed to it and what is in
// doubt. It does no I/O.
func (l *RateLimiter) Health() Health {
	s := l.repo.breaker.State()
	h := Health{
		Open: s.Open, SilentBuckets: l.lanes.Silent(),
		Ready: !s.Open || l.standingPolicy().admits(),
	}
	if s.Open {
		h.Since, h.Cause, h.NextProbe = s.Since, s.Cause, s.NextProbe
	}
	buckets, owed := l.lanes.Backlog()
	h.OwedBuckets, h.Owed = buckets, tokensOf(owed)
	doubted, dropped := l.lanes.Uncertain()
	h.Doubt, h.Dropped = tokensOf(doubted), tokensOf(dropped)
	return h
}

// standingPolicy is what applies to calls that bring no policy of their own: the
// system's as last read, else the limiter's.
func (l *RateLimiter) standingPolicy() UnavailablePolicy {
	if p := l.systemPolicy.Load(); p != nil && *p != "" {
		return *p
	}
	return l.opts.OnUnavailable
}

// AvailabilityChange describes that a table stopped answering, or answers again.
type AvailabilityChange struct {
	// Table is its name.
	Table string
	// Open says that it does not answer any more: the policy decides.
	Open bool
	// Cause is the failure that showed it, nil when it answers again.
	Cause error
}
