package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// pacific is the zone of the quotas of these tests.
const pacific = "America/Los_Angeles"

// advanceTo moves the clock of hand to an instant.
func (s *process) advanceTo(at string) {
	s.t.Helper()
	t, err := time.Parse(time.RFC3339, at)
	require.NoError(s.t, err)
	s.clock.advance(t.Sub(s.clock.now()))
}

// A quota is full again where the next window of its calendar begins, not before, and says so.
func TestQuotaIsFullAgainAtMidnight(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		ctx := t.Context()
		s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 100, pacific), dynalimit.PerMinute("rpm", 1000))
		s.advanceTo("2099-01-23T19:00:00Z")
		lease := s.acquire("key", dynalimit.Amounts{"usd": 70, "rpm": 1})
		require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"usd": -10}))
		assert.EqualValues(t, 40, s.levelOn("key", model, "usd"))
		p := s.peer(nil) // which knows of no estimate
		_, err := p.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 41})
		exceeded := s.denied(err)
		assert.Equal(t, 13*time.Hour, exceeded.RetryAfter, "midnight there")
		assert.Equal(t, dynalimit.Daily("usd", 100, pacific), exceeded.Primary().Limit)

		s.advanceTo("2099-01-24T07:59:59.999Z")
		_, err = p.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 41})
		assert.Equal(t, time.Millisecond, s.denied(err).RetryAfter)
		s.clock.advance(time.Millisecond)
		s.acquire("key", dynalimit.Amounts{"usd": 41, "rpm": 1})
		assert.EqualValues(t, 59, s.levelOn("key", model, "usd"), "what was left of the day before is gone")
		require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"usd": 5}))
		assert.EqualValues(t, 59, s.levelOn("key", model, "usd"), "what is given back of the day before fills nothing")
		assert.EqualValues(t, 46, s.storedOn("key", model, "usd").Consumed/milli)
		_, err = s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 101})
		require.ErrorIs(t, err, dynalimit.ErrExceedsBurst)
	})
}
