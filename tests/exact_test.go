package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// The counter is the exact sum of what was debited and given back, also when
// more was refilled than used.
func TestCounterIsExact(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		sum := int64(0)
		for i := range int64(30) {
			s.clock.advance(time.Duration(i*i) * 7 * time.Second)
			lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 10 + i})
			p.acquire("user-1", dynalimit.Amounts{"tpm": 1})
			sum += 11 + i
			switch i % 3 {
			case 0:
				require.NoError(t, lease.Rollback(t.Context()))
				sum -= 10 + i
			case 1:
				require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 100 - i}))
				sum += 100 - i
			}
		}
		assert.Equal(t, sum*milli, s.stored("user-1", "tpm").Consumed)
	})
}
