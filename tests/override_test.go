package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/levels"
)

func TestOverrideReplacesAndAddsButNeverRemoves(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1000)}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 10, "tpm": 100})
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "usd": 3}, dynalimit.WithLimits(dynalimit.PerMinute("rpm", 50), dynalimit.PerDay("usd", 5)))
		statuses := lease.Statuses()
		require.Len(t, statuses, 2)
		assert.Equal(t, dynalimit.PerMinute("rpm", 50), statuses[0].Limit)
		assert.Equal(t, levels.Override, statuses[0].Level)
		assert.Equal(t, int64(49), statuses[0].Remaining, "a cut clamps")
		assert.Equal(t, int64(2), statuses[1].Remaining, "a new limit starts full")
		assert.Equal(t, int64(900), s.level("user-1", "tpm"), "what it does not name stays")
		assert.Equal(t, levels.Resource, s.acquire("user-1", dynalimit.Amounts{"tpm": 1}, dynalimit.WithLimits(dynalimit.PerMinute("rpm", 50), dynalimit.PerDay("usd", 5))).Statuses()[0].Level)
		assert.ErrorIs(t, s.deny("user-1", dynalimit.Amounts{"rpm": 51}, dynalimit.WithLimits(dynalimit.PerMinute("rpm", 50), dynalimit.PerDay("usd", 5))), dynalimit.ErrExceedsBurst)
	})
}

// Callers that disagree about one bucket take turns rewriting it: cuts clamp
// and raises do not fill, so neither lets more through than its own limit.
func TestCallersThatDisagreeAreSafe(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		small, large := dynalimit.WithLimits(dynalimit.PerMinute("rpm", 10)), dynalimit.WithLimits(dynalimit.PerMinute("rpm", 1000))
		granted := int64(0)
		for i := range 40 {
			opt := small
			if i%2 == 0 {
				opt = large
			}
			if _, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, opt); err == nil {
				granted++
			} else {
				_ = s.denied(err)
			}
		}
		assert.Equal(t, int64(11), granted, "the first of 1000, then what 10 hold")
		assert.Equal(t, granted*1000, s.stored("user-1", "rpm").Consumed)
	})
}
