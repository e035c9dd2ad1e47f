package dynalimit_test

import (
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
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// scene is a process whose whole requests are compared with golden files: its
// clock stands at noon, its op ids count from a fixed number.
type scene struct {
	*process
	wire *testworld.Recorder
}

func newScene(t *testing.T, opts *dynalimit.Options) *scene {
	t.Helper()
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now))
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	repo, err := openRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Now: clock.now})
	require.NoError(t, err)
	require.NoError(t, sharedOf(repo).Layout.Check(t.Context()))
	wire.Take()
	s := (&process{engine: e, t: t, clock: clock}).on(repo, opts)
	s.limiter.lanes.IDs = lane.IDsFrom(0x0102030405060700, 1)
	return &scene{process: s, wire: wire}
}

// another is a process that writes the same bucket from another op slot.
func (s *scene) another(opts *dynalimit.Options) *process {
	p := s.peer(opts)
	p.limiter.lanes.IDs = lane.IDsFrom(0x1112131415161700, 2)
	return p
}

// set stores limits of the resource.
func (s *scene) set(limits ...dynalimit.Limit) {
	s.t.Helper()
	require.NoError(s.t, s.repo.SetLimits(s.t.Context(), admin.Scope{Everyone: true, Resource: model}, limits))
}

// change stores the user's bucket with attributes changed; nil removes one.
func (s *scene) change(attributes schema.Item) {
	s.t.Helper()
	item := s.item("user-1")
	for name, value := range attributes {
		if value == nil {
			delete(item, name)
		} else {
			item[name] = value
		}
	}
	put(s.t, s.peer(nil).repo, item)
}

var rpm, tpm, tpd = dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 10_000), dynalimit.PerDay("tpd", 500_000)

// The whole requests of every shape of write, and of the reads between them.
func TestBucketRequests(t *testing.T) {
	two := &dynalimit.Options{Limits: []dynalimit.Limit{rpm, tpm}}
	for name, play := range map[string]struct {
		opts *dynalimit.Options
		// before sets the scene; do makes the requests that are compared.
		before, do func(s *scene)
	}{
		"acquire_cold": {opts: two, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500}) }},
		"acquire_cold_group": {before: func(s *scene) {
			s.ofGroup(model)
			s.limits(admin.Scope{Everyone: true, Resource: group}, tpm)
			s.wire.Take()
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"tpm": 500}) }},
		"spend_one_limit": {opts: two, before: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"tpm": 500}) }, do: func(s *scene) {
			s.clock.advance(3 * time.Second)
			s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		}},
		"spend_two_limits": {opts: two, before: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"tpm": 5000, "rpm": 50}) }, do: func(s *scene) {
			s.clock.advance(3 * time.Second)
			s.acquire("user-1", dynalimit.Amounts{"tpm": 500, "rpm": 1})
		}},
		"spend_full_bucket": {opts: two, before: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) }, do: func(s *scene) {
			s.clock.advance(3 * time.Second)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		}},
		"spend_permanent": {before: func(s *scene) {
			require.NoError(s.t, s.repo.SetLimits(s.t.Context(), admin.Scope{Entity: "user-1"}, []dynalimit.Limit{rpm}))
			s.acquire("user-1", dynalimit.Amounts{"rpm": 60})
			s.wire.Take()
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) }},
		"spend_resent": {opts: two, before: func(s *scene) {
			s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
			s.db.SetFaults(firstOf("UpdateItem", 2, ddbmem.Fault{Drop: true}))
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"tpm": 500}) }},
		"spend_refused": {opts: two, before: func(s *scene) {
			s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
			s.clock.advance(2 * time.Hour)
			s.another(two).acquire("user-1", dynalimit.Amounts{"tpm": 500})
			s.wire.Take()
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"tpm": 500}) }},
		"adjust_charge": {opts: two, do: adjusting(dynalimit.Amounts{"tpm": 700})},
		"adjust_both":   {opts: two, do: adjusting(dynalimit.Amounts{"tpm": 700, "rpm": -1})},
		"adjust_later": {opts: two, do: func(s *scene) {
			lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
			s.wire.Take()
			seen := s.item("user-1")
			var refused atomic.Int32 // as if others had claimed just before, each time
			s.wire.Take()
			s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Operation != "UpdateItem" || refused.Add(1) > 2 {
					return ddbmem.Fault{}
				}
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "ConditionalCheckFailedException", Item: seen}}
			})
			require.NoError(s.t, lease.Adjust(s.t.Context(), dynalimit.Amounts{"tpm": 700}))
		}},
		"claim_housekeeping": {opts: two, before: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"tpm": 5000}) }, do: func(s *scene) {
			s.clock.advance(time.Hour + time.Second)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		}},
		"claim_expiry": {opts: two, before: func(s *scene) {
			s.acquire("user-1", dynalimit.Amounts{"tpm": 5000})
			s.change(schema.Item{schema.TTL: schema.Number(noon().Unix() + 5)})
			_, err := s.limiter.Check(s.t.Context(), "user-1", model, nil)
			require.NoError(s.t, err)
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) }},
		"claim_debt": {opts: two, do: adjusting(dynalimit.Amounts{"tpm": 5_000_000})},
		"claim_changed_limits": {before: func(s *scene) {
			s.set(rpm, tpm)
			s.acquire("user-1", dynalimit.Amounts{"tpm": 5000, "rpm": 20})
			s.clock.advance(3 * time.Second)
			s.set(dynalimit.PerMinute("rpm", 50), tpm)
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 100}) }},
		"claim_adds_a_limit": {before: func(s *scene) {
			s.set(rpm)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 20})
			s.set(rpm, tpd)
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpd": 1234}) }},
		"claim_removes_a_limit": {before: func(s *scene) {
			s.set(rpm, tpm)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 20})
			s.set(rpm)
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) }},
		"claim_keeps_what_is_not_full": {before: func(s *scene) {
			s.set(rpm, tpm)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 20, "tpm": 5000})
			s.set(rpm)
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) }},
		"claim_of_a_denied_acquire": {before: func(s *scene) {
			s.set(rpm)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 20})
			s.set(dynalimit.PerMinute("rpm", 10))
		}, do: func(s *scene) { s.deny("user-1", dynalimit.Amounts{"rpm": 11}) }},
		"claim_adopts_a_ghost": {opts: two, before: func(s *scene) {
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			s.change(ghostOf("tpm", -300_000))
			_, err := s.limiter.Check(s.t.Context(), "user-1", model, nil)
			require.NoError(s.t, err)
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"tpm": 100}) }},
		"claim_of_a_foreign_bucket": {opts: two, before: func(s *scene) {
			s.another(two).acquire("user-1", dynalimit.Amounts{"tpm": 5000, "rpm": 1})
			s.change(schema.Item{"cv": nil, "ct": nil, "op0": nil, "op1": nil, "op2": nil, "op3": nil})
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"tpm": 100}) }},
		"give_back_careful": {opts: two, do: adjusting(dynalimit.Amounts{"tpm": -300, "rpm": -1})},
		"give_back_plain": {opts: two, do: func(s *scene) {
			lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
			s.limiter.lanes.Of("user-1", model).Memory.ForgetOwnWrite()
			s.wire.Take()
			require.NoError(s.t, lease.Rollback(s.t.Context()))
		}},
		"give_back_resent": {opts: two, do: func(s *scene) {
			lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
			s.wire.Take()
			s.db.SetFaults(firstOf("UpdateItem", 1, ddbmem.Fault{Lose: true}))
			require.NoError(s.t, lease.Rollback(s.t.Context()))
		}},
		"denial_stale": {opts: two, before: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"tpm": 10_000}) }, do: func(s *scene) {
			s.clock.advance(2 * time.Second)
			s.deny("user-1", dynalimit.Amounts{"tpm": 5000})
		}},
		"transaction_cold": {
			opts: &dynalimit.Options{Limits: two.Limits, ChargeMode: dynalimit.ChargeTransaction}, before: func(s *scene) { s.family("user-1", "project-1") },
			do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500}) },
		},
		"transaction_warm": {opts: &dynalimit.Options{Limits: two.Limits, ChargeMode: dynalimit.ChargeTransaction}, before: func(s *scene) {
			s.family("user-1", "project-1")
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500})
		}, do: func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500}) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, play.opts)
			if play.before != nil {
				play.before(s)
				s.wire.Take()
			}
			play.do(s)
			s.db.SetFaults(nil)
			assertGolden(t, name, s.wire.Take())
		})
	}
}

// The whole requests of calls in flight.
func TestSlotRequests(t *testing.T) {
	for name, do := range map[string]func(s *scene){
		"slots_give_back": func(s *scene) {
			lease := s.acquire("user-1", inflight)
			s.wire.Take()
			require.NoError(s.t, lease.Rollback(s.t.Context()))
		},
		"slots_renewal": func(s *scene) { // in a write of a call
			s.acquire("user-1", inflight)
			s.clock.advance(45 * time.Second)
			s.wire.Take()
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		},
		"slots_again": func(s *scene) { // the hold ran out
			s.acquire("user-1", inflight)
			s.clock.advance(2 * time.Minute)
			s.wire.Take()
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		},
		"slots_swap": func(s *scene) { // a slot goes from one call to another
			lease := s.acquire("user-1", inflight)
			s.db.SetFaults(firstOf("UpdateItem", 1, ddbmem.Fault{Before: time.Second}))
			var calls sync.WaitGroup
			calls.Go(func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
			elapse(time.Millisecond)
			calls.Go(func() { assert.NoError(s.t, lease.Rollback(s.t.Context())) })
			calls.Go(func() { s.acquire("user-1", inflight) })
			calls.Wait()
			s.wire.KeepLast()
		},
		"slots_take":   func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"inflight": 1, "rpm": 1}) },
		"slots_beside": func(s *scene) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) }, // as without calls in flight
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.Concurrent("inflight", 4, time.Minute), rpm}})
				s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
				s.wire.Take()
				do(s)
				assertGolden(t, name, s.wire.Take())
			})
		})
	}
}

// The whole requests of batch calls, which leave the reserve of a bucket and of slots.
func TestBatchRequests(t *testing.T) {
	limits := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.Concurrent("inflight", 10, time.Minute), rpm}}
	for name, take := range map[string]dynalimit.Amounts{"batch_take": {"rpm": 1}, "batch_slots": {"inflight": 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, limits)
				s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
				s.wire.Take()
				s.acquire("user-1", take, dynalimit.WithBatch())
				assertGolden(t, name, s.wire.Take())
			})
		})
	}
}

// The whole request of a waiter that leaves a note for those of other processes, in each class.
func TestNoteRequests(t *testing.T) {
	for attribute, name := range map[string]string{"wn": "note_interactive", "wb": "note_batch"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
				s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
				now := s.clock.now().UnixMilli()
				s.change(schema.Item{attribute: schema.Bytes((&schema.Note{Until: now, At: now, Lane: 7, Age: 10, Spread: 4}).Bytes())})
				s.acquire("user-1", dynalimit.Amounts{"rpm": 79}) // all but the reserve; it sees the note of another process
				if attribute == "wn" {
					s.acquire("user-1", dynalimit.Amounts{"rpm": 20})
				}
				var call sync.WaitGroup
				call.Go(func() {
					var opts []dynalimit.AcquireOption
					if attribute == "wb" {
						opts = append(opts, dynalimit.WithBatch())
					}
					_, err := s.limiter.Wait(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, opts...)
					assert.NoError(t, err)
				})
				elapse(time.Microsecond)
				s.clock.advance(time.Second)
				call.Wait()
				s.wire.KeepLast()
				assertGolden(t, name, s.wire.Take())
			})
		})
	}
}

// The whole requests of a group's bucket that counts money by model.
func TestMoneyRequests(t *testing.T) {
	usd := dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(50), "")
	take := func(s *scene) *dynalimit.Lease {
		return s.acquire("user-1", dynalimit.Amounts{"usd": 1000, "tpm": 500})
	}
	for name, do := range map[string]func(s *scene){
		"money_cold": func(s *scene) { take(s) },
		"money_take": func(s *scene) {
			take(s)
			s.wire.Take()
			take(s)
		},
		"money_settle": func(s *scene) {
			lease := take(s)
			s.wire.Take()
			require.NoError(s.t, lease.Settle(s.t.Context(), dynalimit.Amounts{"usd": 400, "tpm": 700}))
		},
		"money_give_back": func(s *scene) {
			lease := take(s)
			s.wire.Take()
			require.NoError(s.t, lease.Rollback(s.t.Context()))
		},
		"money_window": func(s *scene) { // a claim opens a window: the models of the last one go
			take(s)
			s.ofGroup(otherModel)
			s.clock.advance(24 * time.Hour)
			s.wire.Take()
			_, err := s.limiter.Acquire(s.t.Context(), "user-1", otherModel, dynalimit.Amounts{"usd": 1})
			require.NoError(s.t, err)
			s.wire.KeepLast()
		},
		"money_alerts": func(s *scene) { // a claim brings alerts
			take(s)
			s.limits(admin.Scope{Everyone: true, Resource: group}, usd.WithAlerts(50, 100), tpm)
			s.clock.advance(time.Hour)
			take(s)
			s.wire.KeepLast()
		},
		"money_denial": func(s *scene) { // a denial is marked, because of an alert at 100 %
			s.limits(admin.Scope{Everyone: true, Resource: group}, usd.WithAlerts(50, 100), tpm)
			s.acquire("user-1", dynalimit.Amounts{"usd": 49_000_000})
			s.wire.Take()
			s.deny("user-1", dynalimit.Amounts{"usd": 2_000_000})
			<-time.After(3 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				s.ofGroup(model)
				s.limits(admin.Scope{Everyone: true, Resource: group}, usd, tpm)
				s.wire.Take()
				do(s)
				assertGolden(t, name, s.wire.Take())
			})
		})
	}
}

// adjusting adjusts a lease of 1 request and 500 tokens.
func adjusting(a dynalimit.Amounts) func(s *scene) {
	return func(s *scene) {
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500})
		s.wire.Take()
		require.NoError(s.t, lease.Adjust(s.t.Context(), a))
	}
}

// ghostOf leaves of a limit what an unconditional ADD makes.
func ghostOf(limit string, tokens int64) schema.Item {
	item := schema.Item{"b_" + limit + "_tk": schema.Number(tokens), "b_" + limit + "_tc": schema.Number(-tokens)}
	for _, field := range []string{"cp", "bx", "ra", "rp"} {
		item["b_"+limit+"_"+field] = nil
	}
	return item
}

// The whole requests of a reset and of a top-up.
func TestRefillRequests(t *testing.T) {
	two := &dynalimit.Options{Limits: []dynalimit.Limit{rpm, tpm}}
	refill := func(s *scene, amounts dynalimit.Amounts) (estimated bool) {
		buckets := s.repo.admin().Buckets
		if amounts == nil {
			_, err := buckets.Reset(s.t.Context(), "user-1", model, "ticket-1")
			require.NoError(s.t, err)
			return false
		}
		done, err := buckets.TopUp(s.t.Context(), "user-1", model, "ticket-1", amounts)
		require.NoError(s.t, err)
		return done.Estimated
	}
	for name, do := range map[string]func(s *scene){
		"reset_bucket":  func(s *scene) { refill(s, nil) },
		"top_up_bucket": func(s *scene) { refill(s, dynalimit.Amounts{"tpm": 500}) },
		"top_up_crowded": func(s *scene) {
			refused := 0
			s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if refused++; q.Operation != "TransactWriteItems" {
					refused--
				}
				if q.Operation != "TransactWriteItems" || refused > 4 {
					return ddbmem.Fault{}
				}
				return ddbmem.Fault{Error: &ddbmem.Error{
					Code: "TransactionCanceledException", Message: "Transaction cancelled",
					Reasons: []ddbmem.Reason{{Code: "ConditionalCheckFailed"}, {Code: "None"}, {Code: "None"}},
				}}
			})
			assert.True(s.t, refill(s, dynalimit.Amounts{"tpm": 500}))
			s.db.SetFaults(nil)
			s.wire.KeepLast()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, two)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 60, "tpm": 9000})
			s.clock.advance(3 * time.Second)
			s.wire.Take()
			do(s)
			assertGolden(t, name, s.wire.Take())
		})
	}
}
