package dynalimit

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Report says what an acquire would do now. It is a plain value.
type Report struct {
	// Allowed means that the acquire would be admitted.
	Allowed bool
	// Blocked says what admits nothing, and where; nil if nothing is blocked. Then
	// no bucket was read and there are no Statuses.
	Blocked *BlockedError
	// Unlimited means that no bucket would be charged, because every level that could
	// be is unlimited. Then there are no Statuses.
	Unlimited bool
	// RetryAfter is the exact wait until the amounts fit at the entity and its parents, with
	// no other traffic: 0 if they fit now, Never if one exceeds a burst, or if the entity is
	// blocked.
	RetryAfter time.Duration
	// OnUnavailable is what the call would do if DynamoDB did not answer.
	OnUnavailable UnavailablePolicy
	// Statuses holds every limit of the entity and its parents, asked for or
	// not, the entity first and in name order; each names the level of the
	// configuration it came from.
	Statuses []LimitStatus
}

// Check is a dry run of Acquire: it reads every level's bucket and writes
// nothing. Amounts may be empty. Errors as of Acquire, but a denial is a report, and so
// is a block.
func (l *RateLimiter) Check(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Report, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	r, err := newReadRequest(entity, resource, amounts, opts)
	if err != nil {
		return nil, err
	}
	readings, policy, err := l.read(ctx, r)
	if blocked, ok := errors.AsType[*BlockedError](err); ok {
		return &Report{Blocked: blocked, RetryAfter: Never, OnUnavailable: policy}, nil
	}
	if err != nil {
		return nil, err
	}
	report := &Report{Allowed: true, Unlimited: len(readings) == 0, OnUnavailable: policy}
	for _, shown := range readings {
		for i := range shown.Config.Limits {
			name := shown.Config.Limits[i].Name
			s := shown.status(name, amounts[name]*milli, 0)
			report.Allowed = report.Allowed && !s.Exceeded
			report.RetryAfter = max(report.RetryAfter, s.RetryAfter)
			report.Statuses = append(report.Statuses, s)
		}
	}
	return report, nil
}

// Available is how many whole tokens of each limit an acquire could take: the least of the
// entity and its parents, never below 0. A limit that only unlimited levels have is not
// among them, and none is where the entity is blocked.
func (r *Report) Available() Amounts {
	available := Amounts{}
	for _, s := range r.Statuses {
		least, ok := available[s.Limit.Name]
		if !ok {
			least = math.MaxInt64
		}
		available[s.Limit.Name] = max(0, min(least, s.Remaining))
	}
	return available
}

// newReadRequest validates a call that writes nothing. Its amounts may be empty.
func newReadRequest(entity, resource string, amounts Amounts, opts []AcquireOption) (request, error) {
	if len(amounts) > 0 {
		return newRequest(entity, resource, amounts, opts)
	}
	r, err := newRequest(entity, resource, Amounts{"any": 0}, opts)
	r.amounts = nil
	return r, err
}

// read reads the buckets of an entity and its parents, under the configuration that an
// acquire would use. It starts again, as an acquire does, if a limit was removed
// meanwhile.
func (l *RateLimiter) read(ctx context.Context, r request) ([]levelReading, UnavailablePolicy, error) {
	if l.closed.Load() {
		return nil, "", ErrClosed
	}
	for try := 1; ; try++ {
		readings, policy, err := l.readOnce(ctx, r)
		if _, outdated := errors.AsType[*outdatedError](err); try == maxOutdated || !outdated {
			return readings, policy, err
		}
	}
}

// readOnce reads once, under the configuration that is known now.
func (l *RateLimiter) readOnce(ctx context.Context, r request) ([]levelReading, UnavailablePolicy, error) {
	c, policy, err := l.chain(ctx, &r, cascade{}, &patience{})
	if err != nil {
		return nil, policy, err
	}
	readings := make([]levelReading, 0, len(c.rungs))
	for i := range c.rungs {
		rung := &c.rungs[i]
		if rung.lane.Contact.Away() {
			return nil, policy, l.unanswered(l.cause())
		}
		beside := lane.BesideOf(rung.lane)
		v, err := beside.Inspect(ctx, rung.cfg)
		if err != nil {
			return nil, policy, l.userError(rung.lane, err)
		}
		rung.cfg = v.Config // it may have been read again
		shown := levelReading{entity: rung.lane.Entity, resource: rung.lane.Resource, Reading: v.Reading()}
		shown.Image = v.Projected()
		shown.precedence.Left = rung.lane.Line.LeftTo(lane.LastRank, shown.Reading) // as an acquire would
		readings = append(readings, shown)
	}
	return readings, policy, l.checkKnown(&r, &c)
}

// levelReading is the last answer of a level. Its statuses are made from it.
type levelReading struct {
	entity, resource string
	plan.Reading
	// precedence is what went before the take that the level denied.
	precedence plan.Precedence
	// degraded means that the reading is not the bucket's answer, but the process's
	// share or an old image.
	degraded bool
}

// status shows one limit of a reading. asked is the requested amount and back what has
// been given back since, both in millitokens.
func (r levelReading) status(name string, asked, back int64) LimitStatus {
	s := LimitStatus{EntityID: r.entity, Resource: r.resource, Requested: asked / milli}
	state, capacity := r.State(name)
	s.Limit, s.Degraded = limitOf(name, capacity, state.Rate), r.degraded
	if i := r.Config.Index(name); i >= 0 {
		l := &r.Config.Limits[i]
		if s.Level = ConfigLevel(l.Level); r.degraded {
			s.Limit = limitOf(name, l.Capacity, l.Rate)
		}
	}
	state.Tokens += back + r.precedence.Taken.Of(name).Back
	// What others take is taken from the level: a full bucket holds no more.
	state.Tokens, state.Refilled = state.Level(r.Now)-r.precedence.Taken.Of(name).Take, max(state.Refilled, r.Now)
	left := r.precedence.Left.Of(name)
	level := state.Level(r.Now) - left.Amount
	s.Remaining = floorDiv(level, milli)
	if asked > 0 { // debt on a limit that is not asked for denies nobody
		s.Exceeded = asked > level
		s.RetryAfter = duration(left.Wait(state, r.Now, asked))
	}
	s.Reset = duration(state.Wait(r.Now, state.Burst))
	return s
}

// aged is a status with its waits shortened by the ms that have passed since.
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

// floorDiv rounds towards minus infinity, because a bucket in debt has less left than
// the truncated number says.
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
