package dynalimit

import (
	"math"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/sources"
)

// status returns the status of one limit of a reading. asked is the requested amount, back the amount
// given back since the reading. Both are in millitokens.
func (r *levelReading) status(name string, asked, back int64) (s LimitStatus) {
	state, capacity := r.State(name)
	s.EntityID, s.Resource = r.entity, r.resource
	s.Limit, s.Degraded = limitOf(name, capacity, state.Rate), r.degraded
	if i := r.Config.Index(name); i >= 0 {
		l := &r.Config.Limits[i]
		if s.Source = sources.Source(l.Source); r.degraded {
			s.Limit = limitOf(name, l.Capacity, l.Rate)
		}
		s.Limit.MaxDebt, s.Limit.Shadow = l.MaxDebt/milli, r.Config.InShadow(name)
		s.Unlimited = r.Config.From().Counted>>i&1 == 1
		if r.Config.IsMoney(i) {
			s.Limit.Unit = USD
		}
	}
	state.Tokens += back + r.precedence.Taken.Of(name).Back
	// Taken.Take comes off after At, which caps the balance at the burst: a full bucket holds no more.
	state = state.At(r.Now)
	state.Tokens -= r.precedence.Taken.Of(name).Take
	left := r.precedence.Left.Of(name)
	level := state.Level(r.Now) - left.Amount
	s.ahead(asked, bucket.Outlook{Level: level, Wait: left.Wait(state, r.Now, asked), Full: state.Wait(r.Now, state.Burst)})
	return s
}

// ahead sets the balance of a limit and the wait for the requested amount, in millitokens.
func (s *LimitStatus) ahead(asked int64, o bucket.Outlook) {
	s.Requested, s.Remaining, s.Reset = asked/milli, floorDiv(o.Level, milli), duration(o.Full)
	if asked > 0 { // debt on a limit that is not asked for denies nobody
		s.Exceeded = asked > o.Level && !s.Limit.Shadow
		s.WouldDeny = asked > o.Level && s.Limit.Shadow
		s.RetryAfter = duration(o.Wait)
	}
}

// aged returns the status with its waits shortened by the ms since.
func (s LimitStatus) aged(ms int64) LimitStatus {
	less := func(wait time.Duration, least time.Duration) time.Duration {
		if wait <= least || wait == Never {
			return wait
		}
		return max(wait-duration(ms), least)
	}
	s.Reset = less(s.Reset, 0)
	if s.Exceeded || s.WouldDeny {
		s.RetryAfter = less(s.RetryAfter, time.Millisecond)
	}
	return s
}

// duration turns milliseconds of the arithmetic into a Duration.
func duration(ms int64) time.Duration {
	switch {
	case ms == bucket.Never:
		return Never
	case ms > math.MaxInt64/int64(time.Millisecond)-1:
		return Never - time.Millisecond // centuries, but not never
	}
	return time.Duration(ms) * time.Millisecond
}

// floorDiv rounds towards minus infinity, because a bucket in debt has less left than the truncated
// number.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// concluded computes the wait, once the statuses of every level have been added.
func (e *LimitExceededError) concluded() *LimitExceededError {
	if worst := e.worst(); worst != nil {
		e.RetryAfter = worst.RetryAfter
	}
	return e
}
