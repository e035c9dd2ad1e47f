package dynalimit

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// requests are the bodies of an operation's requests in the log, in their order.
func (s *process) requests(operation string) (bodies []map[string]any) {
	for _, entry := range s.db.Log() {
		if entry.Operation == operation {
			var body map[string]any
			require.NoError(s.t, json.Unmarshal(entry.Body, &body))
			bodies = append(bodies, body)
		}
	}
	return bodies
}

func TestTransactionConflictIsNoDenial(t *testing.T) {
	for _, reasons := range [][]string{{"TransactionConflict", "None"}, {"None", "TransactionConflict"}, {"ThrottlingError", "TransactionConflict"}, {"ThrottlingError", "None"}} {
		virtual(t, together(), func(t *testing.T, s *process) {
			s.family("key", "project")
			for round := range 2 { // creates, then spends
				s.db.ResetLog()
				s.db.SetFaults(firstOf("TransactWriteItems", 3, ddbmem.Fault{Error: cancelled(reasons...)}))
				used := s.used(func() { s.acquire("key", Amounts{"tpm": 500}) })
				assert.Equal(t, int64(4), used.Operations["TransactWriteItems"].Requests)
				assert.Equal(t, int64(10_000-500*(round+1)), s.level("key", "tpm"))
				assert.Equal(t, int64(10_000-500*(round+1)), s.level("project", "tpm"))
			}
		})
	}
}

// Every request was answered, so that nothing fails open.
func TestTransactionConflictForGoodIsContention(t *testing.T) {
	virtual(t, together(), func(t *testing.T, s *process) {
		s.family("key", "project")
		s.db.SetFaults(firstOf("TransactWriteItems", -1, ddbmem.Fault{Error: cancelled("TransactionConflict", "None")}))
		_, err := s.limiter.Acquire(t.Context(), "key", model, Amounts{"tpm": 500})
		require.ErrorIs(t, err, ErrContended)
		assert.NotErrorIs(t, err, ErrUnavailable)
		assert.NotErrorIs(t, err, ErrLimitExceeded)
		wait, ok := RetryAfter(err)
		assert.True(t, ok)
		assert.Positive(t, wait)
		s.db.SetFaults(nil)
		assert.Nil(t, s.item("key"))
	})
}

// An unanswered transaction is sent again byte for byte with its token.
func TestLostTransactionCountsOnce(t *testing.T) {
	virtual(t, together(), func(t *testing.T, s *process) {
		s.family("key", "project")
		for round := range 2 {
			s.db.ResetLog()
			s.db.SetFaults(firstOf("TransactWriteItems", 2, ddbmem.Fault{Lose: true}))
			s.acquire("key", Amounts{"tpm": 500})
			sent := s.requests("TransactWriteItems")
			require.Len(t, sent, 3)
			assert.NotEmpty(t, sent[0]["ClientRequestToken"])
			assert.Equal(t, sent[0], sent[1])
			assert.Equal(t, sent[0], sent[2])
			assert.Equal(t, int64(10_000-500*(round+1)), s.level("key", "tpm"), "once")
			assert.Equal(t, int64(10_000-500*(round+1)), s.level("project", "tpm"))
		}
	})
}

func TestRedecidedTransactionHasANewToken(t *testing.T) {
	virtual(t, together(), func(t *testing.T, s *process) {
		s.family("key", "project")
		p := s.peer(together())
		p.acquire("key", Amounts{"tpm": 500})
		s.acquire("key", Amounts{"tpm": 500})
		s.clock.advance(2 * time.Hour)
		p.acquire("key", Amounts{"tpm": 1000}) // claims: another refill instant
		s.db.ResetLog()
		s.acquire("key", Amounts{"tpm": 500})
		tokens := map[any]bool{}
		for _, request := range s.requests("TransactWriteItems") {
			tokens[request["ClientRequestToken"]] = true
		}
		assert.Len(t, tokens, len(s.requests("TransactWriteItems")))
		assert.Equal(t, int64(8500), s.level("key", "tpm"))
		assert.Equal(t, int64(8500), s.level("project", "tpm"))
	})
}

// A condition that fails at one level is decided again from its image, and the
// other level is not charged meanwhile.
func TestRefusedTransactionDecidesAgain(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, together())
		s.family("key", "project")
		p := s.peer(together())
		s.acquire("key", Amounts{"tpm": 500})
		p.acquire("project", Amounts{"tpm": 9000})
		exceeded := s.deny("key", Amounts{"tpm": 501})
		assert.Equal(t, "project", exceeded.Primary().EntityID)
		assert.Equal(t, int64(500), exceeded.Primary().Remaining)
		assert.Equal(t, int64(9500), s.level("key", "tpm"))
		s.acquire("key", Amounts{"tpm": 500})
	})
}

// Throttled after an unanswered try, a transaction is not sent for ever.
func TestUnansweredThenThrottledTransactionEnds(t *testing.T) {
	virtual(t, together(), func(t *testing.T, s *process) {
		s.family("key", "project")
		var tries atomic.Int32
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation != "TransactWriteItems" {
				return ddbmem.Fault{}
			}
			n := tries.Add(1)
			if n == 1 {
				return ddbmem.Fault{Drop: true}
			}
			if n > 1000 {
				return ddbmem.Fault{} // so that the test ends
			}
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		})
		_, err := s.limiter.Acquire(t.Context(), "key", model, Amounts{"tpm": 500})
		require.ErrorIs(t, err, ErrUnavailable)
		assert.LessOrEqual(t, tries.Load(), int32(lane.MaxTries))
		s.db.SetFaults(nil)
	})
}

func TestTransactionThatWasNeverAnsweredSaysSo(t *testing.T) {
	virtual(t, together(), func(t *testing.T, s *process) {
		s.family("key", "project")
		s.db.SetFaults(firstOf("TransactWriteItems", -1, ddbmem.Fault{Lose: true}))
		_, err := s.limiter.Acquire(t.Context(), "key", model, Amounts{"tpm": 500})
		require.ErrorIs(t, err, ErrUnavailable)
		assert.ErrorContains(t, err, "it may have been charged")
		assert.ErrorIs(t, err, ErrUnconfirmed)
		s.db.SetFaults(nil)
		assert.Equal(t, int64(9500), s.level("key", "tpm"), "what cannot be known stays consumed")
	})
}

// A newer configuration reaches a bucket also through a transaction, and when
// the acquire that brings it is denied.
func TestTransactionBringsConfiguration(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &Options{Cascade: CascadeTransaction})
		ctx := t.Context()
		require.NoError(t, s.repo.SetSystemLimits(ctx, []Limit{PerMinute("rpm", 100)}, nil))
		s.family("key", "project")
		s.acquire("key", Amounts{"rpm": 10})
		require.NoError(t, s.repo.SetSystemLimits(ctx, []Limit{PerMinute("rpm", 50), PerMinute("tpm", 7)}, nil))
		s.clock.advance(2 * time.Second)
		lease := s.acquire("key", Amounts{"rpm": 1, "tpm": 2})
		var remaining []int64
		for _, status := range lease.Statuses() {
			remaining = append(remaining, status.Remaining)
		}
		assert.Equal(t, []int64{49, 5, 49, 5}, remaining, "statuses show what it left")
		for _, id := range []string{"key", "project"} {
			assert.Equal(t, int64(49), s.level(id, "rpm"), "clamped to the new burst")
			assert.Equal(t, int64(5), s.level(id, "tpm"), "a new limit starts full")
		}
		require.NoError(t, s.repo.SetSystemLimits(ctx, []Limit{PerMinute("rpm", 5), PerMinute("tpm", 7)}, nil))
		s.clock.advance(2 * time.Second)
		assert.ErrorIs(t, s.deny("key", Amounts{"rpm": 6}), ErrExceedsBurst)
		assert.Equal(t, int64(5000), s.stored("key", "rpm").Burst)
		assert.Equal(t, int64(5000), s.stored("project", "rpm").Burst)
	})
}

func TestTransactionOfACancelledCaller(t *testing.T) {
	virtual(t, together(), func(t *testing.T, s *process) {
		s.family("key", "project")
		s.acquire("key", Amounts{"tpm": 500})
		ctx, cancel := context.WithCancel(t.Context())
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "TransactWriteItems" {
				cancel() // while it is under way
				return ddbmem.Fault{Error: cancelled("TransactionConflict", "None")}
			}
			return ddbmem.Fault{}
		})
		_, err := s.limiter.Acquire(ctx, "key", model, Amounts{"tpm": 500})
		require.ErrorIs(t, err, context.Canceled)
		s.db.SetFaults(nil)
		assert.Equal(t, int64(9500), s.level("key", "tpm"))
		assert.Equal(t, int64(9500), s.level("project", "tpm"))
	})
}

// Throttling is no failure of a transaction while there is time: it is decided anew
// until it lands, and else the error tells what throttled it.
func TestThrottledTransactionIsDecidedAnewWhileThereIsTime(t *testing.T) {
	opts := together()
	opts.Timeout = 10 * time.Second
	virtual(t, opts, func(t *testing.T, s *process) {
		s.family("key", "project")
		s.acquire("key", Amounts{"tpm": 1})
		throttled := ddbmem.Fault{Error: cancelled("ThrottlingError", "None")}
		began := time.Now()
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "TransactWriteItems" && time.Since(began) < 8*time.Second {
				return throttled
			}
			return ddbmem.Fault{}
		})
		lease := s.acquire("key", Amounts{"tpm": 500})
		assert.GreaterOrEqual(t, time.Since(began), 8*time.Second)
		assert.False(t, lease.Degraded())
		assert.EqualValues(t, 9_499, s.level("project", "tpm"))

		began = time.Now().Add(time.Hour)
		began, before := time.Now(), began
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "TransactWriteItems" && time.Now().Before(before) {
				return throttled
			}
			return ddbmem.Fault{}
		})
		_, err := s.limiter.Acquire(t.Context(), "key", model, Amounts{"tpm": 500})
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotErrorIs(t, err, ErrUnconfirmed)
		assert.ErrorContains(t, err, "hrottl")
		assert.InDelta(t, 10, time.Since(began).Seconds(), 0.05, "Options.Timeout")
		assert.False(t, s.limiter.Health().Open, "throttling opens nothing")
		assert.EqualValues(t, 9_499, s.level("project", "tpm"))

		lease = s.acquire("key", Amounts{"tpm": 500}, WithOnUnavailable(Allow)) // within the process's share
		assert.True(t, lease.Degraded())
		s.recovers()
		assert.False(t, lease.Degraded())
		for _, entity := range []string{"key", "project"} {
			assert.EqualValues(t, 1_001, s.stored(entity, "tpm").Consumed/milli, "what was owed is charged, at every level")
		}
	})
}
