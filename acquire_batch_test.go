package dynalimit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
)

// A batch call sees each limit without its reserve: in what it may take, in its balances and in its waits. Interactive
// calls see all of it.
func TestBatchCallsSeeLimitsWithoutTheirReserves(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1000).WithBurst(300).WithReserve(150), dynalimit.PerDay("free", 10).WithReserve(-1)}}, func(t *testing.T, s *process) {
		batch := dynalimit.WithBatch()
		for amount, want := range map[string]string{
			"rpm": "81 asked by a batch call, the burst is 100, of which a reserve of 20 is for interactive calls; ask for less or lower the reserve",
			"tpm": "151 asked by a batch call, the burst is 300, of which a reserve of 150 is for interactive calls; ask for less or lower the reserve",
		} {
			n := map[string]int64{"rpm": 81, "tpm": 151}[amount]
			_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{amount: n}, batch)
			require.ErrorIs(t, err, dynalimit.ErrExceedsBurst)
			assert.ErrorContains(t, err, want)
		}
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 80, "tpm": 150, "free": 10}, batch)
		assert.Equal(t, []int64{0, 0, 0}, []int64{lease.Statuses()[0].Remaining, lease.Statuses()[1].Remaining, lease.Statuses()[2].Remaining})
		denied := s.deny("key", dynalimit.Amounts{"rpm": 2}, batch)
		assert.Equal(t, 1200*time.Millisecond, denied.RetryAfter)
		assert.EqualValues(t, 0, denied.Primary().Remaining)
		report, err := s.limiter.Check(t.Context(), "key", model, dynalimit.Amounts{"rpm": 2}, batch)
		require.NoError(t, err)
		assert.Equal(t, 1200*time.Millisecond, report.RetryAfter)
		assert.Equal(t, dynalimit.Amounts{"rpm": 0, "tpm": 0, "free": 0}, report.Available())
		s.clock.advance(1199 * time.Millisecond)
		s.deny("key", dynalimit.Amounts{"rpm": 2}, batch)
		s.clock.advance(time.Millisecond)
		s.acquire("key", dynalimit.Amounts{"rpm": 2}, batch)
		s.acquire("key", dynalimit.Amounts{"rpm": 20, "tpm": 150})
		s.deny("key", dynalimit.Amounts{"rpm": 1})
	})
}

// The reserve is of every kind of limit, at every level, and of none in shadow. Consume keeps the class of its lease,
// and Adjust and Settle have no floor.
func TestBatchCallsLeaveReservesOfEveryKind(t *testing.T) {
	for name, limit := range map[string]dynalimit.Limit{
		"bucket": dynalimit.PerDay("x", 10), "quota": dynalimit.DailyQuota("x", 10, "UTC"), "slots": dynalimit.Concurrent("x", 10, time.Minute), "transaction": dynalimit.PerDay("x", 10),
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, nil, func(t *testing.T, s *process) {
				batch := []dynalimit.AcquireOption{dynalimit.WithBatch(), dynalimit.WithLimits(limit)}
				if name == "transaction" {
					batch = append(batch, dynalimit.WithChargeMode(dynalimit.ChargeTransaction))
				}
				s.children("team", "key")
				s.limits(admin.Scope{Everyone: true}, limit)
				lease := s.acquire("key", dynalimit.Amounts{"x": 7}, batch[:1]...)
				s.deny("key", dynalimit.Amounts{"x": 2}, batch...)
				require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"x": 1}))
				require.ErrorIs(t, lease.Consume(t.Context(), dynalimit.Amounts{"x": 1}), dynalimit.ErrLimitExceeded)
				if name != "slots" {
					require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"x": 1}))
				}
				s.acquire("key", dynalimit.Amounts{"x": 1})
			})
		})
	}
	s := memProcess(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("x", 10).AsShadow()}})
	assert.Zero(t, s.acquire("key", dynalimit.Amounts{"x": 10}, dynalimit.WithBatch()).Statuses()[0].Uncharged)
}

// While DynamoDB does not answer, a batch call may use the process's share of each limit less the same share of its
// reserve.
func TestBatchCallsLeaveTheirShareOfTheReserve(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Local, LocalShare: .5, Limits: []dynalimit.Limit{dynalimit.PerDay("x", 100), dynalimit.Concurrent("y", 20, time.Minute)}}, func(t *testing.T, s *process) {
		s.acquire("key", dynalimit.Amounts{"y": 1})
		s.cutOff(ddbmem.Fault{After: 1500 * time.Millisecond})
		s.acquire("key", dynalimit.Amounts{"x": 40, "y": 7}, dynalimit.WithBatch())
		s.deny("key", dynalimit.Amounts{"x": 1}, dynalimit.WithBatch())
		s.deny("key", dynalimit.Amounts{"y": 1}, dynalimit.WithBatch())
		s.acquire("key", dynalimit.Amounts{"x": 10, "y": 2})
		s.recovers()
	})
}

// Batch calls use no prefetched tokens.
func TestBatchCallsUseNoPrefetchedTokens(t *testing.T) {
	virtual(t, &dynalimit.Options{Prefetch: time.Second, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60_000)}}, func(t *testing.T, s *process) {
		for range 100 {
			s.acquire("key", dynalimit.Amounts{"rpm": 1})
			elapse(10 * time.Millisecond)
		}
		before := s.writesOfLog("key")
		for range 10 {
			s.acquire("key", dynalimit.Amounts{"rpm": 1}, dynalimit.WithBatch())
		}
		assert.Equal(t, before+10, s.writesOfLog("key"))
	})
}

// Waiting batch calls are served in order, and behind interactive ones, which leave them nothing.
func TestInteractiveCallsDoNotStandBehindBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, dynalimit.PerSecond("rps", 10))
		drain(t, l, dynalimit.Amounts{"rps": 10})
		began := time.Now()
		var mu sync.Mutex
		var order []string
		var group sync.WaitGroup
		wait := func(name string, n int64, opts ...dynalimit.AcquireOption) {
			group.Go(func() {
				_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rps": n}, opts...)
				assert.NoError(t, err)
				mu.Lock()
				order = append(order, fmt.Sprintf("%s after %v", name, time.Since(began)))
				mu.Unlock()
			})
			synctest.Wait()
		}
		wait("first batch", 8, dynalimit.WithBatch())
		wait("second batch", 1, dynalimit.WithBatch())
		<-time.After(100 * time.Millisecond)
		_, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rps": 1})
		require.NoError(t, err)
		wait("interactive", 9)
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rps": 1}, dynalimit.WithBatch())
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		group.Wait()
		assert.Equal(t, []string{"interactive after 1s", "first batch after 2s", "second batch after 2.1s"}, order)
	})
}

// Batches of five processes that use all they can deny interactive calls no more often than the reserve alone would,
// and get nearly all of the rest.
func TestPeopleComeBeforeBatches(t *testing.T) {
	for name, places := range map[string]func(i int) int{"in another process": func(int) int { return 5 }, "in the same processes": func(i int) int { return i % 5 }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rate, reserve, people, lasts = 30, 12, 20, 300 * time.Second
				all, _ := peers(t, 6, 5*time.Millisecond, dynalimit.PerMinute("rpm", 60*rate).WithBurst(5*reserve))
				alone, _ := waitLimiter(t, dynalimit.PerMinute("rpm", 60*rate).WithBurst(reserve))
				drain(t, all[5], dynalimit.Amounts{"rpm": 5 * reserve})
				<-time.After(reserve * time.Second / rate)
				until := time.Now().Add(lasts)
				var group sync.WaitGroup
				var batches, calls, used, denied, deniedAlone atomic.Int64
				for _, l := range all[:5] {
					for range 4 {
						group.Go(func() {
							for time.Now().Before(until) {
								_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 1}, dynalimit.WithBatch())
								if assert.NoError(t, err) && time.Now().Before(until) {
									batches.Add(1)
								}
							}
						})
					}
				}
				for i := range people {
					random := rand.New(rand.NewPCG(uint64(i), 0))
					group.Go(func() {
						for time.Now().Before(until) {
							<-time.After(time.Duration(random.ExpFloat64() * people / 12 * float64(time.Second))) // 12 calls a second, 21 tokens
							n := []int64{1, 1, 2, 3}[random.IntN(4)]
							calls.Add(1)
							for _, of := range []struct {
								limiter *rateLimiter
								denied  *atomic.Int64
							}{{all[places(i)], &denied}, {alone, &deniedAlone}} {
								_, err := of.limiter.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": n})
								switch {
								case errors.Is(err, dynalimit.ErrLimitExceeded):
									of.denied.Add(1)
								case assert.NoError(t, err) && of.limiter != alone:
									used.Add(n)
								}
							}
						}
					})
				}
				group.Wait()
				rest := rate*int64(lasts.Seconds()) - used.Load()
				text := fmt.Sprintf("%d interactive calls, denied %d, alone on the reserve %d; batches got %d of %d", calls.Load(), denied.Load(), deniedAlone.Load(), batches.Load(), rest)
				t.Log(text)
				assert.LessOrEqual(t, denied.Load(), deniedAlone.Load(), text)
				assert.GreaterOrEqual(t, float64(batches.Load()), .97*float64(rest), text)
			})
		})
	}
}
