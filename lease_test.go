package dynalimit_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestAdjustChargesTheTrueAmount(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 337}))
		assert.Equal(t, int64(9163), s.level("user-1", "tpm"), "more than was estimated")
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -800}))
		assert.Equal(t, int64(9963), s.level("user-1", "tpm"), "less")
		assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 37}, lease.Used())
		assert.Equal(t, int64(37_000), s.stored("user-1", "tpm").Consumed, "the counter is exact")
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -37}), "all of it")
		assert.Equal(t, int64(10_000), s.level("user-1", "tpm"))
	})
}

func TestSettleIsAbsoluteAndFinal(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 2, "tpm": 500})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 50}))
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 123}))
		assert.Equal(t, dynalimit.Amounts{"rpm": 2, "tpm": 123}, lease.Used(), "what is not named stays")
		assert.Equal(t, int64(9877), s.level("user-1", "tpm"))
		assert.Equal(t, int64(98), s.level("user-1", "rpm"))
		after := s.item("user-1")
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 9999}), "a second Settle is a no-op")
		require.NoError(t, lease.Rollback(t.Context()), "and so is a Rollback")
		assert.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 1}), dynalimit.ErrLeaseEnded)
		assert.ErrorIs(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 1}), dynalimit.ErrLeaseEnded)
		assert.Equal(t, after, s.item("user-1"))
		assert.Equal(t, dynalimit.Amounts{"rpm": 2, "tpm": 123}, lease.Used())
	})
}

func TestRollbackGivesEverythingBackOnce(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		kept := s.acquire("user-1", dynalimit.Amounts{"rpm": 10, "tpm": 1000})
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 20_000}))
		require.NoError(t, lease.Rollback(t.Context()))
		for range 2 {
			assert.Equal(t, int64(90), s.level("user-1", "rpm"))
			assert.Equal(t, int64(9000), s.level("user-1", "tpm"))
			assert.Equal(t, int64(1_000_000), s.stored("user-1", "tpm").Consumed)
			assert.Equal(t, dynalimit.Amounts{"rpm": 0, "tpm": 0}, lease.Used())
			require.NoError(t, lease.Rollback(t.Context()))
			require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 5}))
		}
		assert.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 1}), dynalimit.ErrLeaseEnded)
		require.NoError(t, kept.Rollback(t.Context()))
		assert.Equal(t, int64(0), s.stored("user-1", "tpm").Consumed)
	})
}

// A give-back never lifts a bucket above its burst.
func TestRollbackIntoARefilledBucket(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 100})
		s.clock.advance(time.Minute)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(100), s.level("user-1", "rpm"))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 100})
		s.deny("user-1", dynalimit.Amounts{"rpm": 1})
		p := s.peer(perMinute())
		p.deny("user-1", dynalimit.Amounts{"rpm": 1})
		s.clock.advance(600 * time.Millisecond)
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.clock.advance(2 * time.Second)
		s.deny("user-1", dynalimit.Amounts{"rpm": 4})
	})
}

func TestConsumeIsChecked(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 9000})
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 900, "rpm": 3}))
		assert.Equal(t, dynalimit.Amounts{"rpm": 3, "tpm": 9900}, lease.Used())
		before := s.item("user-1")
		exceeded := s.denied(lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1, "tpm": 101}))
		assert.Equal(t, 6*time.Millisecond, exceeded.RetryAfter)
		assert.Equal(t, dynalimit.Amounts{"rpm": 3, "tpm": 9900}, lease.Used(), "a denial leaves the lease as it was")
		assert.Equal(t, before, s.item("user-1"))
		assert.ErrorIs(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1000}), dynalimit.ErrExceedsBurst)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(10_000), s.level("user-1", "tpm"))
		assert.Equal(t, int64(100), s.level("user-1", "rpm"))
	})
}

// A correction of a limit that no level has is refused, also after it was named with 0.
func TestCorrectionOfAnUnknownLimitIsRefused(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		for range 2 {
			var invalid *dynalimit.ValidationError
			require.ErrorAs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"typo": 1}), &invalid)
			require.ErrorAs(t, lease.Settle(t.Context(), dynalimit.Amounts{"typo": 5}), &invalid)
			require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"typo": 0}))
		}
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 3}))
		assert.Equal(t, int64(97), s.level("user-1", "rpm"))
	})
}

func TestCleanUpSurvivesTheCallersContext(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		require.NoError(t, lease.Adjust(ended, dynalimit.Amounts{"tpm": 100}))
		assert.Equal(t, int64(9400), s.level("user-1", "tpm"))
		require.NoError(t, lease.Settle(ended, dynalimit.Amounts{"tpm": 300}))
		assert.Equal(t, int64(9700), s.level("user-1", "tpm"))
		lease = s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		require.NoError(t, lease.Rollback(ended))
		assert.Equal(t, int64(9700), s.level("user-1", "tpm"))
		assert.ErrorIs(t, s.acquire("user-1", dynalimit.Amounts{"tpm": 1}).Consume(ended, dynalimit.Amounts{"tpm": 1}), context.Canceled, "but nothing more is taken")
	})
}

func TestLeaseMayBeSharedByGoroutines(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 1000})
		together := func(n int, do func(i int)) {
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() { do(i) })
			}
			wg.Wait()
		}
		together(10, func(i int) {
			switch i % 3 {
			case 0:
				assert.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 10}))
			case 1:
				assert.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -20}))
			default:
				assert.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 30}))
			}
			_, _, _ = lease.Used(), lease.Statuses(), lease.Degraded()
		})
		const want = 1000 + 4*10 - 3*20 + 3*30
		assert.Equal(t, dynalimit.Amounts{"tpm": want}, lease.Used())
		assert.Equal(t, int64(10_000-want), s.level("user-1", "tpm"))
		together(10, func(i int) {
			if i%2 == 0 {
				assert.NoError(t, lease.Rollback(t.Context()))
			} else {
				assert.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 0}))
			}
		})
		assert.Equal(t, int64(10_000), s.level("user-1", "tpm"), "given back once")
	})
}

// A lease outlives its limit: the refund goes where the limit went.
func TestRefundOfARemovedLimitIsDropped(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 10), dynalimit.PerSecond("tpm", 100)}))
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 50})
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerSecond("rpm", 10)}))
		s.clock.advance(5 * time.Second)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		require.Negative(t, s.image("user-1").Set.Index("tpm"), "full, so the claim removed it")
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Negative(t, s.image("user-1").Set.Index("tpm"))
		assert.Equal(t, int64(10), s.level("user-1", "rpm"))
	})
}

// Where the slot does not hold this client's own last write, a give-back cannot
// recognise itself: it is sent once, and what cannot be known stays consumed.
func TestGiveBackThatCannotBeKnownStaysConsumed(t *testing.T) {
	for _, landed := range []bool{true, false} {
		testEngines(t, func(t *testing.T, e *engine) {
			f := &brokenWire{lose: landed, drop: !landed, match: writesOf("user-1")}
			s := newProcess(t, e, perMinute()).faulty(perMinute(), f)
			lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
			s.limiter.lanes.Of("user-1", model).Memory.ForgetOwnWrite() // as in a lane that was forgotten
			f.times(-1)
			requireUnconfirmed(t, lease.Rollback(t.Context()), dynalimit.Amounts{"tpm": -500})
			assert.Equal(t, 1, f.count(), "sent once")
			f.times(0)
			require.NoError(t, lease.Rollback(t.Context()), "nothing is left to give back")
			want := int64(9500)
			if landed {
				want = 10_000
			}
			assert.Equal(t, want, s.level("user-1", "tpm"))
		})
	}
}

// A charge of which nobody knows counts as consumed, and is not given back: to
// pay back what was perhaps never taken would mint tokens. One that shows in the
// bucket afterwards is held.
func TestUnansweredChargeIsNotGivenBackUnlessItIsKnown(t *testing.T) {
	for name, landed := range map[string]int64{"landed": 700, "did not land": 0} {
		t.Run(name, func(t *testing.T) {
			virtual(t, perMinute(), func(t *testing.T, s *process) {
				unanswered := func(do func() error) *dynalimit.UnconfirmedError {
					s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
						return ddbmem.Fault{Lose: landed > 0, Drop: landed == 0}
					})
					e := requireUnconfirmed(t, do(), dynalimit.Amounts{"tpm": 700})
					s.recovers()
					return e
				}
				lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
				e := unanswered(func() error { return lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 700}) })
				assert.False(t, e.NotWritten)
				assert.Equal(t, dynalimit.Amounts{"tpm": 1200}, lease.Used())
				assert.Equal(t, 3*700-landed, s.limiter.Health().Doubt["tpm"], "of each try but the one that is known")
				require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 700}), "the same again is a further charge")
				assert.Equal(t, 10_000-500-700-landed, s.level("user-1", "tpm"))
				require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -1900}), "all that the lease stands for")
				assert.Equal(t, int64(10_000), s.level("user-1", "tpm"), "what is in doubt is not given back")
				require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 100}))
				assert.Equal(t, int64(9900), s.level("user-1", "tpm"), "doubt that was given up pays for nothing")
				require.NoError(t, lease.Rollback(t.Context()))
				assert.Equal(t, int64(10_000), s.level("user-1", "tpm"))
				assert.Equal(t, int64(0), s.stored("user-1", "tpm").Consumed)

				lease = s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
				unanswered(func() error { return lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 1200}) })
				require.NoError(t, lease.Rollback(t.Context()), "it has ended")
				assert.Equal(t, 10_000-500-landed, s.level("user-1", "tpm"))
			})
		})
	}
}

// A limit that Acquire did not name is forgotten at no level that charged it.
func TestHalfLandedAdjustOfANewLimitIsGivenBack(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, lease *dynalimit.Lease){
		"rollback": func(t *testing.T, lease *dynalimit.Lease) { require.NoError(t, lease.Rollback(t.Context())) },
		"settle": func(t *testing.T, lease *dynalimit.Lease) {
			require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 1}))
			assert.Equal(t, dynalimit.Amounts{"rpm": 1}, lease.Used())
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, perMinute(), func(t *testing.T, s *process) {
				s.family("key", "project")
				lease := s.acquire("key", dynalimit.Amounts{"rpm": 1})
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					if bytes.Contains(r.Body, []byte("ENTITY#project")) {
						return throttled1
					}
					return ddbmem.Fault{}
				})
				e := requireUnconfirmed(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 5000}), dynalimit.Amounts{"tpm": 5000})
				assert.True(t, e.NotWritten)
				assert.Equal(t, "project", e.EntityID)
				assert.Equal(t, dynalimit.Amounts{"rpm": 1}, lease.Used())
				s.db.SetFaults(nil)
				require.Equal(t, int64(5000), s.level("key", "tpm"))
				end(t, lease)
				assert.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 1}), dynalimit.ErrLeaseEnded)
				assert.Equal(t, int64(10_000), s.level("key", "tpm"), "the lease stands for no tpm")
			})
		})
	}
}

// What a lease stands for can be asked while a correction waits for the store.
func TestLeaseAnswersWhileItIsCorrected(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 900 * time.Millisecond} })
		corrected := make(chan error, 2)
		go func() { corrected <- lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 100}) }()
		synctest.Wait()
		began := time.Now()
		assert.Len(t, lease.Statuses(), 1)
		assert.Equal(t, dynalimit.Amounts{"tpm": 500}, lease.Used())
		assert.False(t, lease.Degraded())
		assert.Zero(t, time.Since(began))
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, lease.Consume(short, dynalimit.Amounts{"tpm": 1}), context.DeadlineExceeded, "another take waits no longer than its caller")
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		go func() { corrected <- lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 300}) }()
		require.NoError(t, <-corrected)
		require.NoError(t, <-corrected)
		s.db.SetFaults(nil)
		assert.Equal(t, int64(9700), s.level("user-1", "tpm"), "corrections are made one after the other")
	})
}

func TestChargeThatDidNotLandIsWrittenAgain(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		throttle := &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Error: throttle} })
		requireUnconfirmed(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 700}), dynalimit.Amounts{"tpm": 700})
		requireUnconfirmed(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 1200}), dynalimit.Amounts{"tpm": 700})
		requireUnconfirmed(t, lease.Rollback(t.Context()), dynalimit.Amounts{"tpm": -500})
		s.db.SetFaults(nil)
		assert.Equal(t, int64(9500), s.level("user-1", "tpm"), "a failed adjust never refunds finished work")
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 1200}), "a lease that could not be ended has not ended")
		assert.Equal(t, int64(8800), s.level("user-1", "tpm"))
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(8800), s.level("user-1", "tpm"))
	})
}

// Clean-up gives up after its own bound; the write goes on by itself and is
// counted as consumed.
func TestCleanUpHasItsOwnBound(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: perMinute().Limits, CleanupTimeout: 100 * time.Millisecond}, func(t *testing.T, s *process) {
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 900 * time.Millisecond} })
		began := time.Now()
		requireUnconfirmed(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 700}), dynalimit.Amounts{"tpm": 700})
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		require.NoError(t, s.limiter.Close(t.Context()), "drains")
		s.db.SetFaults(nil)
		assert.Equal(t, int64(8800), s.level("user-1", "tpm"))
		assert.Equal(t, dynalimit.Amounts{"tpm": 1200}, lease.Used())
	})
}

// Texts of corrections name what is not known, and nothing that was not to change.
func TestTextOfAnUnconfirmedCorrection(t *testing.T) {
	cause := errors.New("cause")
	for text, e := range map[string]dynalimit.UnconfirmedError{
		"dynalimit: rpm +2, tpm -10 of key on gpt-4 may or may not have reached the bucket; do not repeat it: cause":                                                          {EntityID: "key", Resource: model, Amounts: dynalimit.Amounts{"tpm": -10, "rpm": 2}, Err: cause},
		"dynalimit: rpm's count at the levels above of key on gpt-4 was not written; the same call again writes it: cause":                                                    {EntityID: "key", Resource: model, Amounts: dynalimit.Amounts{"rpm": 0}, NotWritten: true, Err: cause},
		"dynalimit: rpm -1 of key on gpt-4 was not written; settle leases before Close: " + dynalimit.ErrClosed.Error():                                                       {EntityID: "key", Resource: model, Amounts: dynalimit.Amounts{"rpm": -1}, NotWritten: true, Err: dynalimit.ErrClosed},
		"dynalimit: rpm -1 of degraded calls could not be written to the counters of buckets and are lost; give Close more time (its context, Options.CleanupTimeout): cause": {Amounts: dynalimit.Amounts{"rpm": -1}, Err: cause},
	} {
		assert.EqualError(t, &e, text)
	}
}
