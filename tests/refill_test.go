package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// Two processes that take turns are given a full bucket once, however long it idled.
func TestTwoProcessesShareAFullBucketAfterIdling(t *testing.T) {
	pair(t, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}, func(t *testing.T, a, b *process) {
		a.acquire("key", dynalimit.Amounts{"rpm": 1})
		for _, idle := range []time.Duration{time.Minute, 10 * time.Minute, 3 * time.Hour} {
			elapse(idle)
			assert.Equal(t, 100, a.allowed(150, "key", "rpm"), "after %v", idle)
			assert.Equal(t, 0, b.allowed(1, "key", "rpm"))
		}
	})
}

// A slow limit beside a fast one gets every millitoken of its refill.
func TestSlowLimitIsNotStarvedByAFastOne(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60).WithBurst(1), dynalimit.PerDay("rpd", 10)}})
		s.acquire("user-1", dynalimit.Amounts{"rpd": 10})
		for range 500 {
			s.clock.advance(20 * time.Second)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		}
		now := s.clock.now().UnixMilli()
		image := s.image("user-1")
		grid := func(ms int64) int64 { return ms * 10_000 / 86_400_000 }
		want := grid(now) - grid(noon().UnixMilli())
		assert.Equal(t, int64(1157), want)
		assert.Equal(t, want, image.State(image.Set.Index("rpd")).Level(now), "of 10,000 s")
	})
}

// Exhaust, wait, acquire: on the path of every write.
func TestExhaustWaitAcquire(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		for _, pause := range []time.Duration{0, 30 * time.Second, 2 * time.Hour} { // creates, spends, claims
			s.clock.advance(pause)
			report, err := s.limiter.Check(t.Context(), "key", model, nil)
			require.NoError(t, err)
			s.acquire("key", dynalimit.Amounts{"tpm": report.Statuses[1].Remaining})
			for range 3 {
				exceeded := s.deny("key", dynalimit.Amounts{"tpm": 1000})
				assert.Equal(t, 6*time.Second, exceeded.RetryAfter)
				s.clock.advance(exceeded.RetryAfter)
				s.acquire("key", dynalimit.Amounts{"tpm": 1000})
			}
		}
	})
}
