package tests

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

func TestAdjustChargesTheTrueAmount(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 337}))
		assert.Equal(t, int64(9163), s.level("user-1", "tpm"), "more than was estimated")
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -800}))
		assert.Equal(t, int64(9963), s.level("user-1", "tpm"), "less")
		assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 37}, lease.Consumed())
		assert.Equal(t, int64(37_000), s.stored("user-1", "tpm").Consumed, "the counter is exact")
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -37}), "all of it")
		assert.Equal(t, int64(10_000), s.level("user-1", "tpm"))
	})
}

func TestSettleIsAbsoluteAndFinal(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 2, "tpm": 500})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 50}))
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 123}))
		assert.Equal(t, dynalimit.Amounts{"rpm": 2, "tpm": 123}, lease.Consumed(), "what is not named stays")
		assert.Equal(t, int64(9877), s.level("user-1", "tpm"))
		assert.Equal(t, int64(98), s.level("user-1", "rpm"))
		after := s.item("user-1")
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 9999}), "a second Settle is a no-op")
		require.NoError(t, lease.Rollback(t.Context()), "and so is a Rollback")
		assert.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 1}), dynalimit.ErrLeaseEnded)
		assert.ErrorIs(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 1}), dynalimit.ErrLeaseEnded)
		assert.Equal(t, after, s.item("user-1"))
		assert.Equal(t, dynalimit.Amounts{"rpm": 2, "tpm": 123}, lease.Consumed())
	})
}

func TestRollbackGivesEverythingBackOnce(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		kept := s.acquire("user-1", dynalimit.Amounts{"rpm": 10, "tpm": 1000})
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 20_000}))
		require.NoError(t, lease.Rollback(t.Context()))
		for range 2 {
			assert.Equal(t, int64(90), s.level("user-1", "rpm"))
			assert.Equal(t, int64(9000), s.level("user-1", "tpm"))
			assert.Equal(t, int64(1_000_000), s.stored("user-1", "tpm").Consumed)
			assert.Equal(t, dynalimit.Amounts{"rpm": 0, "tpm": 0}, lease.Consumed())
			require.NoError(t, lease.Rollback(t.Context()))
			require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 5}))
		}
		assert.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 1}), dynalimit.ErrLeaseEnded)
		require.NoError(t, kept.Rollback(t.Context()))
		assert.Equal(t, int64(0), s.stored("user-1", "tpm").Consumed)
	})
}

// A give-back never lifts a bucket above its burst.
func TestRollbackIntoARefilledBucket(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 100})
		s.clock.advance(time.Minute)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(100), s.level("user-1", "rpm"))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 100})
		s.deny("user-1", dynalimit.Amounts{"rpm": 1})
		p := s.peer(perMinute())
		p.deny("user-1", dynalimit.Amounts{"rpm": 1})
		s.clock.advance(600 * time.Millisecond)
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.clock.advance(2 * time.Second)
		s.deny("user-1", dynalimit.Amounts{"rpm": 4})
	})
}

func TestConsumeIsChecked(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 9000})
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 900, "rpm": 3}))
		assert.Equal(t, dynalimit.Amounts{"rpm": 3, "tpm": 9900}, lease.Consumed())
		before := s.item("user-1")
		exceeded := s.denied(lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1, "tpm": 101}))
		assert.Equal(t, 6*time.Millisecond, exceeded.RetryAfter)
		assert.Equal(t, dynalimit.Amounts{"rpm": 3, "tpm": 9900}, lease.Consumed(), "a denial leaves the lease as it was")
		assert.Equal(t, before, s.item("user-1"))
		assert.ErrorIs(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1000}), dynalimit.ErrExceedsBurst)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(10_000), s.level("user-1", "tpm"))
		assert.Equal(t, int64(100), s.level("user-1", "rpm"))
	})
}

func TestCleanUpSurvivesTheCallersContext(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		require.NoError(t, lease.Adjust(ended, dynalimit.Amounts{"tpm": 100}))
		assert.Equal(t, int64(9400), s.level("user-1", "tpm"))
		require.NoError(t, lease.Settle(ended, dynalimit.Amounts{"tpm": 300}))
		assert.Equal(t, int64(9700), s.level("user-1", "tpm"))
		lease = s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		require.NoError(t, lease.Rollback(ended))
		assert.Equal(t, int64(9700), s.level("user-1", "tpm"))
		assert.ErrorIs(t, s.acquire("user-1", dynalimit.Amounts{"tpm": 1}).Consume(ended, dynalimit.Amounts{"tpm": 1}), context.Canceled, "but nothing more is taken")
	})
}

func TestLeaseMayBeSharedByGoroutines(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 1000})
		together := func(n int, do func(i int)) {
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() { do(i) })
			}
			wg.Wait()
		}
		together(10, func(i int) {
			switch i % 3 {
			case 0:
				assert.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 10}))
			case 1:
				assert.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -20}))
			default:
				assert.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 30}))
			}
			_, _, _ = lease.Consumed(), lease.Statuses(), lease.Degraded()
		})
		const want = 1000 + 4*10 - 3*20 + 3*30
		assert.Equal(t, dynalimit.Amounts{"tpm": want}, lease.Consumed())
		assert.Equal(t, int64(10_000-want), s.level("user-1", "tpm"))
		together(10, func(i int) {
			if i%2 == 0 {
				assert.NoError(t, lease.Rollback(t.Context()))
			} else {
				assert.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 0}))
			}
		})
		assert.Equal(t, int64(10_000), s.level("user-1", "tpm"), "given back once")
	})
}

// A lease outlives its limit: the refund goes where the limit went.
func TestRefundOfARemovedLimitIsDropped(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 10), dynalimit.PerSecond("tpm", 100)}))
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 50})
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 10)}))
		s.clock.advance(5 * time.Second)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		require.Negative(t, s.image("user-1").Set.Index("tpm"), "full, so the claim removed it")
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Negative(t, s.image("user-1").Set.Index("tpm"))
		assert.Equal(t, int64(10), s.level("user-1", "rpm"))
	})
}
