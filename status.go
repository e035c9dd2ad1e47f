package dynalimit

import (
	"math"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// reading is a level's last answer: what its statuses are made of.
type reading struct {
	entity, resource string
	image            *schema.Image // nil: no bucket, every limit is full
	cfg              *bucketConfig
	now              int64
	// before is what went before the take that it denied.
	before precedence
	// degraded says that it is not the bucket's: the process's share, or old.
	degraded bool
}

// status shows one limit of a reading: asked for in millitokens, and with back
// given back since.
func (r reading) status(name string, asked, back int64) LimitStatus {
	s := LimitStatus{EntityID: r.entity, Resource: r.resource, Requested: asked / milli}
	state, capacity := r.state(name)
	if i := r.cfg.index(name); i >= 0 {
		s.Level = r.cfg.limits[i].level
	}
	s.Limit, s.Degraded = limitOf(name, capacity, state.Rate), r.degraded
	if i := r.cfg.index(name); r.degraded && i >= 0 {
		s.Limit = limitOf(name, r.cfg.limits[i].capacity, r.cfg.limits[i].rate)
	}
	state.Tokens += back + r.before.taken.of(name).Back
	// What others take is taken from the level: a full bucket holds no more.
	state.Tokens, state.Refilled = state.Level(r.now)-r.before.taken.of(name).Take, max(state.Refilled, r.now)
	left := r.before.left.of(name)
	level := state.Level(r.now) - left.amount
	s.Remaining = floorDiv(level, milli)
	if asked > 0 { // debt on a limit that is not asked for denies nobody
		s.Exceeded = asked > level
		s.RetryAfter = duration(left.wait(state, r.now, asked))
	}
	s.Reset = duration(state.Wait(r.now, state.Burst))
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

// worth is a limit as a bucket that holds its level now.
func (r reading) worth(name string) bucket.State {
	state, _ := r.state(name)
	state.Tokens, state.Refilled = state.Level(r.now), max(state.Refilled, r.now)
	return state
}

// state is the limit as the reading shows it, else as configured and full.
func (r reading) state(name string) (bucket.State, int64) {
	if r.image != nil {
		if i := r.image.Set.Index(name); i >= 0 && !r.image.Limits[i].Ghost {
			return r.image.State(i), r.image.Limits[i].Capacity
		}
	}
	i := r.cfg.index(name)
	if i < 0 {
		return bucket.State{Rate: bucket.Rate{Burst: 1, Amount: 1, Period: 1}}, 0
	}
	l := r.cfg.limits[i]
	return bucket.State{Rate: l.rate, Tokens: l.rate.Burst, Refilled: r.now}, l.capacity
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
