package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/levels"
)

func TestOverrideReplacesAndAddsButNeverRemoves(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Everyone: true, Resource: model}, []Limit{PerMinute("rpm", 100), PerMinute("tpm", 1000)}))
		s.acquire("user-1", Amounts{"rpm": 10, "tpm": 100})
		lease := s.acquire("user-1", Amounts{"rpm": 1, "usd": 3}, WithLimits(PerMinute("rpm", 50), PerDay("usd", 5)))
		statuses := lease.Statuses()
		require.Len(t, statuses, 2)
		assert.Equal(t, PerMinute("rpm", 50), statuses[0].Limit)
		assert.Equal(t, levels.Override, statuses[0].Level)
		assert.Equal(t, int64(49), statuses[0].Remaining, "a cut clamps")
		assert.Equal(t, int64(2), statuses[1].Remaining, "a new limit starts full")
		assert.Equal(t, int64(900), s.level("user-1", "tpm"), "what it does not name stays")
		assert.Equal(t, levels.Resource, s.acquire("user-1", Amounts{"tpm": 1}, WithLimits(PerMinute("rpm", 50), PerDay("usd", 5))).Statuses()[0].Level)
		assert.ErrorIs(t, s.deny("user-1", Amounts{"rpm": 51}, WithLimits(PerMinute("rpm", 50), PerDay("usd", 5))), ErrExceedsBurst)
	})
}

func TestOverrideDecidesOnANewBucketToo(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		assert.ErrorIs(t, s.deny("user-1", Amounts{"rpm": 50}, WithLimits(PerMinute("rpm", 1))), ErrExceedsBurst)
		s.acquire("user-1", Amounts{"rpm": 1}, WithLimits(PerMinute("rpm", 1)))
		assert.Equal(t, time.Minute, s.deny("user-1", Amounts{"rpm": 1}, WithLimits(PerMinute("rpm", 1))).RetryAfter)
		assert.Equal(t, int64(10_000), s.level("user-1", "tpm"))
	})
}

func TestOverrideWithoutConfiguration(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		fast := WithLimits(Limit{Name: "burst", Capacity: 2, RefillPeriod: 250 * time.Millisecond})
		lease := s.acquire("user-1", Amounts{"burst": 2}, fast)
		assert.Equal(t, 125*time.Millisecond, s.deny("user-1", Amounts{"burst": 1}, fast).RetryAfter, "whole milliseconds are allowed here")
		require.NoError(t, lease.Rollback(t.Context()))
		s.acquire("user-1", Amounts{"burst": 2}, fast)
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"burst": 1})
		requireInvalid(t, err, "limits")
	})
}

func TestLeaseKeepsItsOverride(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", Amounts{"usd": 1}, WithLimits(PerDay("usd", 5)))
		require.NoError(t, lease.Consume(t.Context(), Amounts{"usd": 4}))
		assert.ErrorIs(t, lease.Consume(t.Context(), Amounts{"usd": 1}), ErrLimitExceeded)
		s.delete("user-1")
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"usd": 2}))
		assert.Equal(t, int64(3), s.level("user-1", "usd"), "made anew with the override")
		require.NoError(t, lease.Settle(t.Context(), Amounts{"usd": 6}))
		assert.Equal(t, int64(4), s.level("user-1", "usd"))
	})
}

func TestOverrideAppliesToTheEntityNotItsParents(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		s.acquire("key", Amounts{"rpm": 1}, WithLimits(PerMinute("rpm", 3)))
		assert.Equal(t, int64(3000), s.stored("key", "rpm").Burst)
		assert.Equal(t, int64(100_000), s.stored("project", "rpm").Burst)
	})
}

// Callers that disagree about one bucket take turns rewriting it: cuts clamp
// and raises do not fill, so neither lets more through than its own limit.
func TestCallersThatDisagreeAreSafe(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		small, large := WithLimits(PerMinute("rpm", 10)), WithLimits(PerMinute("rpm", 1000))
		granted := int64(0)
		for i := range 40 {
			opt := small
			if i%2 == 0 {
				opt = large
			}
			if _, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1}, opt); err == nil {
				granted++
			} else {
				_ = s.denied(err)
			}
		}
		assert.Equal(t, int64(11), granted, "the first of 1000, then what 10 hold")
		assert.Equal(t, granted*1000, s.stored("user-1", "rpm").Consumed)
	})
}

// After an override, a call without one brings the entity's own limits back.
func TestCallWithoutOverrideRestoresTheLimits(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Everyone: true, Resource: model}, []Limit{PerMinute("rpm", 100)}))
		s.acquire("user-1", Amounts{"rpm": 1}, WithLimits(PerMinute("rpm", 7)))
		s.clock.advance(5 * time.Second)
		for range 2 { // the first decides by the bucket's own and refreshes at the latest
			s.acquire("user-1", Amounts{"rpm": 1})
		}
		assert.Equal(t, int64(100_000), s.stored("user-1", "rpm").Burst)
	})
}
