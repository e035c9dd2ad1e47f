package laws

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// honest checks denials after a history, in the quiet: the call must succeed after the returned
// wait, and be denied one millisecond before. It adds violations to j.
func (h *history) honest(j *judge) {
	for range 3 {
		m := h.members[h.r.IntN(len(h.members))]
		entity := h.entities[0]
		Elapse(2*configTTL + time.Second) // every limiter has read the configuration in force
		amounts := h.amounts(h.r, entity)
		_, err := m.limiter.Acquire(h.t.Context(), entity, resource, amounts)
		if err == nil {
			Elapse(2 * time.Second) // no image serves any more
			_, err = m.limiter.Acquire(h.t.Context(), entity, resource, amounts)
		}
		if err == nil {
			continue
		}
		var denied *dynalimit.LimitExceededError
		if !errors.As(err, &denied) || denied.RetryAfter == dynalimit.Never || slices.ContainsFunc(denied.Statuses, held) {
			continue
		}
		j.tally["waits"]++
		Elapse(denied.RetryAfter - time.Millisecond)
		if _, err := h.informed(entity).Acquire(h.t.Context(), entity, resource, amounts); !errors.Is(err, dynalimit.ErrLimitExceeded) {
			j.violations = append(j.violations, fmt.Sprintf("L6: 1 ms before %v, %v of %s: %v; denied by %+v", denied.RetryAfter, amounts, entity, err, denied.Statuses))
			return
		}
		Elapse(time.Millisecond)
		if _, err := h.informed(entity).Acquire(h.t.Context(), entity, resource, amounts); err != nil {
			j.violations = append(j.violations, fmt.Sprintf("L6: after %v, %v of %s: %v; denied by %+v", denied.RetryAfter, amounts, entity, err, denied.Statuses))
			return
		}
	}
}

// held reports whether a quota is full of open calls. Its wait is then an estimate.
func held(s dynalimit.LimitStatus) bool { return s.ByEstimates }

// informed returns a random limiter after it has read the entity's buckets, so that its next call
// decides at once.
func (h *history) informed(entity string) *dynalimit.RateLimiter {
	l := h.pick(h.r).limiter
	_, err := l.Check(h.t.Context(), entity, resource, nil)
	require.NoError(h.t, err)
	return l
}
