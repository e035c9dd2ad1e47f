package dynalimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

func requestsADay(n int64) *dynalimit.Options {
	return &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", n)}}
}

// The next call of this process is decided after what was given back, though nobody waited for
// it: calls that each need the whole limit follow each other.
func TestNextCallIsDecidedAfterSettleSoon(t *testing.T) {
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		virtual(t, &dynalimit.Options{Limits: requestsADay(100).Limits, ChargeMode: mode}, func(t *testing.T, s *process) {
			s.family("key", "org")
			s.slowly(5*time.Millisecond, 5*time.Millisecond)
			for range 40 {
				lease := s.acquire("key", dynalimit.Amounts{"rpm": 100})
				elapse(3 * time.Millisecond)
				began := time.Now()
				require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 0}, nil))
				assert.Zero(t, time.Since(began), "it waits for nobody")
				assert.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 1}), dynalimit.ErrLeaseEnded)
				require.NoError(t, lease.Rollback(t.Context()), "as a deferred one")
				assert.Zero(t, time.Since(began))
			}
			require.NoError(t, s.limiter.Close(t.Context()))
			assert.Zero(t, s.limiter.Health().Settling)
			for _, entity := range []string{"key", "org"} {
				assert.Equal(t, int64(0), s.stored(entity, "rpm").Consumed, entity)
			}
		})
	}
}

// What is used above the lease is written before SettleSoon returns.
func TestSettleSoonChargesInLine(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.slowly(5*time.Millisecond, 5*time.Millisecond)
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 5, "tpm": 500})
		var told []error
		require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 1, "tpm": 700}, func(err error) { told = append(told, err) }))
		assert.Equal(t, []error{nil}, told)
		assert.Equal(t, int64(700_000), s.stored("user-1", "tpm").Consumed)
		require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"tpm": 900}, func(err error) { told = append(told, err) }), "it has ended")
		assert.Equal(t, []error{nil, nil}, told)
		assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": 700}, lease.Used())

		lease = s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return throttled1 })
		e := requireUnconfirmed(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"tpm": 501}, func(error) { t.Error("nothing is settled") }), dynalimit.Amounts{"tpm": 1})
		assert.True(t, e.NotWritten)
		s.db.SetFaults(nil)
		require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"tpm": 501}, nil), "again")
		assert.Equal(t, int64(1201_000), s.stored("user-1", "tpm").Consumed)
	})
}

func TestSettleSoonRefusesWhatSettleDoes(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		soon := func(a dynalimit.Amounts) error { return lease.SettleSoon(t.Context(), a, func(error) { t.Error(a) }) }
		requireInvalid(t, soon(dynalimit.Amounts{"tpm": -1}), "amounts[tpm]")
		requireInvalid(t, soon(dynalimit.Amounts{"tmp": 1}), "amounts[tmp]")
		requireInvalid(t, new(dynalimit.Lease).SettleSoon(t.Context(), nil, nil), "lease")
		require.NoError(t, lease.Rollback(t.Context()))
	})
}

// Behind a correction under way it is settled in its turn, whatever that one does.
func TestSettleSoonFollowsACorrectionUnderWay(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 500})
		s.slowly(500*time.Millisecond, 0)
		adjusted, settled := make(chan error, 1), make(chan error, 1)
		go func() { adjusted <- lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 100}) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"tpm": 70}, func(err error) { settled <- err }))
		assert.ErrorIs(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 1}), dynalimit.ErrLeaseEnded)
		assert.Zero(t, time.Since(began))
		assert.Equal(t, 1, s.limiter.Health().Settling)
		require.NoError(t, <-adjusted)
		require.NoError(t, <-settled)
		assert.Equal(t, dynalimit.Amounts{"tpm": 70}, lease.Used())
		assert.Equal(t, int64(70_000), s.stored("user-1", "tpm").Consumed)
	})
}

// A bucket that hangs puts no other's callers in line, but its own from the 65th on; a limiter
// settles 1,024.
func TestSettleSoonIsBounded(t *testing.T) {
	virtual(t, requestsADay(1_000_000), func(t *testing.T, s *process) {
		leases := map[string][]*dynalimit.Lease{}
		for i := range 17 {
			for range 65 {
				leases[userOf(i)] = append(leases[userOf(i)], s.acquire(userOf(i), dynalimit.Amounts{"rpm": 10}))
			}
		}
		s.slowly(100*time.Millisecond, 0)
		began, soon := time.Now(), func(l *dynalimit.Lease) time.Duration {
			began := time.Now()
			require.NoError(t, l.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 1}, nil))
			return time.Since(began)
		}
		for i := range 16 {
			for _, l := range leases[userOf(i)][:64] {
				assert.Zero(t, soon(l))
			}
		}
		assert.Equal(t, 1024, s.limiter.Health().Settling)
		assert.NotZero(t, soon(leases[userOf(16)][0]), "more than a limiter settles")
		assert.Less(t, time.Since(began), time.Second)
		elapse(time.Second)
		for _, l := range leases[userOf(16)][1:] {
			assert.Zero(t, soon(l))
		}
		require.NoError(t, s.limiter.Close(t.Context()))
	})
	virtual(t, requestsADay(1_000_000), func(t *testing.T, s *process) {
		var leases []*dynalimit.Lease
		for range 65 {
			leases = append(leases, s.acquire("user-1", dynalimit.Amounts{"rpm": 10}))
		}
		s.slowly(100*time.Millisecond, 0)
		for i, l := range leases {
			began := time.Now()
			require.NoError(t, l.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 1}, nil))
			assert.Equal(t, i == 64, time.Since(began) > 0, i)
		}
	})
}

// At Close nothing is lost unsaid: what the counters of both levels hold is what was settled, give
// or take what is in doubt or was dropped; what surely was not written waited until it was.
func TestCloseSettles(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{
		"slow":         {Before: 300 * time.Millisecond, After: 300 * time.Millisecond},
		"throttled":    throttled1,
		"500":          {Error: &ddbmem.Error{Code: "InternalServerError"}},
		"drop":         {Drop: true},
		"lost answers": {Lose: true},
		"hang":         {Before: time.Hour},
	} {
		for _, patience := range []time.Duration{0, 300 * time.Millisecond, time.Minute} {
			for _, back := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %v back %v", name, patience, back), func(t *testing.T) {
					virtual(t, requestsADay(10_000), func(t *testing.T, s *process) {
						s.family("key", "org")
						var leases []*dynalimit.Lease
						for range 10 {
							leases = append(leases, s.acquire("key", dynalimit.Amounts{"rpm": 50}))
						}
						s.down(fault)
						var mu sync.Mutex
						var told []error
						note := func(err error) { mu.Lock(); defer mu.Unlock(); told = append(told, err) }
						for _, l := range leases {
							require.NoError(t, l.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 10}, note))
						}
						if back {
							elapse(700 * time.Millisecond)
							s.db.SetFaults(nil)
						}
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						err := s.limiter.Close(ctx)
						s.db.SetFaults(nil)
						elapse(time.Minute)
						err = errors.Join(append(told, err, s.limiter.Close(t.Context()))...)
						h, unsure := s.limiter.Health(), int64(0)
						for _, a := range []dynalimit.Amounts{h.Waiting, h.Doubt, h.Dropped} {
							unsure += a["rpm"]
						}
						off := int64(0)
						for _, entity := range []string{"key", "org"} {
							is := s.stored(entity, "rpm").Consumed / milli
							assert.GreaterOrEqual(t, is, int64(100), "nothing is given back twice")
							off += is - 100
						}
						assert.LessOrEqual(t, off, unsure)
						assert.Len(t, told, 10)
						assert.Zero(t, h.Settling)
						if off > 0 {
							require.Error(t, err, "what is not settled is said")
						}
						if back && patience == time.Minute {
							assert.LessOrEqual(t, off, h.Doubt["rpm"], "what can be told is told")
						}
					})
				})
			}
		}
	}
}

// What is throttled for longer than a call waits is given back all the same: it waits for its
// bucket, and Close waits for it.
func TestWhatCannotBeGivenBackSoonWaits(t *testing.T) {
	for _, closes := range []bool{false, true} {
		virtual(t, requestsADay(100), func(t *testing.T, s *process) {
			lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 50})
			s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return throttled1 })
			require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 10}, func(err error) { assert.NoError(t, err) }))
			closed := make(chan error, 1)
			if closes {
				go func() { closed <- s.limiter.Close(t.Context()) }()
			}
			elapse(5 * time.Second)
			s.db.SetFaults(nil)
			elapse(30 * time.Second)
			if closes {
				require.NoError(t, <-closed)
			}
			h := s.limiter.Health()
			assert.Equal(t, []int{0, 0, 0}, []int{h.WaitingBuckets, len(h.Doubt), len(h.Dropped)})
			assert.Equal(t, int64(10_000), s.stored("user-1", "rpm").Consumed)
		})
	}
}

// What became of leases that could not be settled is an error of Close.
func TestCloseNamesWhatIsNotSettled(t *testing.T) {
	virtual(t, requestsADay(100), func(t *testing.T, s *process) {
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 50})
		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return throttled1 })
		var told error
		require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 10}, func(err error) { told = err }))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := s.limiter.Close(ctx)
		var unsettled *dynalimit.UnsettledError
		require.ErrorAs(t, err, &unsettled)
		assert.Equal(t, 1, unsettled.Leases)
		assert.ErrorIs(t, unsettled, dynalimit.ErrUnconfirmed)
		elapse(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, told, dynalimit.ErrUnconfirmed)
		require.ErrorAs(t, s.limiter.Close(t.Context()), &unsettled)
		require.Len(t, unsettled.Levels, 1)
		assert.Equal(t, dynalimit.Amounts{"rpm": -40}, unsettled.Levels[0].Amounts)
		assert.Equal(t, dynalimit.Amounts{"rpm": 40}, s.limiter.Health().Dropped)
		s.db.SetFaults(nil)
		assert.Equal(t, int64(50_000), s.stored("user-1", "rpm").Consumed, "what was taken stays taken")
	})
}

// A give-back behind its caller rides in the next write of its bucket. Without one it is written after 20 ms, and at
// once where somebody may wait for it.
func TestGiveBackRidesInTheNextWrite(t *testing.T) {
	nobody := func(*testing.T, *process) {}
	takes := func(entity string, n int64) func(*testing.T, *process) {
		return func(_ *testing.T, s *process) { s.acquire(entity, dynalimit.Amounts{"rpm": n}) }
	}
	for name, c := range map[string]struct {
		limit dynalimit.Limit
		// first is called before the lease is settled, and then behind it.
		first, then func(t *testing.T, s *process)
		// early and late are the writes within 15 ms and within 25 ms.
		early, late int64
	}{
		"nobody comes":          {then: nobody, early: 0, late: 1},
		"a call of the bucket":  {then: takes("user-1", 1), early: 1, late: 1},
		"a call that needs it":  {then: takes("user-1", 100), early: 1, late: 1},
		"a call of another key": {then: takes("user-2", 1), early: 1, late: 2},
		"Close":                 {then: func(t *testing.T, s *process) { require.NoError(t, s.limiter.Close(t.Context())) }, early: 1, late: 1},
		"the 33rd of a bucket": {first: func(t *testing.T, s *process) {
			var leases [32]*dynalimit.Lease
			for i := range leases {
				leases[i] = s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			}
			for _, lease := range leases {
				require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 0}, nil))
			}
		}, then: nobody, early: 1, late: 1},
		"a waiter": {first: func(t *testing.T, s *process) {
			go func() {
				_, err := s.limiter.Wait(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 95})
				assert.NoError(t, err)
			}()
			synctest.Wait()
		}, then: nobody, early: 2, late: 2},
		"a waiter of another process": {first: func(t *testing.T, s *process) {
			note := schema.Note{At: s.clock.now().UnixMilli(), Lane: 7, Age: 100, Spread: 10}
			_, err := s.client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: &s.repo.table, Key: s.repo.keys.Bucket("user-1", model).Attributes(),
				UpdateExpression: aws.String("SET wn = :wn"), ExpressionAttributeValues: schema.Item{":wn": schema.Bytes(note.Bytes())},
			})
			require.NoError(t, err)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		}, then: nobody, early: 1, late: 1},
		"a slot": {limit: dynalimit.Concurrent("rpm", 100, time.Minute), then: nobody, early: 1, late: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if c.limit.Name == "" {
				c.limit = dynalimit.PerDay("rpm", 100)
			}
			virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{c.limit}}, func(t *testing.T, s *process) {
				s.acquire("user-2", dynalimit.Amounts{"rpm": 1})
				lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 20})
				if c.first != nil {
					c.first(t, s)
				}
				before := s.db.Meter()
				require.NoError(t, lease.SettleSoon(t.Context(), dynalimit.Amounts{"rpm": 0}, nil))
				synctest.Wait()
				c.then(t, s)
				elapse(15 * time.Millisecond)
				assert.Equal(t, c.early, s.db.Meter().Sub(before).Operations["UpdateItem"].Requests, "within 15 ms")
				elapse(10 * time.Millisecond)
				assert.Equal(t, c.late, s.db.Meter().Sub(before).Operations["UpdateItem"].Requests, "within 25 ms")
			})
		})
	}
}
