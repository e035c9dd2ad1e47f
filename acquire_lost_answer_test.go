package dynalimit_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
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
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

func TestLostAnswerOfATakeCountsOnce(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		f := &brokenWire{lose: true, match: only("UpdateItem")}
		s := newProcess(t, e, perMinute()).faulty(perMinute(), f)
		for i, left := range []int64{9500, 9000, 8500} { // a create, then spends
			f.times(1)
			lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
			require.Equal(t, 1, f.count())
			assert.Equal(t, left, s.level("user-1", "tpm"), "take %d", i)
			assert.Equal(t, left, lease.Statuses()[0].Remaining)
		}
	})
}

func TestLostAnswerOfAGiveBackCountsOnce(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		f := &brokenWire{lose: true, match: only("UpdateItem")}
		s := newProcess(t, e, perMinute()).faulty(perMinute(), f)
		kept, lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 5000}), s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		f.times(2)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, 2, f.count())
		assert.Equal(t, int64(5000), s.level("user-1", "tpm"), "never minted")
		f.times(1)
		require.NoError(t, kept.Adjust(t.Context(), dynalimit.Amounts{"tpm": -1000}))
		assert.Equal(t, int64(6000), s.level("user-1", "tpm"))
	})
}

// A write whose first try lands after the resend counts at most twice, and
// never gives anything back twice.
func TestLateAnswers(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 1000})
		for _, do := range []struct {
			name        string
			least, most int64
			call        func(ctx context.Context) error
		}{
			{"a take", -1000, -500, func(ctx context.Context) error {
				_, err := s.limiter.Acquire(ctx, "user-1", model, dynalimit.Amounts{"tpm": 500})
				return err
			}},
			{"a give-back", 0, 100, func(ctx context.Context) error { return lease.Adjust(ctx, dynalimit.Amounts{"tpm": -100}) }},
			{"a charge", -200, -100, func(ctx context.Context) error { return lease.Adjust(ctx, dynalimit.Amounts{"tpm": 100}) }},
		} {
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) // this client wrote last
			before := s.level("user-1", "tpm")
			late := make(chan struct{})
			s.db.SetFaults(firstOf("UpdateItem", 1, ddbmem.Fault{Late: late}))
			require.NoError(t, do.call(t.Context()), do.name)
			s.db.SetFaults(nil)
			close(late)
			s.db.Wait()
			change := s.level("user-1", "tpm") - before
			assert.GreaterOrEqual(t, change, do.least, do.name)
			assert.LessOrEqual(t, change, do.most, do.name)
		}
	})
}

// An acquire whose take may have landed says so: nobody can give it back.
func TestUnansweredAcquireIsUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 1})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Lose: true} })
		lease, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 5})
		require.Nil(t, lease)
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		var unconfirmed *dynalimit.UnconfirmedError
		require.ErrorAs(t, err, &unconfirmed)
		require.Equal(t, dynalimit.Amounts{"rpm": 5}, unconfirmed.Amounts)
		require.ErrorContains(t, err, "rpm +5 of u on m may or may not have reached the bucket; do not repeat it: ")
		require.Equal(t, 1, strings.Count(err.Error(), "store unavailable"), "said once: %v", err)

		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		})
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 5})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.NotErrorIs(t, err, dynalimit.ErrUnconfirmed, "what was refused did not land")
	})
}

// A denial names the take that another level may have kept.
func TestDenialNamesAnUnansweredTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t)
		require.NoError(t, l.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 600)}))
		require.NoError(t, l.repo.SetLimits(t.Context(), admin.Scope{Entity: "project", Resource: "m"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 60)}))
		require.NoError(t, l.repo.CreateEntity(t.Context(), admin.Entity{ID: "u", ParentID: "project", Cascade: true}))
		drain(t, l, dynalimit.Amounts{"tpm": 60})
		elapse(2 * plan.MemoryMS * 1_000_000) // nothing is remembered well enough to deny
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Lose: bytes.Contains(r.Body, []byte(`"ENTITY#u"`)) && bytes.Contains(r.Body, []byte("BUCKET"))}
		})
		_, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 30})
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		var unconfirmed *dynalimit.UnconfirmedError
		require.ErrorAs(t, err, &unconfirmed)
		require.Equal(t, "u", unconfirmed.EntityID)
	})
}

// A charge of which nobody knows, and of which the store says no more than that it
// is refused now, counts as consumed and is never given back, landed or not.
func TestChargeInDoubtAfterARefusalIsNotGivenBack(t *testing.T) {
	for name, test := range map[string]struct {
		first ddbmem.Fault
		left  int64 // consumed after the rollback
	}{
		"landed":     {first: ddbmem.Fault{Lose: true}, left: 5},
		"not landed": {first: ddbmem.Fault{Drop: true}, left: 0},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
				lease := s.acquire("u", dynalimit.Amounts{"rpm": 10})
				var tries atomic.Int32
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					switch {
					case r.Operation != "UpdateItem":
						return ddbmem.Fault{}
					case tries.Add(1) == 1:
						return test.first
					}
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "ValidationException"}}
				})
				var unconfirmed *dynalimit.UnconfirmedError
				require.ErrorAs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 5}), &unconfirmed)
				require.False(t, unconfirmed.NotWritten)
				s.db.SetFaults(nil)
				assert.Equal(t, dynalimit.Amounts{"rpm": 15}, lease.Used())
				require.NoError(t, lease.Rollback(t.Context()))
				assert.Equal(t, test.left, s.stored("u", "rpm").Consumed/milli)
				assert.Equal(t, dynalimit.Amounts{"rpm": 5}, s.limiter.Health().Doubt)
			})
		})
	}
}

// A take whose first try lands late does not make the slot look like the client's last write
// again: a give-back that is resent does not land twice.
func TestLateTryIsNotTheLastWrite(t *testing.T) {
	pair(t, []dynalimit.Limit{dynalimit.PerHour("rpm", 100)}, func(t *testing.T, a, _ *process) {
		lease := a.acquire("key", dynalimit.Amounts{"rpm": 10})
		late := make(chan struct{})
		var n atomic.Int64
		a.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation != "UpdateItem" {
				return ddbmem.Fault{}
			}
			switch n.Add(1) {
			case 1: // the take
				return ddbmem.Fault{Late: late}
			case 3: // the give-back
				return ddbmem.Fault{Lose: true}
			case 4:
				return ddbmem.Fault{Before: time.Second}
			}
			return ddbmem.Fault{}
		})
		a.acquire("key", dynalimit.Amounts{"rpm": 1})
		done := make(chan error)
		go func() { done <- lease.Rollback(t.Context()) }()
		elapse(500 * time.Millisecond)
		close(late)
		a.db.Wait()
		require.ErrorIs(t, <-done, dynalimit.ErrUnconfirmed)
		require.Equal(t, int64(4), n.Load())
		assert.Equal(t, int64(2_000), a.image("key").Limits[0].Consumed, "the late take counts twice, the give-back once")
	})
}

// contend makes another process claim the bucket of u before each write of l,
// until stop is called.
func contend(t *testing.T, l *rateLimiter, db *ddbmem.DB) (stop func()) {
	t.Helper()
	other, err := openLimiter(l.repo, &dynalimit.Options{Limits: l.own})
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

// A caller who leaves a cascade while its parent is asked is charged nothing at the child, which had
// granted its take, or was found silent and turns out to have landed the write that was under way.
func TestLeavingACascadeGivesBackWhatWasUnderWay(t *testing.T) {
	for name, underWay := range map[string]bool{"granted": false, "under way": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, db := team(t, []dynalimit.Limit{dynalimit.PerDay("tpm", 60)}, []dynalimit.Limit{dynalimit.PerDay("tpm", 60)})
				drain(t, l, dynalimit.Amounts{"tpm": 1})
				db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					switch {
					case r.Operation != "UpdateItem":
						return ddbmem.Fault{}
					case !bytes.Contains(r.Body, []byte(`"ENTITY#u"`)):
						return ddbmem.Fault{Before: 400 * time.Millisecond}
					case underWay:
						return ddbmem.Fault{After: 400 * time.Millisecond}
					}
					return ddbmem.Fault{}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				if underWay {
					time.AfterFunc(100*time.Millisecond, func() { l.lanes.Of("u", "m").Trip(lane.ErrTripped) })
				}
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
		})
	}
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
				lease, err := l.Acquire(ctx, "u", "m", dynalimit.Amounts{"tpm": 5}, dynalimit.WithChargeMode(dynalimit.ChargeTransaction), dynalimit.WithOnUnavailable(dynalimit.Allow))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Nil(t, lease)
				require.Equal(t, 50*time.Millisecond, time.Since(began))
				require.NoError(t, l.Close(t.Context()), "waits for it")
				db.SetFaults(nil)
				for _, entity := range []string{"u", "project"} {
					other, err := openLimiter(l.repo, nil)
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
		l, err := openLimiter(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 20)}, OnUnavailable: dynalimit.Allow})
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

// A bucket that others always change first was answered for each time: that is no outage,
// and no policy admits.
func TestContentionDoesNotFailOpen(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local} {
		synctest.Test(t, func(t *testing.T) {
			l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
			drain(t, l, dynalimit.Amounts{"rpm": 1})
			stop := contend(t, l, db)
			lease, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(policy))
			stop()
			require.Nil(t, lease)
			require.ErrorIs(t, err, dynalimit.ErrContended)
			require.NotErrorIs(t, err, dynalimit.ErrUnavailable)
			require.NotErrorIs(t, err, dynalimit.ErrUnconfirmed)
			require.ErrorContains(t, err, "the bucket of u on m changed before every write")
			wait, ok := dynalimit.RetryAfter(err)
			require.True(t, ok)
			require.GreaterOrEqual(t, wait, 50*time.Millisecond)
			require.Less(t, wait, 250*time.Millisecond)
			require.False(t, l.Health().Open)
		})
	}
}
