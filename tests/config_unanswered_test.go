package tests

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// unansweredReads are faults of reads that bring no configuration.
var unansweredReads = map[string]ddbmem.Fault{
	"throttled": {Error: &ddbmem.Error{Code: "ThrottlingException"}},
	"silent":    {Before: time.Hour},
	"500":       {Error: &ddbmem.Error{Code: "InternalServerError"}},
}

// readsFail has the reads of configuration fail, and all else answer in 2 ms.
func (s *process) readsFail(f ddbmem.Fault) {
	s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == "BatchGetItem" {
			return f
		}
		return ddbmem.Fault{Before: 2 * time.Millisecond}
	})
}

// live runs a test with a process on a new table, whose clock is the bubble's.
func live(t *testing.T, opts *dynalimit.Options, test func(t *testing.T, s *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, liveProcess(t, memEngine(t), opts)) })
}

// tally is what calls one after the other came to.
type tally struct {
	admitted, degraded, denied, unlevelled, slow int
	others                                       []error
}

// calls asks for an amount of rpm every interval, for d.
func (s *process) calls(entity string, amount int64, interval, d time.Duration) (n tally) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); elapse(interval) {
		began := time.Now()
		lease, err := s.limiter.Acquire(s.t.Context(), entity, model, dynalimit.Amounts{"rpm": amount})
		if time.Since(began) > 500*time.Millisecond {
			n.slow++
		}
		if err == nil && len(lease.Statuses()) == 0 {
			n.unlevelled++
		}
		switch {
		case err == nil && lease.Degraded():
			n.degraded++
		case err == nil:
			n.admitted++
		case errors.Is(err, dynalimit.ErrLimitExceeded):
			n.denied++
		default:
			n.others = append(n.others, err)
		}
	}
	return n
}

// While the reads of the configuration alone bring no answer, what was read before it
// serves past its TTL, and the buckets decide as usual, under every policy.
func TestConfigServesWhileItsReadsBringNoAnswer(t *testing.T) {
	for name, fault := range unansweredReads {
		for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Block, dynalimit.Allow, dynalimit.Local} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				live(t, &dynalimit.Options{OnUnavailable: policy}, func(t *testing.T, s *process) {
					require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{{Name: "rpm", Capacity: 100, RefillPeriod: 8000 * time.Hour}}))
					s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
					elapse(time.Minute + time.Second)
					before := s.db.Meter()
					s.readsFail(fault)
					n := s.calls("user-1", 10, 100*time.Millisecond, 5*time.Minute)
					assert.LessOrEqual(t, n.admitted, 9, "of 99 tokens, by tens")
					assert.GreaterOrEqual(t, n.admitted+n.degraded, 9)
					assert.Zero(t, n.unlevelled)
					assert.LessOrEqual(t, n.slow, 1, "nobody waits for a read after one that brought no answer")
					assert.LessOrEqual(t, len(n.others)+n.degraded, 10, "those that find the table open until its first probe: %v", n.others)
					assert.Less(t, s.db.Meter().Sub(before).Requests(), int64(500), "reads are tried again, but ever less often")
					h := s.limiter.Health()
					assert.False(t, h.Open)
					assert.Empty(t, h.Doubt)
					s.db.SetFaults(nil)
					require.NoError(t, s.peer(nil).repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 7)}))
					elapse(time.Minute)
					s.calls("user-1", 1, time.Second, 3*time.Second)
					assert.Equal(t, int64(7), s.stored("user-1", "rpm").Burst/milli, "it is read again once the reads are answered")
				})
			})
		}
	}
}

// It serves no longer than MaxStale, and not at all once the store said what is there.
func TestConfigServesUntilMaxStale(t *testing.T) {
	live(t, &dynalimit.Options{OnUnavailable: dynalimit.Block}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.readsFail(unansweredReads["throttled"])
		elapse(time.Hour)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		elapse(time.Minute)
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
	})
}

// A caller with a short deadline leaves a read that takes too long, and has time left
// for the bucket.
func TestConfigReadLeavesTimeForTheBucket(t *testing.T) {
	live(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		elapse(10 * time.Minute)
		s.readsFail(unansweredReads["silent"])
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		lease, err := s.limiter.Acquire(ctx, "user-1", model, dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
		assert.False(t, lease.Degraded())
		assert.Equal(t, int64(99), lease.Statuses()[0].Remaining, "the bucket decided")
		elapse(time.Second) // the read ends
	})
}

// A bucket whose configuration is newer than what this process can read is decided by its
// own parameters, and does not keep the process from reading.
func TestNewerBucketWhileTheConfigurationCannotBeRead(t *testing.T) {
	live(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		peer := s.peer(nil)
		require.NoError(t, peer.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 50)}))
		peer.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.readsFail(unansweredReads["throttled"])
		n := s.calls("user-1", 10, 100*time.Millisecond, time.Minute)
		assert.Equal(t, 4, n.admitted, "of 49 tokens, by tens")
		assert.Zero(t, n.unlevelled)
		assert.Empty(t, n.others)
		s.db.SetFaults(nil)
		require.NoError(t, peer.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 7)}))
		elapse(time.Minute / 4)
		s.calls("user-1", 1, time.Second, 3*time.Second)
		assert.Equal(t, int64(7), s.stored("user-1", "rpm").Burst/milli)
	})
}

// A sick partition of a parent, its bucket and its configuration, does not let calls past
// the healthy bucket of a child, nor slow them down.
func TestSickPartitionOfAParent(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Block, dynalimit.Allow, dynalimit.Local} {
		t.Run(string(policy), func(t *testing.T) {
			live(t, &dynalimit.Options{OnUnavailable: policy}, func(t *testing.T, s *process) {
				s.family("key", "org")
				require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100_000)}))
				require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "key"}, []dynalimit.Limit{{Name: "rpm", Capacity: 10, RefillPeriod: 1000 * time.Hour}}))
				s.acquire("key", dynalimit.Amounts{"rpm": 1})
				s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
					if bytes.Contains(q.Body, []byte(`"ENTITY#org"`)) {
						return ddbmem.Fault{Before: time.Hour}
					}
					return ddbmem.Fault{Before: 2 * time.Millisecond}
				})
				n := s.calls("key", 1, 200*time.Millisecond, 5*time.Minute)
				assert.LessOrEqual(t, n.admitted+n.degraded, 9, "of 9 tokens")
				assert.Zero(t, n.unlevelled)
				assert.LessOrEqual(t, n.slow, 2, "one finds the bucket silent, one its configuration")
				if policy == dynalimit.Block {
					assert.Zero(t, n.admitted+n.degraded)
				} else {
					assert.Empty(t, n.others)
				}
				s.recovers()
			})
		})
	}
}
