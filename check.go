package dynalimit

import (
	"context"
	"math"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
)

// Report says what an acquire would do now.
type Report struct {
	// Allowed says that it would be admitted.
	Allowed bool
	// RetryAfter is the exact wait until it would be; 0 when allowed, Never
	// when an amount exceeds a burst.
	RetryAfter time.Duration
	// OnUnavailable is what the call would do if DynamoDB did not answer.
	OnUnavailable UnavailablePolicy
	// Statuses holds every limit of the entity and its parents, asked for or
	// not, the entity first and in name order; each names the level of the
	// configuration it came from.
	Statuses []LimitStatus
}

// Check is a dry run of Acquire: it reads every level's bucket and writes
// nothing. Amounts may be empty. Errors as of Acquire, but a denial is a report.
func (l *RateLimiter) Check(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Report, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	r, err := newReadRequest(entity, resource, amounts, opts)
	if err != nil {
		return nil, err
	}
	readings, policy, err := l.read(ctx, r)
	if err != nil {
		return nil, err
	}
	report := &Report{Allowed: true, OnUnavailable: policy}
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

// Available returns how many whole tokens of each limit an acquire could take
// now: the least of the entity and its parents, never below 0. Errors as of
// Acquire.
func (l *RateLimiter) Available(ctx context.Context, entity, resource string) (Amounts, error) {
	report, err := l.Check(ctx, entity, resource, nil)
	if err != nil {
		return nil, err
	}
	available := Amounts{}
	for _, s := range report.Statuses {
		least, ok := available[s.Limit.Name]
		if !ok {
			least = math.MaxInt64
		}
		available[s.Limit.Name] = max(0, min(least, s.Remaining))
	}
	return available, nil
}

// TimeUntilAvailable returns the exact wait until the amounts fit at the entity
// and its parents, with no other traffic: 0 when they fit now. Errors as of
// Acquire; a *LimitExceededError that is ErrExceedsBurst when they never will.
func (l *RateLimiter) TimeUntilAvailable(ctx context.Context, entity, resource string, amounts Amounts) (time.Duration, error) {
	report, err := l.Check(ctx, entity, resource, amounts)
	if err != nil {
		return 0, err
	}
	if report.RetryAfter == Never {
		return 0, newLimitExceeded(entity, resource, report.Statuses)
	}
	return report.RetryAfter, nil
}

// newReadRequest validates a call that writes nothing, so that its amounts may
// be empty.
func newReadRequest(entity, resource string, amounts Amounts, opts []AcquireOption) (request, error) {
	if len(amounts) > 0 {
		return newRequest(entity, resource, amounts, opts)
	}
	r, err := newRequest(entity, resource, Amounts{"any": 0}, opts)
	r.amounts = nil
	return r, err
}

// read reads the buckets of an entity and its parents under the configuration
// an acquire would use.
func (l *RateLimiter) read(ctx context.Context, r request) ([]levelReading, UnavailablePolicy, error) {
	if l.closed.Load() {
		return nil, "", ErrClosed
	}
	p := l.patience(ctx)
	links, policy, err := l.chain(ctx, r, p.bound())
	if err != nil {
		return nil, policy, err
	}
	readings := make([]levelReading, 0, len(links))
	for i := range links {
		link := &links[i]
		if link.lane.Away() {
			return nil, policy, l.silence(l.cause())
		}
		v, err := link.lane.Inspect(ctx, link.cfg)
		if err != nil {
			return nil, policy, l.told(link.lane, err)
		}
		link.cfg = v.Config // it may have been read again
		shown := levelReading{entity: link.lane.Entity, resource: link.lane.Resource, Reading: v.Reading()}
		shown.Image = v.Projected()
		shown.before.Left = link.lane.LeftTo(lane.LastRank, shown.Reading) // as an acquire would
		readings = append(readings, shown)
	}
	return readings, policy, checkKnown(r, links)
}
