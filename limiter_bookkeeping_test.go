package dynalimit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/bookkeeping"
)

// TestOwnCountersReadNoSourceAndEndWithTheirLimiter: the first call of one costs the read of its
// bucket alone, and Close of the limiter ends it.
func TestOwnCountersReadNoLevelAndEndWithTheirLimiter(t *testing.T) {
	s := memProcess(t, perMinute())
	s.acquire("key", dynalimit.Amounts{"rpm": 1}) // looks at the version
	own := bookkeeping.Limiter(s.limiter.RateLimiter).(*dynalimit.RateLimiter)
	require.Same(t, own, bookkeeping.Limiter(s.limiter.RateLimiter))
	call := func(entity string) error {
		_, err := own.Acquire(t.Context(), entity, "login", dynalimit.Amounts{"failed": 1}, dynalimit.WithLimits(dynalimit.PerMinute("failed", 10)))
		return err
	}
	require.NoError(t, call("a"))
	used := s.used(func() { assert.NoError(t, call("b")) })
	assert.InDelta(t, 1, used.ReadUnits(), 0, "the bucket")
	require.NoError(t, s.limiter.Close(t.Context()))
	require.ErrorIs(t, call("c"), dynalimit.ErrClosed)
}
