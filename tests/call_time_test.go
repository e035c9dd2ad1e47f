package tests

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// A configuration that is read for longer than the time for the store is left to the policy
// if nothing was answered, and the read goes on for the next caller.
func TestConfigurationIsGivenTheTimeForTheStore(t *testing.T) {
	throttled := ddbmem.Fault{Before: 800 * time.Millisecond, Error: &ddbmem.Error{Code: "ThrottlingException"}}
	for _, test := range []struct {
		policy   dynalimit.UnavailablePolicy
		fault    ddbmem.Fault
		admitted bool
	}{{dynalimit.Block, throttled, false}, {dynalimit.Allow, throttled, false}, {dynalimit.Block, ddbmem.Fault{Before: time.Hour}, false}, {dynalimit.Allow, ddbmem.Fault{Before: time.Hour}, true}} {
		t.Run(string(test.policy), func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 10)}, Timeout: time.Second, OnUnavailable: test.policy}, func(t *testing.T, s *process) {
				s.db.SetFaults(func(q *ddbmem.Request) (f ddbmem.Fault) {
					if q.Operation == "BatchGetItem" || test.admitted { // no probe is answered beside it
						f = test.fault
					}
					return f
				})
				began := time.Now()
				_, err := s.limiter.Acquire(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
				assert.Equal(t, time.Second, time.Since(began))
				_, checkErr := s.limiter.Check(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
				require.ErrorIs(t, checkErr, dynalimit.ErrUnavailable)
				if test.admitted {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, dynalimit.ErrUnavailable)
				}
				s.db.SetFaults(nil)
				elapse(time.Minute)
			})
		})
	}
}

// Who joins a read that was throttled before, and leaves it before it is sent again, met no
// silence.
func TestJoinedReadThatWasThrottledIsNoOutage(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Allow, dynalimit.Local} {
		virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 10)}, OnUnavailable: policy}, func(t *testing.T, s *process) {
			var sent atomic.Int64
			s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if q.Operation != "BatchGetItem" || sent.Add(1) > 1 {
					return ddbmem.Fault{Before: time.Hour}
				}
				return ddbmem.Fault{Before: 5 * time.Millisecond, Error: &ddbmem.Error{Code: "ThrottlingException"}}
			})
			var callers sync.WaitGroup
			for range 2 {
				callers.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					defer cancel()
					_, err := s.limiter.Acquire(ctx, "u", model, dynalimit.Amounts{"rpm": 1})
					assert.ErrorIs(t, err, dynalimit.ErrUnavailable)
					assert.NoError(t, ctx.Err())
					_, ok := dynalimit.RetryAfter(err)
					assert.True(t, ok)
				})
				elapse(10 * time.Millisecond)
			}
			callers.Wait()
			s.db.SetFaults(nil)
			elapse(time.Minute)
		})
	}
}

// A deadline of the caller's own that is long enough lets the policy decide about the
// configuration before it, and lets the levels of a transaction be asked one by one.
func TestPolicyDecidesBeforeTheCallersDeadline(t *testing.T) {
	opts := together()
	opts.OnUnavailable = dynalimit.Allow
	for _, operation := range []string{"BatchGetItem", "TransactWriteItems"} {
		t.Run(operation, func(t *testing.T) {
			virtual(t, opts, func(t *testing.T, s *process) {
				s.family("key", "project")
				s.db.SetFaults(on(operation, ddbmem.Fault{Before: time.Hour}))
				if operation == "TransactWriteItems" {
					defer s.readsOthers()() // the table answers
				}
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				lease, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"tpm": 500})
				require.NoError(t, err)
				assert.Equal(t, operation == "BatchGetItem", lease.Degraded())
				require.NoError(t, ctx.Err())
				s.db.SetFaults(nil)
				elapse(time.Minute)
				require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 300}))
				elapse(time.Minute)
				assert.Equal(t, int64(300), s.stored("key", "tpm").Consumed/milli)
				doubt := s.limiter.Health().Doubt
				if operation == "TransactWriteItems" { // refused when it was asked for, it may land yet
					assert.Equal(t, dynalimit.Amounts{"tpm": 1000}, doubt, "at two levels")
				} else {
					assert.Empty(t, doubt)
				}
			})
		})
	}
}
