package admin_test

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
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// refusedTransactions refuses the first transactions, as if others had written meanwhile.
func refusedTransactions(first int32) func(*ddbmem.Request) ddbmem.Fault {
	var n atomic.Int32
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation != "TransactWriteItems" || n.Add(1) > first {
			return ddbmem.Fault{}
		}
		return ddbmem.Fault{Error: &ddbmem.Error{
			Code: "TransactionCanceledException", Message: "Transaction cancelled",
			Reasons: []ddbmem.Reason{{Code: "ConditionalCheckFailed"}, {Code: "None"}, {Code: "None"}},
		}}
	}
}

// An answer that is lost, once or for good, does not make an operation happen twice, and
// what is repeated after an error happens once.
func TestLostAnswersRefillOnce(t *testing.T) {
	for name, lost := range map[string]int32{"once": 1, "for good": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 100)}})
				s.acquire("user-1", dynalimit.Amounts{"rpd": 100})
				var n atomic.Int32
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					return ddbmem.Fault{Lose: r.Operation == "TransactWriteItems" && n.Add(1) <= lost}
				})
				done, err := admin.New(s.repo).Buckets.TopUp(t.Context(), "user-1", model, "x", dynalimit.Amounts{"rpd": 10})
				require.NoError(t, err, "the event proves it")
				assert.False(t, done.Repeated)
				s.db.SetFaults(nil)
				assert.EqualValues(t, 10, s.remaining("rpd"))
				assert.True(t, s.topUp("x", dynalimit.Amounts{"rpd": 10}).Repeated)
				assert.EqualValues(t, 10, s.remaining("rpd"))
				assert.Len(t, trail(t, s.repo, audit.Query{Target: "user-1"}), 1)
			})
		})
	}
	t.Run("nothing answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 100)}})
			s.acquire("user-1", dynalimit.Amounts{"rpd": 100})
			var sent atomic.Bool
			s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Operation == "TransactWriteItems" {
					sent.Store(true)
				}
				return ddbmem.Fault{Lose: sent.Load()}
			})
			_, err := admin.New(s.repo).Buckets.TopUp(t.Context(), "user-1", model, "x", dynalimit.Amounts{"rpd": 10})
			require.ErrorIs(t, err, dynalimit.ErrUnavailable)
			require.ErrorContains(t, err, "operation x")
			s.db.SetFaults(nil)
			s.recovers()
			assert.True(t, s.topUp("x", dynalimit.Amounts{"rpd": 10}).Repeated)
			assert.EqualValues(t, 10, s.remaining("rpd"))
		})
	})
}

// A refill gets through although 64 callers of 8 processes take from the bucket all the
// time, and nothing is admitted beyond what it adds.
func TestRefillsGetThroughBesideTakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes, callers, burst, added = 8, 8, 4_000, 2_000
		s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", burst)}})
		s.acquire("user-1", dynalimit.Amounts{"rpd": added})
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Before: 2 * time.Millisecond, After: time.Millisecond}
		})
		began := time.Now()
		var taken atomic.Int64
		taken.Add(added)
		var wg sync.WaitGroup
		for range processes {
			p := s.peer(&dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", burst)}})
			for range callers {
				wg.Go(func() {
					for time.Since(began) < 8*time.Second {
						if _, err := p.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpd": 1}); err == nil {
							taken.Add(1)
						}
						<-time.After(20 * time.Millisecond)
					}
				})
			}
		}
		<-time.After(100 * time.Millisecond)
		done := s.topUp("", dynalimit.Amounts{"rpd": added})
		require.Len(t, done.After, 1)
		wg.Wait()
		s.db.SetFaults(nil)
		<-time.After(time.Minute)
		given := taken.Load() + s.remaining("rpd")
		earned := int64(time.Since(began)/time.Second)*burst/86_400 + 1
		assert.LessOrEqual(t, given, burst+added+earned)
		assert.GreaterOrEqual(t, given, int64(burst+added-burst/8))
		t.Logf("estimated %t, %+v, taken %d, the bucket holds %d", done.Estimated, done.After, taken.Load(), s.remaining("rpd"))
	})
}

// Where every try meets another write the bucket is left as it is, and the error says so.
func TestRefillsThatAlwaysConflictChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 100)}})
		s.acquire("user-1", dynalimit.Amounts{"rpd": 100})
		s.db.SetFaults(on("TransactWriteItems", ddbmem.Fault{Error: &ddbmem.Error{
			Code: "TransactionCanceledException", Message: "Transaction cancelled [TransactionConflict, None, None]",
			Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}, {Code: "None"}, {Code: "None"}},
		}}))
		_, err := admin.New(s.repo).Buckets.Reset(t.Context(), "user-1", model, "")
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.ErrorContains(t, err, "others were in the way in each of 8 tries")
		s.db.SetFaults(nil)
		assert.Zero(t, s.remaining("rpd"))
		assert.Empty(t, trail(t, s.repo, audit.Query{Target: "user-1"}))
	})
}

// A limiter on the same Repository uses at once what a refill adds; one of another process
// within a second.
func TestRefillsReachLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 100)}}
		s := liveProcess(t, memEngine(t), limits)
		other := s.peer(limits)
		s.acquire("user-1", dynalimit.Amounts{"rpd": 100})
		s.deny("user-1", dynalimit.Amounts{"rpd": 1})
		other.deny("user-1", dynalimit.Amounts{"rpd": 1})
		s.reset("")
		s.acquire("user-1", dynalimit.Amounts{"rpd": 1})
		<-time.After(time.Second + time.Millisecond)
		other.acquire("user-1", dynalimit.Amounts{"rpd": 1})
	})
}

// What a write shows that was under way during a refill does not deny what the refill
// added.
func TestARefillDuringAWriteIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 100)}})
		s.acquire("user-1", dynalimit.Amounts{"rpd": 1})
		s.db.SetFaults(on("UpdateItem", ddbmem.Fault{After: 500 * time.Millisecond}))
		var wg sync.WaitGroup
		wg.Go(func() { s.acquire("user-1", dynalimit.Amounts{"rpd": 99}) })
		<-time.After(100 * time.Millisecond)
		s.reset("")
		wg.Wait()
		s.db.SetFaults(nil)
		s.acquire("user-1", dynalimit.Amounts{"rpd": 100})
	})
}

// Who waits for hours hears of a refill: in this process at once, in another within the
// configuration's TTL.
func TestWaitersHearOfARefill(t *testing.T) {
	for name, own := range map[string]bool{"of this process": true, "of another process": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 24)}}
				s := liveProcess(t, memEngine(t), limits)
				s.acquire("user-1", dynalimit.Amounts{"rpd": 24})
				operator := s.repo
				if !own {
					operator = s.peer(nil).repo
				}
				began := time.Now()
				var served time.Duration
				var wg sync.WaitGroup
				wg.Go(func() {
					_, err := s.limiter.Wait(t.Context(), "user-1", model, dynalimit.Amounts{"rpd": 5})
					assert.NoError(t, err)
					served = time.Since(began)
				})
				<-time.After(30 * time.Minute)
				_, err := admin.New(operator).Buckets.Reset(t.Context(), "user-1", model, "")
				require.NoError(t, err)
				wg.Wait()
				within := time.Minute
				if own {
					within = 0
				}
				assert.LessOrEqual(t, served, 30*time.Minute+within)
			})
		})
	}
}

// What gives back, adjusts or takes by what it saw before a reset leaves the bucket right.
func TestWritesInFlightAcrossAReset(t *testing.T) {
	limits := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 100)}}
	for name, play := range map[string]struct {
		late func(s *process, lease *dynalimit.Lease)
		want int64
	}{
		"a give-back fills nothing that is full": {func(s *process, lease *dynalimit.Lease) {
			require.NoError(s.t, lease.Rollback(s.t.Context()))
		}, 100},
		"an adjust is charged": {func(s *process, lease *dynalimit.Lease) {
			require.NoError(s.t, lease.Adjust(s.t.Context(), dynalimit.Amounts{"rpd": 30}))
		}, 70},
		"a take is charged": {func(s *process, lease *dynalimit.Lease) { s.acquire("user-1", dynalimit.Amounts{"rpd": 30}) }, 70},
	} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, limits)
			lease := s.acquire("user-1", dynalimit.Amounts{"rpd": 60})
			s.clock.advance(90 * time.Minute) // 6.25
			s.peer(limits).reset("")
			play.late(s, lease)
			assert.Equal(t, play.want, s.remaining("rpd"))
			s.acquire("user-1", dynalimit.Amounts{"rpd": play.want})
			s.deny("user-1", dynalimit.Amounts{"rpd": 1})
		})
	}
}
