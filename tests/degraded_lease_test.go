package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// What a policy admitted is told to the counter, with every correction, and the tokens have
// nothing to do with it: nothing is charged, and nothing given back.
func TestDegradedLeaseIsCountedOnceTheStoreIsBack(t *testing.T) {
	for _, warm := range []bool{false, true} {
		virtual(t, perMinute(), func(t *testing.T, s *process) {
			base, told := int64(10_000), int64(0)
			if warm {
				s.acquire("user-1", dynalimit.Amounts{"tpm": 100})
				base, told = base-100, 100
			}
			degraded := func() *dynalimit.Lease {
				s.down(ddbmem.Fault{Drop: true})
				_, err := s.limiter.Acquire(t.Context(), "other", model, dynalimit.Amounts{"rpm": 1})
				require.ErrorIs(t, err, dynalimit.ErrUnavailable) // and now it is known
				return s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500}, dynalimit.WithOnUnavailable(dynalimit.Allow))
			}
			lease := degraded()
			assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 500}, lease.Consumed(), "on consumed")
			for _, status := range lease.Statuses() {
				assert.True(t, status.Degraded, "of an old image")
			}
			require.NoError(t, lease.Rollback(t.Context()))
			s.recovers()
			if warm {
				assert.Equal(t, told, s.stored("user-1", "tpm").Consumed/milli)
			} else {
				assert.Nil(t, s.item("user-1"), "nothing was used")
			}

			lease = degraded()
			require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -200}))
			assert.True(t, lease.Degraded())
			s.recovers()
			assert.Equal(t, told+300, s.stored("user-1", "tpm").Consumed/milli, "asked + delta")
			assert.Equal(t, base, s.level("user-1", "tpm"))
			require.NoError(t, lease.Rollback(t.Context()))
			s.recovers()
			assert.Equal(t, told, s.stored("user-1", "tpm").Consumed/milli, "told before, and taken off again")
			assert.Equal(t, base, s.level("user-1", "tpm"), "nothing is given back that was never taken")

			lease = degraded()
			require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 700}))
			s.recovers()
			assert.Equal(t, told+700, s.stored("user-1", "tpm").Consumed/milli)
			assert.Equal(t, base, s.level("user-1", "tpm"))

			lease = degraded()
			requireInvalid(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -501}), "amounts[tpm]")
			require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -500, "rpm": -1}))
			s.recovers()
			assert.Equal(t, told+700, s.stored("user-1", "tpm").Consumed/milli)
		})
	}
}
