package dynalimit

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// A caller whose context never ends is answered like any other.
func TestOutageAnswersACallerWhoseContextNeverEnds(t *testing.T) {
	for name, silent := range silences {
		t.Run(name, func(t *testing.T) {
			virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
				s.acquire(userOf(0), Amounts{"rpm": 1})
				s.db.SetFaults(silent)
				timer := time.AfterFunc(time.Minute, func() { s.db.SetFaults(nil) })
				began := time.Now()
				_, err := s.limiter.Acquire(context.Background(), userOf(0), model, Amounts{"rpm": 1})
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(began), 1200*time.Millisecond)
				timer.Stop()
				s.recovers()
			})
		})
	}
}

// What is given back in part while the store is away leaves the rest with the
// bucket that it was taken from.
func TestPartGivenBackDuringAnOutageLeavesTheRest(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 40})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), userOf(0), model, Amounts{"rpm": 1}, WithOnUnavailable(Block))
		require.ErrorIs(t, err, ErrUnavailable)
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"rpm": -10}))
		s.recovers()
		assert.Equal(t, int64(30), s.consumed(1, "rpm"))
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Zero(t, s.consumed(1, "rpm"))
	})
}

// A lease that is corrected after Close, while nothing answers, is told so.
func TestCorrectionAfterCloseDuringAnOutageEnds(t *testing.T) {
	for name, silent := range silences {
		t.Run(name, func(t *testing.T) {
			virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
				lease := s.acquire(userOf(0), Amounts{"rpm": 1})
				require.NoError(t, s.limiter.Close(t.Context()))
				var requests atomic.Int32
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					if requests.Add(1) > 200 {
						return ddbmem.Fault{}
					}
					return silent(r)
				})
				require.ErrorIs(t, lease.Adjust(t.Context(), Amounts{"rpm": 5}), ErrUnconfirmed)
				assert.Less(t, requests.Load(), int32(20))
				s.db.SetFaults(nil)
			})
		})
	}
}
