package dynalimit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDegradedLeaseIsChargedOnceTheStoreIsBack(t *testing.T) {
	for _, warm := range []bool{false, true} {
		virtual(t, perMinute(), func(t *testing.T, s *process) {
			base := int64(10_000)
			if warm {
				s.acquire("user-1", Amounts{"tpm": 100})
				base -= 100
			}
			degraded := func() *Lease {
				s.recovers()
				s.down(throttled1)
				defer s.db.SetFaults(nil)
				return s.acquire("user-1", Amounts{"rpm": 1, "tpm": 500}, WithOnUnavailable(Allow))
			}
			lease := degraded()
			assert.Equal(t, Amounts{"rpm": 1, "tpm": 500}, lease.Consumed(), "on consumed")
			for _, status := range lease.Statuses() {
				assert.True(t, status.Degraded, "of the process's share")
			}
			require.NoError(t, lease.Rollback(t.Context()))
			s.recovers()
			if warm {
				assert.Equal(t, base, s.level("user-1", "tpm"), "nothing is given back that was never taken")
			} else {
				assert.Nil(t, s.item("user-1"))
			}

			lease = degraded()
			require.NoError(t, lease.Adjust(t.Context(), Amounts{"tpm": -200}))
			assert.Equal(t, warm, lease.Degraded(), "a bucket that was not known is charged at once")
			s.recovers()
			assert.False(t, lease.Degraded(), "charged in the background")
			assert.Equal(t, base-300, s.level("user-1", "tpm"), "asked + delta")
			assert.Equal(t, int64(99), s.level("user-1", "rpm"))
			require.NoError(t, lease.Rollback(t.Context()))
			assert.Equal(t, base, s.level("user-1", "tpm"), "now it is held")

			lease = degraded()
			require.NoError(t, lease.Settle(t.Context(), Amounts{"tpm": 700}))
			s.recovers()
			assert.Equal(t, base-700, s.level("user-1", "tpm"))

			lease = degraded()
			requireInvalid(t, lease.Adjust(t.Context(), Amounts{"tpm": -501}), "amounts[tpm]")
			require.NoError(t, lease.Adjust(t.Context(), Amounts{"tpm": -500, "rpm": -1}))
			s.recovers()
			assert.Equal(t, base-700, s.level("user-1", "tpm"))
		})
	}
}

// What a degraded lease consumes later is held; all of it is given back.
func TestDegradedLeaseGivesBackWhatItConsumedLater(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		for _, warm := range []bool{false, true} {
			if warm {
				s.acquire("user-1", Amounts{"tpm": 100})
			}
			s.down(throttled1)
			lease := s.acquire("user-1", Amounts{"tpm": 500}, WithOnUnavailable(Allow))
			require.NoError(t, lease.Consume(t.Context(), Amounts{"tpm": 50}), "admitted like the first")
			s.db.SetFaults(nil)
			require.NoError(t, lease.Consume(t.Context(), Amounts{"tpm": 50}))
			s.recovers()
			want := int64(10_000)
			if warm {
				want -= 100
			}
			assert.Equal(t, want-600, s.level("user-1", "tpm"))
			require.NoError(t, lease.Rollback(t.Context()))
			assert.Equal(t, want, s.level("user-1", "tpm"))
			assert.ErrorIs(t, lease.Adjust(t.Context(), Amounts{"tpm": 1}), ErrLeaseEnded)
		}
	})
}

func TestDegradedAtOneLevelOnly(t *testing.T) {
	for _, mode := range []CascadeMode{CascadeParallel} {
		testEngines(t, func(t *testing.T, e *engine) {
			f := &fault{refuse: "ThrottlingException", match: writesOf("project")}
			s := newProcess(t, e, perMinute())
			s.family("key", "project")
			s = s.faulty(perMinute(), f)
			f.times(-1)
			lease := s.acquire("key", Amounts{"tpm": 500}, WithOnUnavailable(Allow), WithCascade(mode))
			assert.True(t, lease.Degraded())
			assert.Equal(t, []string{"key tpm", "project tpm"}, holders(lease.Statuses()))
			assert.Equal(t, int64(9500), s.level("key", "tpm"))
			assert.Nil(t, s.item("project"), "it is owed, and written once the fault is over")
			f.times(0)
			require.NoError(t, lease.Settle(t.Context(), Amounts{"tpm": 600}))
			require.NoError(t, s.limiter.Close(t.Context()), "charges what is owed")
			assert.False(t, lease.Degraded())
			assert.Equal(t, int64(9400), s.level("key", "tpm"))
			assert.Equal(t, int64(9400), s.level("project", "tpm"))
		})
	}
}
