package dynalimit

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// Close charges what is owed, although nobody uses the bucket any more.
func TestCloseChargesWhatIsOwed(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), Amounts{"rpm": 1})
		s.down(throttled1)
		s.acquire(userOf(0), Amounts{"rpm": 10})
		s.db.SetFaults(nil)
		require.NoError(t, s.limiter.Close(t.Context()))
		assert.Equal(t, int64(11), s.consumed(1, "rpm"))
	})
}

// After Close nothing is kept: what cannot be written is an error.
func TestNothingIsKeptAfterClose(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}, OnUnavailable: Allow}, func(t *testing.T, s *process) {
		lease := s.acquire(userOf(0), Amounts{"rpm": 10})
		s.down(ddbmem.Fault{Drop: true})
		owed := s.acquire(userOf(0), Amounts{"rpm": 10})
		require.NoError(t, owed.Settle(t.Context(), nil))
		require.NoError(t, s.limiter.Close(t.Context()))
		err := lease.Settle(t.Context(), Amounts{"rpm": 20})
		require.ErrorIs(t, err, ErrUnconfirmed)
		s.db.SetFaults(nil)
	})
}

// After Close a correction that cannot even be sent ends: nothing probes any more.
func TestCorrectionAfterCloseThatCannotBeSentEnds(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
		f := &fault{unsent: true, match: only("UpdateItem")}
		cut := s.faulty(&Options{Limits: []Limit{PerDay("rpm", 100)}}, f)
		lease := cut.acquire(userOf(0), Amounts{"rpm": 10})
		require.NoError(t, cut.limiter.Close(t.Context()))
		f.times(-1)
		err := lease.Settle(t.Context(), Amounts{"rpm": 20})
		var unconfirmed *UnconfirmedError
		require.ErrorAs(t, err, &unconfirmed)
		assert.True(t, unconfirmed.NotWritten)
		assert.LessOrEqual(t, f.count(), lane.MaxTries)
		f.times(0)
		require.NoError(t, lease.Settle(t.Context(), Amounts{"rpm": 20}))
		assert.Equal(t, int64(20), s.consumed(1, "rpm"))
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
