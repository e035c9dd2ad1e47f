package dynalimit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// A transaction that is never answered well within the time for the store is left
// to the policy, and what becomes of it is booked once.
func TestTransactionIsGivenTheTimeForTheStore(t *testing.T) {
	slow := map[string]ddbmem.Fault{
		"throttled": {Before: 700 * time.Millisecond, Error: &ddbmem.Error{Code: "ThrottlingException"}},
		"conflicts": {Before: 700 * time.Millisecond, Error: &ddbmem.Error{
			Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}, {}},
		}},
		"landing late": {After: 900 * time.Millisecond, Lose: true},
	}
	for name, fault := range slow {
		for _, policy := range []UnavailablePolicy{Block, Allow} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				opts := together()
				opts.OnUnavailable = policy
				virtual(t, opts, func(t *testing.T, s *process) {
					s.family("key", "project")
					s.acquire("key", Amounts{"tpm": 100})
					s.db.SetFaults(on("TransactWriteItems", fault))
					began := time.Now()
					lease, err := s.limiter.Acquire(t.Context(), "key", model, Amounts{"tpm": 500})
					assert.LessOrEqual(t, time.Since(began), 2100*time.Millisecond)
					if policy == Allow {
						require.NoError(t, err)
						assert.True(t, lease.Degraded())
					} else {
						require.ErrorIs(t, err, ErrUnavailable)
					}
					s.db.SetFaults(nil)
					elapse(time.Minute)
					charged := s.stored("key", "tpm").Consumed / milli
					doubt := s.limiter.Health().Doubt["tpm"]
					if policy == Allow {
						assert.LessOrEqual(t, charged, int64(600))
						assert.GreaterOrEqual(t, charged+doubt/2, int64(600))
						assert.False(t, lease.Degraded() && doubt == 0)
					} else {
						assert.LessOrEqual(t, charged, 100+doubt/2)
					}
					assert.Equal(t, charged, s.stored("project", "tpm").Consumed/milli, "both levels alike")
				})
			})
		}
	}
}

// A configuration that is read for longer than the time for the store is left to
// the policy, and the read goes on for the next caller.
func TestConfigurationIsGivenTheTimeForTheStore(t *testing.T) {
	throttled := ddbmem.Fault{Before: 800 * time.Millisecond, Error: &ddbmem.Error{Code: "ThrottlingException"}}
	for _, policy := range []UnavailablePolicy{Block, Allow} {
		t.Run(string(policy), func(t *testing.T) {
			virtual(t, &Options{Limits: []Limit{PerDay("rpm", 10)}, Timeout: time.Second, OnUnavailable: policy}, func(t *testing.T, s *process) {
				s.db.SetFaults(on("BatchGetItem", throttled))
				began := time.Now()
				_, err := s.limiter.Acquire(t.Context(), "u", model, Amounts{"rpm": 1})
				assert.Equal(t, time.Second, time.Since(began))
				_, checkErr := s.limiter.Check(t.Context(), "u", model, Amounts{"rpm": 1})
				require.ErrorIs(t, checkErr, ErrUnavailable)
				if policy == Block {
					require.ErrorIs(t, err, ErrUnavailable)
				} else {
					require.NoError(t, err)
				}
				s.db.SetFaults(nil)
				elapse(time.Minute)
			})
		})
	}
}

// A deadline of the caller's own that is long enough lets the policy decide before
// it, for the configuration and for a transaction too.
func TestPolicyDecidesBeforeTheCallersDeadline(t *testing.T) {
	opts := together()
	opts.OnUnavailable = Allow
	for _, operation := range []string{"BatchGetItem", "TransactWriteItems"} {
		t.Run(operation, func(t *testing.T) {
			virtual(t, opts, func(t *testing.T, s *process) {
				s.family("key", "project")
				s.db.SetFaults(on(operation, ddbmem.Fault{Before: time.Hour}))
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				lease, err := s.limiter.Acquire(ctx, "key", model, Amounts{"tpm": 500})
				require.NoError(t, err)
				assert.True(t, lease.Degraded())
				require.NoError(t, ctx.Err())
				s.db.SetFaults(nil)
				elapse(time.Minute)
				require.NoError(t, lease.Settle(t.Context(), Amounts{"tpm": 300}))
				elapse(time.Minute)
				var charged int64 // no bucket, if what became of the transaction stayed in doubt
				if s.item("key") != nil {
					charged = s.stored("key", "tpm").Consumed / milli
				}
				doubt := s.limiter.Health().Doubt["tpm"]
				assert.LessOrEqual(t, charged, int64(300))
				assert.GreaterOrEqual(t, charged+doubt, int64(300))
			})
		})
	}
}
