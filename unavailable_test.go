package dynalimit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// throttled1 refuses a request for lack of capacity.
var throttled1 = ddbmem.Fault{Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}}

// down lets every request suffer f.
func (s *process) down(f ddbmem.Fault) { s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return f }) }

// outages are what counts as the store not answering.
var outages = map[string]ddbmem.Fault{
	"throttled":       throttled1,
	"request limit":   {Error: &ddbmem.Error{Code: "RequestLimitExceeded"}},
	"throttling":      {Error: &ddbmem.Error{Code: "ThrottlingException"}},
	"5xx":             {Error: &ddbmem.Error{Code: "InternalServerError"}},
	"503":             {Error: &ddbmem.Error{Code: "ServiceUnavailable"}},
	"connection lost": {Drop: true},
	"answer lost":     {Lose: true},
	"timeout":         {Before: time.Hour},
}

func TestStoreFailureIsUnavailableNeverADenial(t *testing.T) {
	for name, outage := range outages {
		for _, warm := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				virtual(t, perMinute(), func(t *testing.T, s *process) {
					if warm {
						s.acquire("user-1", Amounts{"rpm": 1})
					}
					s.down(outage)
					_, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1})
					var unavailable *UnavailableError
					require.ErrorAs(t, err, &unavailable)
					require.ErrorIs(t, err, ErrUnavailable)
					assert.NotErrorIs(t, err, ErrLimitExceeded)
					assert.NotEmpty(t, unavailable.Op)
					require.Error(t, errors.Unwrap(unavailable), "the cause")
					_, ok := RetryAfter(err)
					assert.Equal(t, s.repo.breaker.State().Open, ok, "when it is asked again")
					answered := map[string]bool{"throttled": true, "request limit": true, "throttling": true}
					assert.Equal(t, !answered[name], ok, "throttling is an answer")

					lease := s.acquire("user-1", Amounts{"rpm": 1}, WithOnUnavailable(Allow))
					assert.True(t, lease.Degraded())
					s.db.SetFaults(nil)
				})
			})
		}
	}
}

func TestCauseOfUnavailability(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.down(throttled1)
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1})
		var cause *types.ProvisionedThroughputExceededException
		assert.ErrorAs(t, err, &cause)
		s.db.SetFaults(nil)
	})
}

func TestBugsAndBadRequestsNeverFailOpen(t *testing.T) {
	for _, code := range []string{"ValidationException", "AccessDeniedException", "UnrecognizedClientException", "ResourceNotFoundException", "ExpiredTokenException"} {
		for _, warm := range []bool{false, true} {
			virtual(t, perMinute(), func(t *testing.T, s *process) {
				if warm {
					s.acquire("user-1", Amounts{"rpm": 1})
				}
				s.down(ddbmem.Fault{Error: &ddbmem.Error{Code: code}})
				_, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1}, WithOnUnavailable(Allow))
				require.Error(t, err, code)
				assert.NotErrorIs(t, err, ErrUnavailable, code)
				assert.NotErrorIs(t, err, ErrLimitExceeded, code)
				s.db.SetFaults(nil)
			})
		}
	}
}

func TestPolicyOfCallThenSystemThenOptions(t *testing.T) {
	for _, test := range []struct {
		call, system, options UnavailablePolicy
		allowed               bool
	}{
		{"", "", "", false},
		{"", "", Allow, true},
		{"", Allow, "", true},
		{"", Block, Allow, false},
		{Block, Allow, Allow, false},
		{Allow, Block, Block, true},
		{Allow, "", "", true},
	} {
		virtual(t, &Options{OnUnavailable: test.options}, func(t *testing.T, s *process) {
			require.NoError(t, s.repo.SetSystemLimits(t.Context(), []Limit{PerMinute("rpm", 10)}, &SystemOptions{OnUnavailable: test.system}))
			s.acquire("user-1", Amounts{"rpm": 1}) // knows the system's policy
			s.down(throttled1)
			lease, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1}, WithOnUnavailable(test.call))
			s.db.SetFaults(nil)
			assert.Equal(t, test.allowed, err == nil, "%+v", test)
			assert.Equal(t, test.allowed, lease != nil && lease.Degraded(), "%+v", test)
		})
	}
}

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
			f.times(0)
			assert.Equal(t, int64(9500), s.level("key", "tpm"))
			assert.Nil(t, s.item("project"))
			require.NoError(t, lease.Settle(t.Context(), Amounts{"tpm": 600}))
			require.NoError(t, s.limiter.Close(t.Context()), "charges what is owed")
			assert.False(t, lease.Degraded())
			assert.Equal(t, int64(9400), s.level("key", "tpm"))
			assert.Equal(t, int64(9400), s.level("project", "tpm"))
		})
	}
}

func TestUnavailableParentTakesNothingFromTheChild(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		f := &fault{refuse: "ThrottlingException", match: writesOf("project")}
		s := newProcess(t, e, perMinute())
		s.family("key", "project")
		s = s.faulty(perMinute(), f)
		s.acquire("key", Amounts{"tpm": 100})
		f.times(-1)
		_, err := s.limiter.Acquire(t.Context(), "key", model, Amounts{"tpm": 500})
		require.ErrorIs(t, err, ErrUnavailable)
		f.times(0)
		assert.Equal(t, int64(9900), s.level("key", "tpm"), "given back")
		assert.Equal(t, int64(9900), s.level("project", "tpm"))
	})
}

func TestDenialWinsOverUnavailability(t *testing.T) {
	for _, policy := range []UnavailablePolicy{Block, Allow} {
		testEngines(t, func(t *testing.T, e *engine) {
			f := &fault{refuse: "ThrottlingException", match: writesOf("project")}
			s := newProcess(t, e, perMinute())
			s.family("key", "project", "org")
			s = s.faulty(perMinute(), f)
			s.acquire("org", Amounts{"tpm": 9900})
			s.acquire("key", Amounts{"rpm": 1})
			f.times(-1)
			exceeded := s.deny("key", Amounts{"tpm": 500}, WithOnUnavailable(policy))
			assert.Equal(t, "org", exceeded.Primary().EntityID)
			f.times(0)
			assert.Equal(t, int64(10_000), s.level("key", "tpm"), "the grant of the child is given back")
			assert.Equal(t, int64(10_000), s.level("project", "tpm"))
		})
	}
}

// A give-back that cannot be confirmed stays consumed, and the denial says so.
func TestDenialNamesWhatItCouldNotGiveBack(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		f := &fault{refuse: "ThrottlingException"}
		writesKey := writesOf("key")
		takes := 0
		f.match = func(operation string, body []byte) bool {
			if !writesKey(operation, body) {
				return false
			}
			takes++
			return takes > 1 // the take lands, the give-back does not
		}
		s := newProcess(t, e, perMinute())
		s.family("key", "project")
		s = s.faulty(perMinute(), f)
		s.acquire("key", Amounts{"rpm": 1})
		s.peer(perMinute()).acquire("project", Amounts{"tpm": 9900})
		f.times(-1)
		_, err := s.limiter.Acquire(t.Context(), "key", model, Amounts{"tpm": 500})
		f.times(0)
		_ = s.denied(err)
		unconfirmed := requireUnconfirmed(t, err, Amounts{"tpm": -500})
		assert.Equal(t, "key", unconfirmed.EntityID)
		assert.Equal(t, int64(9500), s.level("key", "tpm"))
	})
}

func TestCachedConfigurationOutlivesAnOutageOfReads(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.acquire("user-1", Amounts{"rpm": 1})
		s.clock.advance(90 * time.Second) // past the TTL
		s.db.SetFaults(firstOf("BatchGetItem", -1, throttled1))
		lease := s.acquire("user-1", Amounts{"rpm": 1})
		assert.False(t, lease.Degraded(), "the bucket answered")
		s.db.SetFaults(nil)
	})
}

func TestLimitWritesAreNotRetriedBlindly(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.acquire("user-1", Amounts{"rpm": 1})
		s.db.ResetLog()
		s.db.SetFaults(firstOf("UpdateItem", 1, ddbmem.Fault{Lose: true}))
		s.acquire("user-1", Amounts{"rpm": 1})
		sent := s.requests("UpdateItem")
		require.Len(t, sent, 2)
		assert.NotEqual(t, sent[0]["ConditionExpression"], sent[1]["ConditionExpression"], "the second try asks whether the first landed")
		assert.Contains(t, sent[1]["ConditionExpression"], "NOT begins_with(")
		assert.Equal(t, int64(98), s.level("user-1", "rpm"))
	})
}

func TestConflictOfAPlainWriteIsRetried(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.acquire("user-1", Amounts{"rpm": 1})
		s.db.SetFaults(firstOf("UpdateItem", 3, ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionConflictException"}}))
		used := s.used(func() { s.acquire("user-1", Amounts{"rpm": 1}) })
		assert.Equal(t, int64(4), used.Operations["UpdateItem"].Requests)
		assert.Equal(t, int64(98), s.level("user-1", "rpm"))
	})
}

func TestEndedContextBeforeTheCall(t *testing.T) {
	s := memProcess(t, perMinute())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	used := s.used(func() {
		_, err := s.limiter.Acquire(ctx, "user-1", model, Amounts{"rpm": 1}, WithOnUnavailable(Allow))
		require.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, ErrUnavailable)
	})
	assert.Zero(t, used.Requests())
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
						s.acquire(entity, Amounts{"tpm": 100})
					}
					s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
						if r.Operation == "UpdateItem" || r.Operation == "PutItem" {
							return when
						}
						return ddbmem.Fault{}
					})
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					began := time.Now()
					_, err := s.limiter.Acquire(ctx, entity, model, Amounts{"tpm": 500})
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

// A caller whose context ends while the bucket is read for it is granted nothing,
// whatever the lane does next.
func TestContextThatEndsDuringAReadGrantsNothing(t *testing.T) {
	for _, entity := range []string{"user-1", "key"} {
		virtual(t, perMinute(), func(t *testing.T, s *process) {
			s.family("key", "project")
			s.acquire(entity, Amounts{"tpm": 9999})
			for range 20 {
				s.clock.advance(1100 * time.Millisecond) // too old to deny from
				s.db.SetFaults(firstOf("GetItem", -1, ddbmem.Fault{Before: time.Second}))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				lease, err := s.limiter.Acquire(ctx, entity, model, Amounts{"tpm": 9000})
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Nil(t, lease)
				elapse(time.Minute)
				s.db.SetFaults(nil)
				assert.Equal(t, int64(9_999_000), s.stored(entity, "tpm").Consumed)
			}
		})
	}
}

// A store that answers slowly, but answers, is no reason to look again for ever.
func TestDenialFromASlowStore(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.acquire("user-1", Amounts{"tpm": 10_000})
		s.clock.advance(2 * time.Second)
		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			s.clock.advance(1500 * time.Millisecond)
			return ddbmem.Fault{After: 900 * time.Millisecond}
		})
		used := s.used(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := s.limiter.Acquire(ctx, "user-1", model, Amounts{"tpm": 9000})
			_ = s.denied(err)
		})
		assert.Equal(t, int64(1), used.Requests())
		s.db.SetFaults(nil)
	})
}
