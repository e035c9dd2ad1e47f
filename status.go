package dynalimit

import (
	"math"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// levelReading is a level's last answer: what its statuses are made of.
type levelReading struct {
	entity, resource string
	plan.Reading
	// before is what went before the take that it denied.
	before plan.Precedence
	// degraded says that it is not the bucket's: the process's share, or old.
	degraded bool
}

// status shows one limit of a reading: asked for in millitokens, and with back
// given back since.
func (r levelReading) status(name string, asked, back int64) LimitStatus {
	s := LimitStatus{EntityID: r.entity, Resource: r.resource, Requested: asked / milli}
	state, capacity := r.State(name)
	if i := r.Config.Index(name); i >= 0 {
		s.Level = ConfigLevel(r.Config.Limits[i].Level)
	}
	s.Limit, s.Degraded = limitOf(name, capacity, state.Rate), r.degraded
	if i := r.Config.Index(name); r.degraded && i >= 0 {
		s.Limit = limitOf(name, r.Config.Limits[i].Capacity, r.Config.Limits[i].Rate)
	}
	state.Tokens += back + r.before.Taken.Of(name).Back
	// What others take is taken from the level: a full bucket holds no more.
	state.Tokens, state.Refilled = state.Level(r.Now)-r.before.Taken.Of(name).Take, max(state.Refilled, r.Now)
	left := r.before.Left.Of(name)
	level := state.Level(r.Now) - left.Amount
	s.Remaining = floorDiv(level, milli)
	if asked > 0 { // debt on a limit that is not asked for denies nobody
		s.Exceeded = asked > level
		s.RetryAfter = duration(left.Wait(state, r.Now, asked))
	}
	s.Reset = duration(state.Wait(r.Now, state.Burst))
	return s
}

// aged is a status of some milliseconds ago as its waits are now.
func (s LimitStatus) aged(ms int64) LimitStatus {
	less := func(wait time.Duration, least time.Duration) time.Duration {
		if wait <= least || wait == Never {
			return wait
		}
		return max(wait-duration(ms), least)
	}
	s.Reset = less(s.Reset, 0)
	if s.Exceeded {
		s.RetryAfter = less(s.RetryAfter, time.Millisecond)
	}
	return s
}

// floorDiv rounds towards minus infinity: in debt, less is left than the
// truncated number says.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
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
