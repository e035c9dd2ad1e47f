package dynalimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/testworld"
	"github.com/dynalimit/dynalimit/observe"
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

func TestDenialWinsOverUnavailability(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow} {
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
		for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local} {
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
	live(t, &dynalimit.Options{OnUnavailable: dynalimit.Refuse}, func(t *testing.T, s *process) {
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

// A bucket that does not answer lets the table count as silent once, at its first request. Its further probes say
// nothing of the table.
func TestProbesOfASilentBucketDoNotOpenTheTable(t *testing.T) {
	opened := 0
	hears := observe.Observer{AvailabilityChanged: func(e observe.AvailabilityChange) {
		if e.Open {
			opened++
		}
	}}
	live(t, &dynalimit.Options{Observer: hears}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if bytes.Contains(q.Body, []byte(`"ENTITY#user-1"`)) || bytes.Contains(q.Body, []byte("user-1/")) {
				return ddbmem.Fault{Before: time.Hour}
			}
			return ddbmem.Fault{Before: 2 * time.Millisecond}
		})
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		elapse(10 * time.Minute)
		assert.Equal(t, 1, s.limiter.Health().SilentBuckets)
		assert.LessOrEqual(t, opened, 1)
	})
}

// A sick partition of a parent, its bucket and its configuration, does not let calls past
// the healthy bucket of a child, nor slow them down.
func TestSickPartitionOfAParent(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local} {
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
				if policy == dynalimit.Refuse {
					assert.Zero(t, n.admitted+n.degraded)
				} else {
					assert.Empty(t, n.others)
				}
				s.recovers()
			})
		})
	}
}

// What a policy admitted is told to the counter, with every correction, and the tokens have
// nothing to do with it: nothing is charged, and nothing given back.
func TestDegradedLeaseIsCountedOnceTheStoreIsBack(t *testing.T) {
	for _, warm := range []bool{false, true} {
		virtual(t, perMinute(), func(t *testing.T, s *process) {
			base, told := int64(10_000), int64(0)
			if warm {
				s.acquire("user-1", dynalimit.Amounts{"tpm": 100})
				base, told = base-100, 100
			}
			degraded := func() *dynalimit.Lease {
				s.down(ddbmem.Fault{Drop: true})
				_, err := s.limiter.Acquire(t.Context(), "other", model, dynalimit.Amounts{"rpm": 1})
				require.ErrorIs(t, err, dynalimit.ErrUnavailable) // and now it is known
				asked := dynalimit.Amounts{"rpm": 1, "tpm": 500}
				lease := s.acquire("user-1", asked, dynalimit.WithOnUnavailable(dynalimit.Allow))
				asked["tpm"], asked["other"] = 9_000, 1 // the lease keeps its own amounts
				return lease
			}
			lease := degraded()
			assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 500}, lease.Used(), "on consumed")
			for _, status := range lease.Statuses() {
				assert.True(t, status.Degraded, "of an old image")
			}
			require.NoError(t, lease.Rollback(t.Context()))
			s.recovers()
			if warm {
				assert.Equal(t, told, s.stored("user-1", "tpm").Consumed/milli)
			} else {
				assert.Nil(t, s.item("user-1"), "nothing was used")
			}

			lease = degraded()
			require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -200}))
			assert.True(t, lease.Degraded())
			s.recovers()
			assert.Equal(t, told+300, s.stored("user-1", "tpm").Consumed/milli, "asked + delta")
			assert.Equal(t, base, s.level("user-1", "tpm"))
			require.NoError(t, lease.Rollback(t.Context()))
			s.recovers()
			assert.Equal(t, told, s.stored("user-1", "tpm").Consumed/milli, "told before, and taken off again")
			assert.Equal(t, base, s.level("user-1", "tpm"), "nothing is given back that was never taken")

			lease = degraded()
			require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 700}))
			s.recovers()
			assert.Equal(t, told+700, s.stored("user-1", "tpm").Consumed/milli)
			assert.Equal(t, base, s.level("user-1", "tpm"))

			lease = degraded()
			requireInvalid(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -501}), "amounts[tpm]")
			require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -500, "rpm": -1}))
			s.recovers()
			assert.Equal(t, told+700, s.stored("user-1", "tpm").Consumed/milli)
		})
	}
}

// Each request of a call that gets a dead connection is sent again, within half a second, and
// nobody is admitted by a policy.
func TestRequestOnADeadConnectionIsSentAgain(t *testing.T) {
	for _, operation := range []string{"UpdateItem", "TransactWriteItems", "BatchGetItem"} {
		t.Run(operation, func(t *testing.T) {
			virtual(t, perMinute(), func(t *testing.T, s *process) {
				s.family("key", "project")
				client := &testworld.DeadPool{Next: s.client().Options().HTTPClient, Operation: operation}
				s = s.wired(&dynalimit.Options{
					Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, ChargeMode: dynalimit.ChargeTransaction, OnUnavailable: dynalimit.Allow,
				}, client)
				entity := "key"
				if operation == "UpdateItem" {
					entity = "project"
				}
				if operation != "BatchGetItem" {
					s.acquire(entity, dynalimit.Amounts{"rpm": 1})
				}
				client.Dead.Store(1)
				began := time.Now()
				assert.False(t, s.acquire(entity, dynalimit.Amounts{"rpm": 1}).Degraded())
				assert.Less(t, time.Since(began), time.Second)
				assert.Negative(t, client.Dead.Load())
				assert.False(t, s.limiter.Health().Open)
				assert.Zero(t, s.limiter.Health().SilentBuckets)
			})
		})
	}
}

// What is wrong at one level is told, and never fails open, also when another
// level does not answer.
func TestMistakeBesideAnOutageDoesNotFailOpen(t *testing.T) {
	for name, wrong := range map[string]string{"the child's": `"ENTITY#u"`, "the parent's": `"ENTITY#project"`} {
		for _, known := range []bool{false, true} { // that the other level is silent
			t.Run(fmt.Sprintf("%s, known %v", name, known), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, db := team(t, []dynalimit.Limit{dynalimit.PerMinute("tpm", 60)}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 60)})
					drain(t, l, dynalimit.Amounts{"tpm": 1})
					db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
						if r.Operation != "UpdateItem" {
							return ddbmem.Fault{}
						}
						if bytes.Contains(r.Body, []byte(wrong)) {
							return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}
						}
						return ddbmem.Fault{Drop: true}
					})
					for _, id := range []string{"u", "project"} {
						if known && !strings.Contains(wrong, id+`"`) {
							l.lanes.Of(id, "m").Trip(lane.ErrTripped)
						}
					}
					lease, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Allow))
					require.Nil(t, lease)
					require.ErrorContains(t, err, "AccessDenied")
					if known {
						require.NotErrorIs(t, err, dynalimit.ErrUnavailable)
					} else {
						require.ErrorIs(t, err, dynalimit.ErrUnconfirmed, "the other write may have landed")
					}
					db.SetFaults(nil)
				})
			})
		}
	}
}
