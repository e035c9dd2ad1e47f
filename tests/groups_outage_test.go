package tests

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// A policy decides about the bucket of a group alone, while that does not answer: the others
// are asked, and the group's counter is told afterwards.
func TestSickBucketOfAGroup(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Block, dynalimit.Allow, dynalimit.Local} {
		t.Run(string(policy), func(t *testing.T) {
			virtual(t, &dynalimit.Options{OnUnavailable: policy}, func(t *testing.T, s *process) {
				s.ofGroup(model)
				s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 20))
				s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerDay("rpm", 15))
				s.acquire("key", dynalimit.Amounts{"rpm": 1})
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					return ddbmem.Fault{Drop: bytes.Contains(r.Body, []byte("#BUCKET#"+group)) && r.Operation != "BatchGetItem"}
				})
				first, _ := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1})
				if first != nil {
					require.NoError(t, first.Rollback(t.Context()))
				}
				elapse(2 * time.Second) // the table is found to answer, and the bucket is not
				left, admitted := s.level("key", "rpm"), int64(0)
				var last *dynalimit.Lease
				for range 30 {
					if lease, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1}); err == nil {
						admitted++
						last = lease
					}
				}
				want := map[dynalimit.UnavailablePolicy]int64{dynalimit.Block: 0, dynalimit.Allow: 19, dynalimit.Local: 14}[policy]
				assert.Equal(t, want, admitted, "as many as the buckets allow that answer, and the process's share of the group's")
				assert.Equal(t, left-want, s.level("key", "rpm"))
				if last != nil {
					assert.True(t, last.Degraded())
					require.NoError(t, last.Rollback(t.Context()))
					admitted--
				}
				s.recovers()
				assert.Equal(t, 1+admitted, s.storedOn("key", group, "rpm").Consumed/milli)
				assert.Equal(t, 1+admitted, s.stored("key", "rpm").Consumed/milli)
				assert.EqualValues(t, 14, s.levelOn("key", group, "rpm"), "what a policy admitted is not charged")
			})
		})
	}
}

// Of each resource that a call charges, totals count its use once.
func TestResourcesOfACallCountApart(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "team")
		s.ofGroup(model)
		s.limits(admin.Scope{Entity: "team", Resource: group}, dynalimit.PerDay("rpm", 100), dynalimit.PerDay("usd", 100))
		s.limits(admin.Scope{Entity: "key", Resource: group}, dynalimit.PerDay("rpm", 100))
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 5})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"usd": 7}))
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1, "usd": 1}))
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 4}))
		for resource, passed := range map[string]int64{model: 4, group: 4} {
			assert.Equal(t, passed, s.storedOn("key", resource, "rpm").Passed/milli, resource)
			assert.Zero(t, s.storedOn("team", resource, "rpm").Passed, resource)
			assert.EqualValues(t, 4, s.storedOn("team", resource, "rpm").Consumed/milli, resource)
		}
		assert.EqualValues(t, 8, s.storedOn("team", group, "usd").Consumed/milli)
	})
}

// Who is unlimited is admitted while the table does not answer, whatever groups there are that
// nothing limits.
func TestUnlimitedInAGroupInAnOutage(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		s.ofGroup(model)
		s.limits(admin.Scope{Entity: "limited"}, dynalimit.PerDay("rpm", 10))
		require.NoError(t, s.repo.admin().Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "key"}))
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.acquire("limited", dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		for range 3 {
			_, err := s.limiter.Acquire(t.Context(), "limited", model, dynalimit.Amounts{"rpm": 1})
			require.ErrorIs(t, err, dynalimit.ErrUnavailable)
			s.acquire("key", dynalimit.Amounts{"rpm": 1})
		}
	})
}

// A lease keeps the limits that it knows of a group while its configuration cannot be read.
func TestConsumeKeepsGroupsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		operator := liveProcess(t, memEngine(t), nil)
		operator.ofGroup(model)
		operator.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000))
		operator.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerDay("rpm", 100))
		repo := operator.open(t, operator.repo.table, &dynalimit.RepositoryOptions{Now: time.Now, MaxStale: time.Second})
		s := operator.on(repo, &dynalimit.Options{OnUnavailable: dynalimit.Local})
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 60})
		elapse(5 * time.Minute)
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: r.Operation == "BatchGetItem"} })
		_ = s.denied(lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 60}))
		assert.EqualValues(t, 60, s.storedOn("key", group, "rpm").Consumed/milli)
	})
}
