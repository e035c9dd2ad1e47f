package dynalimit

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/call"
)

// Report is the result of a dry run of Acquire. It is a plain value.
type Report struct {
	// Allowed means that the acquire would be admitted.
	Allowed bool
	// Blocked names the block and its source. It is nil if nothing is blocked. If it is set, no bucket
	// was read and Statuses is empty.
	Blocked *BlockedError
	// Unlimited means that nothing limits the call, because every level that could is unlimited. Then
	// Statuses holds only limits that are counted all the same (LimitStatus.Unlimited).
	Unlimited bool
	// RetryAfter is the exact wait until the amounts fit in every charged bucket, without other
	// traffic, and until every pause has ended. It is 0 if they fit now. It is Never if one exceeds a
	// burst, or if the entity is blocked.
	RetryAfter time.Duration
	// OnUnavailable is the outage policy of the call.
	OnUnavailable UnavailablePolicy
	// Statuses holds every limit of the entity and its parents, requested or not. The entity comes
	// first, at each entity the resource comes before its groups, and limits are in name order. Each
	// names its source.
	Statuses []LimitStatus
}

// Check is a dry run of Acquire: it reads every level's bucket and writes nothing. Amounts may be empty.
// Denials, blocks and pauses are reported in the Report. Other errors are those of Acquire.
func (l *RateLimiter) Check(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Report, error) {
	if err := l.checkUsable(ctx); err != nil {
		return nil, err
	}
	asked := amounts
	if len(asked) == 0 { // a dry run needs no amounts
		asked = Amounts{"any": 0}
	}
	var r call.Request
	if err := l.makeRequest(&r, entity, resource, asked, opts); err != nil {
		return nil, err
	}
	if len(amounts) == 0 {
		r.Amounts = nil
	}
	seen, err := l.desk.Inspect(ctx, &r)
	if err != nil {
		err = errorOf(l.repo.layout, err)
		if blocked, ok := errors.AsType[*BlockedError](err); ok {
			return &Report{Blocked: blocked, RetryAfter: Never, OnUnavailable: UnavailablePolicy(seen.Policy)}, nil
		}
		return nil, err
	}
	report := &Report{Allowed: true, OnUnavailable: UnavailablePolicy(seen.Policy), Statuses: make([]LimitStatus, len(seen.Balances))}
	for i := range seen.Balances {
		s := &report.Statuses[i]
		s.setBalance(&seen.Balances[i])
		if s.Exceeded {
			report.Allowed, report.RetryAfter = false, max(report.RetryAfter, s.RetryAfter)
		}
	}
	report.Unlimited = seen.Unlimited || len(report.Statuses) > 0 && !slices.ContainsFunc(report.Statuses, func(s LimitStatus) bool { return !s.Unlimited })
	if seen.Paused != nil {
		report.Allowed, report.RetryAfter = false, max(report.RetryAfter, seen.Paused.RetryAfter)
	}
	return report, nil
}

// Available returns the whole tokens of each limit that an acquire could take: the least of the entity
// and its parents, on the resource and its groups, never below 0. It leaves out shadow limits and
// limits that only unlimited levels have. It is empty if the entity is blocked.
func (r *Report) Available() Amounts {
	available := Amounts{}
	for _, s := range r.Statuses {
		if s.Limit.Shadow {
			continue
		}
		least, ok := available[s.Limit.Name]
		if !ok {
			least = math.MaxInt64
		}
		available[s.Limit.Name] = max(0, min(least, s.Remaining))
	}
	return available
}
