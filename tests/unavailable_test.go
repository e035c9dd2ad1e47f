package tests

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestStoreFailureIsUnavailableNeverADenial(t *testing.T) {
	for name, outage := range outages {
		for _, warm := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				virtual(t, perMinute(), func(t *testing.T, s *process) {
					if warm {
						s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
					}
					s.down(outage)
					_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
					var unavailable *dynalimit.UnavailableError
					require.ErrorAs(t, err, &unavailable)
					require.ErrorIs(t, err, dynalimit.ErrUnavailable)
					assert.NotErrorIs(t, err, dynalimit.ErrLimitExceeded)
					assert.NotEmpty(t, unavailable.Op)
					require.Error(t, errors.Unwrap(unavailable), "the cause")
					_, ok := dynalimit.RetryAfter(err)
					assert.True(t, ok, "when it is asked again")
					answered := map[string]bool{"throttled": true, "request limit": true, "throttling": true}
					assert.Equal(t, !answered[name], s.limiter.Health().Open, "throttling is an answer")

					lease, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Allow))
					if answered[name] {
						require.ErrorIs(t, err, dynalimit.ErrUnavailable, "no policy admits")
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
					s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
				}
				s.down(ddbmem.Fault{Error: &ddbmem.Error{Code: code}})
				_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Allow))
				require.Error(t, err, code)
				assert.NotErrorIs(t, err, dynalimit.ErrUnavailable, code)
				assert.NotErrorIs(t, err, dynalimit.ErrLimitExceeded, code)
				s.db.SetFaults(nil)
			})
		}
	}
}

func TestPolicyOfCallThenSystemThenOptions(t *testing.T) {
	for _, test := range []struct {
		call, system, options dynalimit.UnavailablePolicy
		allowed               bool
	}{
		{"", "", "", false},
		{"", "", dynalimit.Allow, true},
		{"", dynalimit.Allow, "", true},
		{"", dynalimit.Block, dynalimit.Allow, false},
		{dynalimit.Block, dynalimit.Allow, dynalimit.Allow, false},
		{dynalimit.Allow, dynalimit.Block, dynalimit.Block, true},
		{dynalimit.Allow, "", "", true},
	} {
		virtual(t, &dynalimit.Options{OnUnavailable: test.options}, func(t *testing.T, s *process) {
			require.NoError(t, second(s.repo.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}, OnUnavailable: test.system, Version: admin.AnyVersion})))
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) // knows the system's policy
			s.down(ddbmem.Fault{Drop: true})
			lease, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(test.call))
			s.db.SetFaults(nil)
			assert.Equal(t, test.allowed, err == nil, "%+v", test)
			assert.Equal(t, test.allowed, lease != nil && lease.Degraded(), "%+v", test)
		})
	}
}

func TestDenialWinsOverUnavailability(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Block, dynalimit.Allow} {
		testEngines(t, func(t *testing.T, e *engine) {
			f := &brokenWire{refuse: "ThrottlingException", match: writesOf("project")}
			s := newProcess(t, e, perMinute())
			s.family("key", "project", "org")
			s = s.faulty(perMinute(), f)
			s.acquire("org", dynalimit.Amounts{"tpm": 9900})
			s.acquire("key", dynalimit.Amounts{"rpm": 1})
			f.times(-1)
			exceeded := s.deny("key", dynalimit.Amounts{"tpm": 500}, dynalimit.WithOnUnavailable(policy))
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
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.peer(perMinute()).acquire("project", dynalimit.Amounts{"tpm": 9900})
		f.times(-1)
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"tpm": 500})
		f.times(0)
		_ = s.denied(err)
		unconfirmed := requireUnconfirmed(t, err, dynalimit.Amounts{"tpm": -500})
		assert.Equal(t, "key", unconfirmed.EntityID)
		assert.Equal(t, int64(9500), s.level("key", "tpm"))
	})
}

func TestLimitWritesAreNotRetriedBlindly(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.db.ResetLog()
		s.db.SetFaults(firstOf("UpdateItem", 1, ddbmem.Fault{Lose: true}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		sent := s.requests("UpdateItem")
		require.Len(t, sent, 2)
		assert.NotEqual(t, sent[0]["ConditionExpression"], sent[1]["ConditionExpression"], "the second try asks whether the first landed")
		assert.Contains(t, sent[1]["ConditionExpression"], "NOT begins_with(")
		assert.Equal(t, int64(98), s.level("user-1", "rpm"))
	})
}
