package dynalimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/dynalimit/dynalimit/internal/schema"
)

func TestCascadeDenialConsumesNothingAnywhere(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project", "org")
		for i, full := range []string{"org", "project", "key"} {
			lease, err := s.limiter.Acquire(t.Context(), full, model, dynalimit.Amounts{"tpm": 9500}, dynalimit.WithChargeMode(dynalimit.ChargeParallel))
			require.NoError(t, err)
			counters := func() (all []int64) {
				for _, id := range []string{"key", "project", "org"} {
					if s.item(id) != nil {
						all = append(all, s.stored(id, "rpm").Consumed, s.stored(id, "tpm").Consumed, s.level(id, "rpm"), s.level(id, "tpm"))
					}
				}
				return all
			}
			s.acquire("key", dynalimit.Amounts{"rpm": 1}) // every bucket exists
			before := counters()
			for range 2 {
				exceeded := s.deny("key", dynalimit.Amounts{"rpm": 2, "tpm": 501})
				assert.Equal(t, "key", exceeded.EntityID)
				primary := exceeded.Primary()
				assert.Equal(t, "tpm", primary.Limit.Name)
				assert.Equal(t, int64(500), primary.Remaining)
				assert.Equal(t, 6*time.Millisecond, exceeded.RetryAfter)
				for _, status := range exceeded.Statuses {
					denies := status.Limit.Name == "tpm" && (i == 0 && status.EntityID == "org" || i == 1 && status.EntityID != "key" || i == 2)
					assert.Equal(t, denies, status.Exceeded, "%s of %s while %s is full", status.Limit.Name, status.EntityID, full)
				}
				assert.Equal(t, before, counters())
			}
			require.NoError(t, lease.Rollback(t.Context()))
			s.clock.advance(time.Minute)
		}
	})
}

func TestCascadeStatusesOfADenial(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		s.acquire("project", dynalimit.Amounts{"tpm": 9990})
		s.clock.advance(2 * time.Second) // nothing is denied from memory
		exceeded := s.deny("key", dynalimit.Amounts{"rpm": 1, "tpm": 5000})
		assert.Equal(t, []string{"key rpm", "key tpm", "project rpm", "project tpm"}, holders(exceeded.Statuses))
		for i, remaining := range []int64{100, 10_000, 100, 343} {
			assert.Equal(t, remaining, exceeded.Statuses[i].Remaining, "%s: a level that passed is shown as it is after the give-back", holders(exceeded.Statuses)[i])
		}
	})
}

// The wait covers levels that this process believes to have enough, by an image
// that others have made old.
func TestCascadeRetryAfterCoversWhatOthersTook(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "project"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 200)}))
		s.family("key", "project")
		p := s.peer(perMinute())
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		p.acquire("key", dynalimit.Amounts{"rpm": 90})
		p.acquire("project", dynalimit.Amounts{"rpm": 100})
		s.acquire("project", dynalimit.Amounts{"rpm": 1}) // knows this level, not the other
		s.clock.advance(1200 * time.Millisecond)
		exceeded := s.deny("key", dynalimit.Amounts{"rpm": 60})
		assert.Equal(t, "key", exceeded.Primary().EntityID)
		assert.Equal(t, 30*time.Second, exceeded.RetryAfter.Round(time.Second))
		s.clock.advance(exceeded.RetryAfter - time.Millisecond)
		assert.Equal(t, time.Millisecond, s.deny("key", dynalimit.Amounts{"rpm": 60}).RetryAfter)
		s.clock.advance(time.Millisecond)
		s.acquire("key", dynalimit.Amounts{"rpm": 60})
	})
}

func TestCascadeLevelsMayHaveOtherLimits(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s = s.on(s.repo, &dynalimit.Options{ChargeMode: s.limiter.mode}) // no fallback limits
		s.family("key", "project", "org")
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "key"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 1000), dynalimit.PerMinute("usd", 5)}))
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 600})
		assert.Equal(t, []string{"key rpm", "org tpm"}, holders(lease.Statuses()))
		assert.Nil(t, s.item("project"), "nothing limits it")
		assert.Equal(t, []string{"org tpm"}, holders(s.deny("key", dynalimit.Amounts{"tpm": 500}).Statuses))
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"usd": 2}))
		assert.Equal(t, int64(3), s.level("org", "usd"))
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(1000), s.level("org", "tpm"))
		assert.Equal(t, int64(5), s.level("org", "usd"))
		assert.Equal(t, int64(10), s.level("key", "rpm"))
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rps": 1})
		assert.Contains(t, requireInvalid(t, err, "amounts[rps]").Reason, `["rpm" "tpm" "usd"]`)
	})
}

// chain stores records of n levels as another tool might, unchecked.
func (s *process) chain(n int, last string) {
	s.t.Helper()
	for i := range n {
		parent := fmt.Sprintf("level-%d", i+1)
		if i == n-1 {
			parent = last
		}
		put(s.t, s.repo, schema.EntityRecord{ID: fmt.Sprintf("level-%d", i), ParentID: parent, Cascade: true}.Item(s.repo.keys, nil))
	}
}

func TestCascadeDepthIsBounded(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.chain(schema.MaxDepth, "")
		lease := s.acquire("level-0", dynalimit.Amounts{"rpm": 1})
		assert.Len(t, lease.Statuses(), 8)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(100), s.level("level-7", "rpm"))
		put(t, s.repo, schema.EntityRecord{ID: "level-x", ParentID: "level-0", Cascade: true}.Item(s.repo.keys, nil))
		assert.Len(t, s.acquire("level-x", dynalimit.Amounts{"rpm": 1}).Statuses(), 8, "the nearest")
		assert.EqualValues(t, 1*milli, s.stored("level-x", "rpm").Consumed)
		assert.EqualValues(t, 1*milli, s.stored("level-6", "rpm").Consumed)
		assert.EqualValues(t, 0, s.stored("level-7", "rpm").Consumed)
	})
}

func TestCascadeCycleIsAnError(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.chain(3, "level-1")
		_, err := s.limiter.Acquire(t.Context(), "level-0", model, dynalimit.Amounts{"rpm": 1})
		assert.Contains(t, requireInvalid(t, err, "entity").Reason, "level-1 is its own ancestor")
		assert.Nil(t, s.item("level-0"))
	})
}

func TestCascadeSeesANewParentWithinTheConfigTTL(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		p.acquire("key", dynalimit.Amounts{"rpm": 1}) // the bucket is there before the record
		s.family("key", "project")
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, int64(1000), s.stored("project", "rpm").Consumed, "at once in the process that wrote it")
		s.clock.advance(time.Minute)
		p.acquire("key", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, int64(2000), s.stored("project", "rpm").Consumed)
		require.NoError(t, s.repo.DeleteEntity(t.Context(), "key"))
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "key", ParentID: "other", Cascade: true}))
		s.clock.advance(2 * time.Minute) // past the cache's grace too
		p.acquire("key", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, int64(1000), s.stored("other", "rpm").Consumed, "the new parent")
		assert.Equal(t, int64(2000), s.stored("project", "rpm").Consumed)
	})
}

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

// An unanswered transaction is sent again byte for byte with its token.
func TestLostTransactionCountsOnce(t *testing.T) {
	virtual(t, together(), func(t *testing.T, s *process) {
		s.family("key", "project")
		for round := range 2 {
			s.db.ResetLog()
			s.db.SetFaults(firstOf("TransactWriteItems", 1, ddbmem.Fault{Lose: true}))
			s.acquire("key", dynalimit.Amounts{"tpm": 500})
			sent := s.requests("TransactWriteItems")
			require.Len(t, sent, 2)
			assert.NotEmpty(t, sent[0]["ClientRequestToken"])
			assert.Equal(t, sent[0], sent[1])
			assert.Equal(t, int64(10_000-500*(round+1)), s.level("key", "tpm"), "once")
			assert.Equal(t, int64(10_000-500*(round+1)), s.level("project", "tpm"))
		}
	})
}

// A transaction that is never answered is asked for once, by its token, when its buckets
// answer: what it took is given back, and what nobody knows is in doubt.
func TestTransactionThatWasNeverAnsweredIsFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		fault                    ddbmem.Fault
		unanswered, doubt, taken int64
	}{
		"asked for, it is answered": {ddbmem.Fault{After: time.Hour}, 1, 0, 500},
		"asked for, nobody answers": {ddbmem.Fault{After: time.Hour}, -1, 1000, 1000},
		"answered when sent again":  {ddbmem.Fault{Lose: true}, 1, 0, 500},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, together(), func(t *testing.T, s *process) {
				s.family("key", "project")
				defer s.readsOthers()()
				s.db.SetFaults(firstOf("TransactWriteItems", test.unanswered, test.fault))
				lease := s.acquire("key", dynalimit.Amounts{"tpm": 500})
				assert.False(t, lease.Degraded())
				elapse(10 * time.Second)
				s.db.SetFaults(nil)
				for _, id := range []string{"key", "project"} {
					assert.Equal(t, test.taken, s.stored(id, "tpm").Consumed/milli)
				}
				assert.Equal(t, test.doubt, s.limiter.Health().Doubt["tpm"])
				assert.Empty(t, s.limiter.Health().Waiting)
				require.NoError(t, lease.Rollback(t.Context()))
				assert.Equal(t, test.taken-500, s.stored("key", "tpm").Consumed/milli, "what cannot be known stays consumed")
			})
		})
	}
}

// A newer configuration reaches a bucket also through a transaction, and when
// the acquire that brings it is denied.
func TestTransactionBringsConfiguration(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{ChargeMode: dynalimit.ChargeTransaction})
		ctx := t.Context()
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		s.family("key", "project")
		s.acquire("key", dynalimit.Amounts{"rpm": 10})
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 50), dynalimit.PerMinute("tpm", 7)}))
		s.clock.advance(2 * time.Second)
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 2})
		var remaining []int64
		for _, status := range lease.Statuses() {
			remaining = append(remaining, status.Remaining)
		}
		assert.Equal(t, []int64{49, 5, 49, 5}, remaining, "statuses show what it left")
		for _, id := range []string{"key", "project"} {
			assert.Equal(t, int64(49), s.level(id, "rpm"), "clamped to the new burst")
			assert.Equal(t, int64(5), s.level(id, "tpm"), "a new limit starts full")
		}
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 5), dynalimit.PerMinute("tpm", 7)}))
		s.clock.advance(2 * time.Second)
		assert.ErrorIs(t, s.deny("key", dynalimit.Amounts{"rpm": 6}), dynalimit.ErrExceedsBurst)
		assert.Equal(t, int64(5000), s.stored("key", "rpm").Burst)
		assert.Equal(t, int64(5000), s.stored("project", "rpm").Burst)
	})
}

// Throttling is no failure of a transaction while there is time: it is decided anew
// until it lands, and else the error tells what throttled it.
func TestThrottledTransactionIsDecidedAnewWhileThereIsTime(t *testing.T) {
	opts := together()
	opts.Timeout = 10 * time.Second
	virtual(t, opts, func(t *testing.T, s *process) {
		s.family("key", "project")
		s.acquire("key", dynalimit.Amounts{"tpm": 1})
		throttled := ddbmem.Fault{Error: cancelled("ThrottlingError", "None")}
		began := time.Now()
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "TransactWriteItems" && time.Since(began) < 8*time.Second {
				return throttled
			}
			return ddbmem.Fault{}
		})
		lease := s.acquire("key", dynalimit.Amounts{"tpm": 500})
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
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"tpm": 500})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.NotErrorIs(t, err, dynalimit.ErrUnconfirmed)
		assert.ErrorContains(t, err, "hrottl")
		assert.InDelta(t, 10, time.Since(began).Seconds(), 0.05, "Options.Timeout")
		assert.False(t, s.limiter.Health().Open, "throttling opens nothing")
		assert.EqualValues(t, 9_499, s.level("project", "tpm"))

		_, err = s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"tpm": 500}, dynalimit.WithOnUnavailable(dynalimit.Allow))
		require.ErrorIs(t, err, dynalimit.ErrUnavailable, "no policy admits where DynamoDB answers")
		_, ok := dynalimit.RetryAfter(err)
		assert.True(t, ok)
		s.recovers()
	})
}

// A transaction that was sent when its caller had to be answered, and is refused in the
// end, took nothing: nothing of it is given back.
func TestRefusedTransactionThatWasUnderWayGivesNothingBack(t *testing.T) {
	live(t, &dynalimit.Options{ChargeMode: dynalimit.ChargeTransaction, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		s.family("key", "org")
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{{Name: "rpm", Capacity: 100, RefillPeriod: 8000 * time.Hour}}))
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		peer := s.peer(nil)
		var hung atomic.Bool
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			switch {
			case q.Operation != "TransactWriteItems":
				return ddbmem.Fault{Before: time.Millisecond}
			case hung.Swap(true):
				return ddbmem.Fault{Before: 900 * time.Millisecond} // past its caller's time, after the peer's write
			}
			return ddbmem.Fault{Drop: true} // it never arrives
		})
		go func() {
			elapse(500 * time.Millisecond)
			peer.acquire("org", dynalimit.Amounts{"rpm": 99})
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
		defer cancel()
		lease, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"rpm": 5})
		elapse(5 * time.Second)
		s.recovers()
		if err == nil {
			require.NoError(t, lease.Rollback(t.Context()))
		}
		elapse(5 * time.Second)
		assert.LessOrEqual(t, s.level("key", "rpm"), int64(99))
		assert.LessOrEqual(t, s.level("org", "rpm"), int64(0))
		assert.Equal(t, dynalimit.Amounts{"rpm": 10}, s.limiter.Health().Doubt, "its later tries may be on their way, for two levels")
	})
}

// A transaction whose first try got no answer, and whose second was refused, may land when
// there is room again, after its caller was denied: Health tells it.
func TestRefusedTransactionMayStillLand(t *testing.T) {
	live(t, &dynalimit.Options{ChargeMode: dynalimit.ChargeTransaction}, func(t *testing.T, s *process) {
		s.family("key", "org")
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
		s.acquire("key", dynalimit.Amounts{"rpm": 10})
		peer := s.peer(nil)
		var room *dynalimit.Lease
		late, tries := make(chan struct{}), atomic.Int32{}
		s.db.SetFaults(func(q *ddbmem.Request) (f ddbmem.Fault) {
			if q.Operation == "TransactWriteItems" {
				switch tries.Add(1) {
				case 1:
					f.Late = late
				case 2:
					room = peer.acquire("org", dynalimit.Amounts{"rpm": 90})
				}
			}
			return f
		})
		s.deny("key", dynalimit.Amounts{"rpm": 50})
		s.db.SetFaults(nil)
		require.NoError(t, room.Rollback(t.Context()))
		close(late)
		s.db.Wait()
		for _, id := range []string{"key", "org"} {
			assert.Equal(t, int64(60), s.stored(id, "rpm").Consumed/milli, "10 are told, and 50 landed")
		}
		assert.Equal(t, dynalimit.Amounts{"rpm": 100}, s.limiter.Health().Doubt, "50 at either level")
	})
}

// After a transaction that claimed the buckets for a newer configuration nobody knows how
// they look: they are read, and no write is spent on a guess.
func TestTransactionAfterAClaim(t *testing.T) {
	live(t, &dynalimit.Options{ChargeMode: dynalimit.ChargeTransaction}, func(t *testing.T, s *process) {
		s.family("key", "org")
		for n := range int64(3) {
			require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100+n)}))
			elapse(2 * time.Second)
			before := s.db.Meter()
			s.acquire("key", dynalimit.Amounts{"rpm": 1})
			s.acquire("key", dynalimit.Amounts{"rpm": 1})
			assert.Equal(t, int64(2), s.db.Meter().Sub(before).Operations["TransactWriteItems"].Requests, "of %d", n)
		}
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
		s.acquire("key", dynalimit.Amounts{"tpm": 500}) // its levels are asked one by one
		elapse(time.Minute)
		assert.LessOrEqual(t, tries.Load(), int32(lane.MaxTries+1))
		s.db.SetFaults(nil)
		assert.Equal(t, dynalimit.Amounts{"tpm": 1000}, s.limiter.Health().Doubt, "at two levels")
	})
}

// The parent's limit was raised, and its bucket has still the old one. A denial by the child shows the limit in force,
// and is not for ever.
func TestDenialShowsAParentsRaisedLimit(t *testing.T) {
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		virtual(t, &dynalimit.Options{ChargeMode: mode}, func(t *testing.T, s *process) {
			s.family("key", "org")
			s.limits(admin.Scope{Entity: "key"}, dynalimit.PerMinute("tpm", 60))
			s.limits(admin.Scope{Entity: "org"}, dynalimit.MonthlyQuota("tpm", 20, ""))
			s.acquire("key", dynalimit.Amounts{"tpm": 20})
			s.limits(admin.Scope{Entity: "org"}, dynalimit.MonthlyQuota("tpm", 1000, ""))
			_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"tpm": 50})
			denied := s.denied(err)
			assert.Equal(t, 10*time.Second, denied.RetryAfter, mode)
			require.Len(t, denied.Statuses, 2)
			assert.False(t, denied.Statuses[1].Exceeded)
			assert.EqualValues(t, 980, denied.Statuses[1].Remaining)
		})
	}
}

// A call is cancelled while one level has not answered. Another level had fallen silent, was answered as pending, and
// its write landed before that. What it took goes back.
func TestCancelledCallGivesBackWhatLandedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.family("key", "org")
		for _, e := range []string{"key", "org"} {
			s.limits(admin.Scope{Entity: e}, dynalimit.MonthlyQuota("tpm", 1000, ""), dynalimit.Concurrent("inflight", 10, 30*time.Second))
		}
		require.NoError(t, s.acquire("key", dynalimit.Amounts{"tpm": 1, "inflight": 1}).Settle(t.Context(), nil)) // the buckets exist
		stop := s.readsOthers()                                                                                   // the table answers
		var orgs atomic.Int32
		s.db.SetFaults(func(r *ddbmem.Request) (f ddbmem.Fault) {
			switch write := r.Operation == "UpdateItem" && bytes.Contains(r.Body, []byte("#BUCKET#")); {
			case write && bytes.Contains(r.Body, []byte(`"ENTITY#org"`)) && orgs.Add(1) == 1:
				return ddbmem.Fault{After: 300 * time.Millisecond, Lose: true}
			case write && bytes.Contains(r.Body, []byte(`"ENTITY#key"`)):
				return ddbmem.Fault{After: 950 * time.Millisecond}
			}
			return f
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(940*time.Millisecond, cancel)
		_, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"tpm": 100, "inflight": 1})
		require.ErrorIs(t, err, context.Canceled)
		stop()
		s.db.SetFaults(nil)
		s.recovers()
		elapse(time.Minute)
		for _, e := range []string{"key", "org"} {
			assert.EqualValues(t, 1*milli, s.stored(e, "tpm").Consumed, e)
		}
		assert.Empty(t, s.limiter.Health().InFlight)
		assert.Empty(t, s.limiter.Health().Doubt)
	})
}
