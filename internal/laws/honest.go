package laws

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// checkDenials checks the waits of three random calls, if denied, after a history without faults. The call must
// succeed after the returned wait, and be denied one millisecond before. It adds a violation to j.violations,
// and then ends.
func (h *history) checkDenials(j *judge) {
	for range 3 {
		m := h.members[h.r.IntN(len(h.members))]
		entity := h.entities[0]
		Elapse(2*configTTL + time.Second) // every limiter has read the configuration in force
		amounts := h.randomAmounts(h.r, entity)
		_, err := m.limiter.Acquire(h.t.Context(), entity, resource, amounts)
		if err == nil {
			Elapse(2 * time.Second) // no image serves any more
			_, err = m.limiter.Acquire(h.t.Context(), entity, resource, amounts)
		}
		if err == nil {
			continue
		}
		var denied *dynalimit.LimitExceededError
		if !errors.As(err, &denied) || denied.RetryAfter == dynalimit.Never || slices.ContainsFunc(denied.Statuses, waitIsEstimate) {
			continue
		}
		j.tally["waits"]++
		Elapse(denied.RetryAfter - time.Millisecond)
		if _, err := h.informedLimiter(entity).Acquire(h.t.Context(), entity, resource, amounts); !errors.Is(err, dynalimit.ErrLimitExceeded) {
			j.violations = append(j.violations, fmt.Sprintf("L6: 1 ms before %v, %v of %s: %v; denied by %+v", denied.RetryAfter, amounts, entity, err, denied.Statuses))
			return
		}
		Elapse(time.Millisecond)
		if _, err := h.informedLimiter(entity).Acquire(h.t.Context(), entity, resource, amounts); err != nil {
			j.violations = append(j.violations, fmt.Sprintf("L6: after %v, %v of %s: %v; denied by %+v", denied.RetryAfter, amounts, entity, err, denied.Statuses))
			return
		}
	}
}

// waitIsEstimate reports whether a status is of a quota full of the estimates of open calls, so that its wait
// is not exact.
func waitIsEstimate(s dynalimit.LimitStatus) bool { return s.ByEstimates }

// informedLimiter returns a random limiter after it has read the entity's buckets, so that its next call
// decides at once. An error of that read fails the test.
func (h *history) informedLimiter(entity string) *dynalimit.RateLimiter {
	l := h.randomMember(h.r).limiter
	_, err := l.Check(h.t.Context(), entity, resource, nil)
	require.NoError(h.t, err)
	return l
}
