package tests

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// contend makes another process claim the bucket of u before each write of l,
// until stop is called.
func contend(t *testing.T, l *rateLimiter, db *ddbmem.DB) (stop func()) {
	t.Helper()
	other, err := newLimiter(l.repo, &dynalimit.Options{Limits: l.own})
	require.NoError(t, err)
	var inside atomic.Bool
	burst := int64(1000)
	db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "UpdateItem" && inside.CompareAndSwap(false, true) {
			burst++
			_, _ = other.Acquire(context.WithoutCancel(t.Context()), "u", "m", dynalimit.Amounts{"x": 1}, dynalimit.WithLimits(dynalimit.PerMinute("x", burst)))
			inside.Store(false)
		}
		return ddbmem.Fault{}
	})
	return func() { db.SetFaults(nil) }
}

// Wait outlasts contention, unless its deadline comes first.
func TestWaitOutlastsContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 1})
		stop := contend(t, l, db)
		began := time.Now()
		go func() {
			<-time.After(3 * time.Second)
			stop()
		}()
		_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
		require.InDelta(t, 3, time.Since(began).Seconds(), 1)
	})
}

// A caller who leaves a cascade after its child was found silent is charged nothing there, when
// the write that was under way turns out to have landed.
func TestLeavingACascadeGivesBackWhatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := team(t, []dynalimit.Limit{dynalimit.PerDay("tpm", 60)}, []dynalimit.Limit{dynalimit.PerDay("tpm", 60)})
		drain(t, l, dynalimit.Amounts{"tpm": 1})
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			switch {
			case r.Operation != "UpdateItem":
				return ddbmem.Fault{}
			case bytes.Contains(r.Body, []byte(`"ENTITY#u"`)):
				return ddbmem.Fault{After: 400 * time.Millisecond}
			}
			return ddbmem.Fault{Before: 400 * time.Millisecond}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		time.AfterFunc(100*time.Millisecond, func() { l.lanes.Of("u", "m").Trip(lane.ErrTripped) })
		_, err := l.Acquire(ctx, "u", "m", dynalimit.Amounts{"tpm": 5})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		db.SetFaults(nil)
		elapse(30 * time.Second)
		report, err := l.Check(t.Context(), "u", "m", nil)
		require.NoError(t, err)
		for _, s := range report.Statuses {
			assert.EqualValues(t, 59, s.Remaining, s.EntityID)
		}
		assert.Empty(t, l.Health().Doubt)
	})
}

// A transaction does not outlive its caller's context for the caller; it goes on
// for itself, and what it charges is given back.
func TestTransactionEndsWithItsContext(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{
		"before it is applied": {Before: time.Hour},
		"after it is applied":  {After: time.Hour},
		"its answer is lost":   {Lose: true, After: 60 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, db := team(t, []dynalimit.Limit{dynalimit.PerDay("tpm", 60)}, []dynalimit.Limit{dynalimit.PerDay("tpm", 60)})
				drain(t, l, dynalimit.Amounts{"tpm": 1})
				db.SetFaults(firstOf("TransactWriteItems", 1, fault))
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				began := time.Now()
				lease, err := l.Acquire(ctx, "u", "m", dynalimit.Amounts{"tpm": 5}, dynalimit.WithCascade(dynalimit.CascadeTransaction), dynalimit.WithOnUnavailable(dynalimit.Allow))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Nil(t, lease)
				require.Equal(t, 50*time.Millisecond, time.Since(began))
				require.NoError(t, l.Close(t.Context()), "waits for it")
				db.SetFaults(nil)
				for _, entity := range []string{"u", "project"} {
					other, err := newLimiter(l.repo, nil)
					require.NoError(t, err)
					left, err := availableOf(other.Check(t.Context(), entity, "m", nil))
					require.NoError(t, err)
					assert.Equal(t, dynalimit.Amounts{"tpm": 59}, left, entity)
				}
			})
		})
	}
}

// An engine that refuses conditions without their items is named at once.
func TestRefusalWithoutItsItemNamesTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		repo := e.repository(t, &dynalimit.RepositoryOptions{Now: time.Now})
		l, err := newLimiter(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 20)}, OnUnavailable: dynalimit.Allow})
		require.NoError(t, err)
		_, err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
		e.db.SetFaults(on("UpdateItem", ddbmem.Fault{Error: &ddbmem.Error{Code: "ConditionalCheckFailedException"}}))
		_, err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
		require.ErrorContains(t, err, "ReturnValuesOnConditionCheckFailure")
		e.db.SetFaults(nil)
		require.NoError(t, l.Close(t.Context()))
	})
}

// A conflict with another transaction is retried. One that does not end is contention, under any
// policy: neither a denial nor an outage.
func TestConflictsAreRetried(t *testing.T) {
	for operation, errs := range map[string][]*ddbmem.Error{
		"UpdateItem": {{Code: "TransactionConflictException"}},
		"TransactWriteItems": {
			cancelled("TransactionConflict", "None"), cancelled("None", "TransactionConflict"), cancelled("ThrottlingError", "TransactionConflict"), cancelled("ThrottlingError", "None"),
		},
	} {
		for _, conflict := range errs {
			virtual(t, together(), func(t *testing.T, s *process) {
				entities := []string{"project"}
				if s.family("key", "project"); operation == "TransactWriteItems" {
					entities = []string{"key", "project"}
				}
				for round := range 2 { // creates, then spends
					s.db.SetFaults(firstOf(operation, 3, ddbmem.Fault{Error: conflict}))
					used := s.used(func() { s.acquire(entities[0], dynalimit.Amounts{"tpm": 500}) })
					assert.Equal(t, int64(4), used.Operations[operation].Requests)
					for _, id := range entities {
						assert.Equal(t, int64(10_000-500*(round+1)), s.level(id, "tpm"))
					}
				}
				if conflict != errs[0] {
					return
				}
				s.db.SetFaults(on(operation, ddbmem.Fault{Error: conflict}))
				_, err := s.limiter.Acquire(t.Context(), entities[0], model, dynalimit.Amounts{"tpm": 500}, dynalimit.WithOnUnavailable(dynalimit.Allow))
				require.ErrorIs(t, err, dynalimit.ErrContended)
				assert.NotErrorIs(t, err, dynalimit.ErrUnavailable)
				assert.NotErrorIs(t, err, dynalimit.ErrLimitExceeded)
				wait, ok := dynalimit.RetryAfter(err)
				assert.True(t, ok)
				assert.Positive(t, wait)
				s.db.SetFaults(nil)
				assert.Equal(t, int64(9_000), s.level(entities[0], "tpm"))
			})
		}
	}
}

// The counter is the exact sum of what was debited and given back, also when
// more was refilled than used.
func TestCounterIsExact(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		sum := int64(0)
		for i := range int64(30) {
			s.clock.advance(time.Duration(i*i) * 7 * time.Second)
			lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 10 + i})
			p.acquire("user-1", dynalimit.Amounts{"tpm": 1})
			sum += 11 + i
			switch i % 3 {
			case 0:
				require.NoError(t, lease.Rollback(t.Context()))
				sum -= 10 + i
			case 1:
				require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 100 - i}))
				sum += 100 - i
			}
		}
		assert.Equal(t, sum*milli, s.stored("user-1", "tpm").Consumed)
	})
}

// Callers of many processes for the last tokens: exactly as many as fit.
func TestRaceForTheLastTokens(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		opts := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 50), dynalimit.PerDay("tpm", 5000)}}
		first := newProcess(t, e, opts)
		processes := []*process{first, first.peer(opts), first.peer(opts), first.peer(opts)}
		var admitted, denied atomic.Int64
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				p := processes[i%len(processes)]
				_, err := p.limiter.Acquire(t.Context(), "shared", model, dynalimit.Amounts{"rpm": 1, "tpm": 100})
				switch {
				case err == nil:
					admitted.Add(1)
				case errors.Is(err, dynalimit.ErrLimitExceeded):
					denied.Add(1)
				default:
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, int64(50), admitted.Load())
		assert.Equal(t, int64(50), denied.Load())
		assert.Zero(t, first.level("shared", "tpm"))
	})
}
