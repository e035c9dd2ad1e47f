package dynalimit

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// A charge of which nobody knows, and of which the store says no more than that it
// is refused now, counts as consumed and is never given back, landed or not.
func TestChargeInDoubtAfterARefusalIsNotGivenBack(t *testing.T) {
	for name, test := range map[string]struct {
		first ddbmem.Fault
		left  int64 // consumed after the rollback
	}{
		"landed":     {first: ddbmem.Fault{Lose: true}, left: 5},
		"not landed": {first: ddbmem.Fault{Drop: true}, left: 0},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &Options{Limits: []Limit{PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
				lease := s.acquire("u", Amounts{"rpm": 10})
				var tries atomic.Int32
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					switch {
					case r.Operation != "UpdateItem":
						return ddbmem.Fault{}
					case tries.Add(1) == 1:
						return test.first
					}
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "ValidationException"}}
				})
				var unconfirmed *UnconfirmedError
				require.ErrorAs(t, lease.Adjust(t.Context(), Amounts{"rpm": 5}), &unconfirmed)
				require.False(t, unconfirmed.NotWritten)
				s.db.SetFaults(nil)
				assert.Equal(t, Amounts{"rpm": 15}, lease.Consumed())
				require.NoError(t, lease.Rollback(t.Context()))
				assert.Equal(t, test.left, s.stored("u", "rpm").Consumed/milli)
				assert.Equal(t, Amounts{"rpm": 5}, s.limiter.Health().Doubt)
			})
		})
	}
}
