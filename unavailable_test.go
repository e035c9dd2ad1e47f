package dynalimit

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

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
					assert.True(t, ok, "when it is asked again")
					answered := map[string]bool{"throttled": true, "request limit": true, "throttling": true}
					assert.Equal(t, !answered[name], s.repo.breaker.State().Open, "throttling is an answer")

					lease, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1}, WithOnUnavailable(Allow))
					if answered[name] {
						require.ErrorIs(t, err, ErrUnavailable, "no policy admits")
					} else {
						require.NoError(t, err)
						assert.True(t, lease.Degraded())
					}
					s.db.SetFaults(nil)
				})
			})
		}
	}
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
			require.NoError(t, second(s.repo.SetConfig(t.Context(), Scope{Everyone: true}, LimitConfig{Limits: []Limit{PerMinute("rpm", 10)}, OnUnavailable: test.system, Version: AnyVersion})))
			s.acquire("user-1", Amounts{"rpm": 1}) // knows the system's policy
			s.down(ddbmem.Fault{Drop: true})
			lease, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1}, WithOnUnavailable(test.call))
			s.db.SetFaults(nil)
			assert.Equal(t, test.allowed, err == nil, "%+v", test)
			assert.Equal(t, test.allowed, lease != nil && lease.Degraded(), "%+v", test)
		})
	}
}

func TestUnavailableParentTakesNothingFromTheChild(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		f := &brokenWire{refuse: "ThrottlingException", match: writesOf("project")}
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
			f := &brokenWire{refuse: "ThrottlingException", match: writesOf("project")}
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
		f := &brokenWire{drop: true}
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
