package dynalimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// A take whose first try got no answer may have been charged besides, where another client's
// write hides whether it was: Health tells it, whatever has become of its caller.
func TestTakeThatMayBeChargedTwiceIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		resent         time.Duration // how long its second try takes
		charged, doubt int64
	}{
		"its caller is answered":                  {0, 10, 5},
		"its caller left during the second try":   {10 * time.Millisecond, 5, 5},
		"its caller left before, so it is looked": {-time.Millisecond, 5, 5}, // or as above, if the second try was quicker than the caller
	} {
		t.Run(name, func(t *testing.T) {
			live(t, nil, func(t *testing.T, s *process) {
				require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
				s.inSlot(0).acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				peer := s.peer(nil).inSlot(0)
				peer.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if test.resent < 0 {
					time.AfterFunc(15*time.Millisecond, cancel)
				}
				var updates atomic.Int64
				s.db.SetFaults(func(q *ddbmem.Request) (f ddbmem.Fault) {
					if q.Operation != "UpdateItem" {
						return f
					}
					switch updates.Add(1) {
					case 1:
						f.After = 40 * time.Millisecond
					case 2: // the peer's
					default:
						f.Before = test.resent.Abs()
					}
					return f
				})
				go func() {
					elapse(10 * time.Millisecond)
					peer.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				}()
				lease, err := s.limiter.Acquire(ctx, userOf(0), model, dynalimit.Amounts{"rpm": 5})
				assert.Equal(t, test.resent != 0, lease == nil, "%v", err)
				elapse(time.Second)
				assert.Equal(t, 3+test.charged, s.consumed(1, "rpm"))
				assert.Equal(t, dynalimit.Amounts{"rpm": test.doubt}, s.limiter.Health().Doubt)
			})
		})
	}
}

// A caller whose context ends while its write is in flight gets its error at
// once; what was granted is given back.
func TestContextThatEndsInFlightLeavesNothingTaken(t *testing.T) {
	for _, when := range []ddbmem.Fault{{Before: time.Second}, {After: time.Second}} {
		for _, entity := range []string{"user-1", "key"} {
			virtual(t, perMinute(), func(t *testing.T, s *process) {
				s.family("key", "project")
				for _, cold := range []bool{true, false} {
					if !cold {
						s.acquire(entity, dynalimit.Amounts{"tpm": 100})
					}
					s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
						if r.Operation == "UpdateItem" {
							return when
						}
						return ddbmem.Fault{}
					})
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					began := time.Now()
					_, err := s.limiter.Acquire(ctx, entity, model, dynalimit.Amounts{"tpm": 500})
					require.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Equal(t, 100*time.Millisecond, time.Since(began), "at once")
					s.db.SetFaults(nil)
					elapse(time.Minute)
					synctest.Wait()
					want := int64(10_000)
					if !cold {
						want -= 100
					}
					for _, id := range []string{entity, "project"} {
						if s.item(id) != nil { // a bucket that was never made is full
							assert.Equal(t, want, s.level(id, "tpm"), id)
						}
					}
				}
			})
		}
	}
}

// A configuration that is read for longer than the time for the store is left to the policy
// if nothing was answered, and the read goes on for the next caller.
func TestConfigurationIsGivenTheTimeForTheStore(t *testing.T) {
	throttled := ddbmem.Fault{Before: 800 * time.Millisecond, Error: &ddbmem.Error{Code: "ThrottlingException"}}
	for _, test := range []struct {
		policy   dynalimit.UnavailablePolicy
		fault    ddbmem.Fault
		admitted bool
	}{{dynalimit.Refuse, throttled, false}, {dynalimit.Allow, throttled, false}, {dynalimit.Refuse, ddbmem.Fault{Before: time.Hour}, false}, {dynalimit.Allow, ddbmem.Fault{Before: time.Hour}, true}} {
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
