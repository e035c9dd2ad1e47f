package dynalimit

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stretchr/testify/require"
)

// ledger compares what callers were told, and what their leases hold, with what
// was debited. Nobody was granted more than was debited for callers that were told
// so, and no lease holds more than was debited for it and not given back. Without
// faults that is exact, of every limit that was there all along: denied and
// cancelled callers hold nothing.
func (j *lawJudge) ledger(h *history) {
	for key, told := range h.told {
		if acc := j.accountAt(key); told > acc.granted {
			j.violations = append(j.violations, fmt.Sprintf("L9: callers were granted %d of %s, debited were only %d", told, key, acc.granted))
		}
	}
	gone := maps.Clone(j.absent)
	maps.Copy(gone, j.pooled)
	held := map[string]int64{}
	for _, l := range h.leases {
		sure, _ := heldBy(l.Lease)
		for key, n := range sure {
			held[key] += n
		}
		j.violations = append(j.violations, l.stake.holds(l.Lease, gone)...)
	}
	for _, s := range j.suspects {
		if !s.owed() {
			j.violations = append(j.violations, s.wrong...)
		}
	}
	for key, acc := range j.accounts {
		net, exact := acc.granted+acc.adjusted-acc.back, j.rules.exact && !j.absent[key]
		if net < held[key] || exact && net != held[key] {
			j.violations = append(j.violations, fmt.Sprintf("L3: callers hold %d of %s, debited are %d", held[key], key, net))
		}
		j.tally["ledgers"]++
	}
}

// grantedTo notes what a caller was told it was granted; h.mu must be held.
func (h *history) grantedTo(levels []level, amounts Amounts) {
	for i := range levels {
		for _, a := range amountsAt(levels[i].cfg, amounts) {
			if !levels[i].degraded {
				h.told[levels[i].lane.Entity+"#"+a.Name] += a.Amount
			}
		}
	}
}

// honest checks, in the quiet after a history, that every denial says exactly
// when the call succeeds: then and not a millisecond earlier.
func (h *history) honest(j *lawJudge) {
	for range 3 {
		m := h.members[h.r.IntN(len(h.members))]
		entity := h.entities[0]
		elapse(2*lawTTL + time.Second) // everybody has read the configuration in force
		amounts := h.amounts(h.r, entity)
		_, err := m.limiter.Acquire(h.t.Context(), entity, lawResource, amounts)
		if err == nil {
			elapse(2 * time.Second) // no memory
			_, err = m.limiter.Acquire(h.t.Context(), entity, lawResource, amounts)
		}
		if err == nil {
			continue
		}
		var denied *LimitExceededError
		if !errors.As(err, &denied) || denied.RetryAfter == Never {
			continue
		}
		j.tally["waits"]++
		elapse(denied.RetryAfter - time.Millisecond)
		if _, err := h.informed(entity).Acquire(h.t.Context(), entity, lawResource, amounts); !errors.Is(err, ErrLimitExceeded) {
			j.violations = append(j.violations, fmt.Sprintf("L6: 1 ms before %v, %v of %s: %v; denied by %+v", denied.RetryAfter, amounts, entity, err, denied.Statuses))
			return
		}
		elapse(time.Millisecond)
		if _, err := h.informed(entity).Acquire(h.t.Context(), entity, lawResource, amounts); err != nil {
			j.violations = append(j.violations, fmt.Sprintf("L6: after %v, %v of %s: %v; denied by %+v", denied.RetryAfter, amounts, entity, err, denied.Statuses))
			return
		}
	}
}

// informed is a limiter that has just read the buckets, so that its calls decide
// at once.
func (h *history) informed(entity string) *RateLimiter {
	l := h.pick(h.r).limiter
	_, err := l.Check(h.t.Context(), entity, lawResource, nil)
	require.NoError(h.t, err)
	return l
}
