package dynalimit_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// outcomesOf is what came of calls made together: how long each took, its lease
// and error.
type outcomesOf struct {
	mu     sync.Mutex
	took   []time.Duration
	leases []*dynalimit.Lease
	errs   []error
}

// together makes n calls at once, each for one of some users.
func (s *process) together(n, users int, a dynalimit.Amounts, opts ...dynalimit.AcquireOption) *outcomesOf {
	out := &outcomesOf{}
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			began := time.Now()
			lease, err := s.limiter.Acquire(s.t.Context(), userOf(i%users), model, a, opts...)
			out.mu.Lock()
			defer out.mu.Unlock()
			out.took = append(out.took, time.Since(began))
			if err != nil {
				out.errs = append(out.errs, err)
			} else {
				out.leases = append(out.leases, lease)
			}
		})
	}
	group.Wait()
	return out
}

// While nothing answers, the first callers wait for one request, and nobody after
// them for any; what was used is told to the counters afterwards, give or take what was in
// flight, and the tokens pay nothing.
func TestOutageAdmitsAtOnceAndTellsAfterwards(t *testing.T) {
	for name, silent := range silences {
		for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Allow, dynalimit.Local} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				const users = 4
				virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100_000)}, OnUnavailable: policy}, func(t *testing.T, s *process) {
					for i := range users {
						s.acquire(userOf(i), dynalimit.Amounts{"rpm": 1})
					}
					s.db.SetFaults(silent)
					first := s.together(256, users, dynalimit.Amounts{"rpm": 1})
					require.Empty(t, first.errs)
					assert.LessOrEqual(t, slices.Max(first.took), 1200*time.Millisecond)
					used := int64(users + 256)
					for range 20 {
						later := s.together(256, users, dynalimit.Amounts{"rpm": 3})
						require.Empty(t, later.errs)
						assert.Zero(t, slices.Max(later.took), "nobody waits for a store that does not answer")
						for _, lease := range later.leases {
							assert.True(t, lease.Degraded())
							require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 2}))
							used += 2
						}
						elapse(time.Second)
					}
					h := s.limiter.Health()
					assert.True(t, h.Open)
					assert.True(t, h.Ready)
					require.Error(t, h.Cause)
					assert.Equal(t, users, h.WaitingBuckets)
					s.recovers()
					told, doubt := s.consumed(users, "rpm"), s.limiter.Health().Doubt["rpm"]
					assert.InDelta(t, used, told, float64(doubt))
					assert.LessOrEqual(t, doubt, int64(256), "what was in flight")
					assert.Empty(t, s.limiter.Health().Dropped)
					for i := range users {
						assert.GreaterOrEqual(t, s.level(userOf(i), "rpm"), 100_000-1-doubt)
					}
					require.Empty(t, s.together(8, users, dynalimit.Amounts{"rpm": 1}).errs)
				})
			})
		}
	}
}

// Under Refuse calls fail at once and say when the store is asked again.
func TestOutageBlocksAtOnce(t *testing.T) {
	for name, silent := range silences {
		t.Run(name, func(t *testing.T) {
			virtual(t, perMinute(), func(t *testing.T, s *process) {
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				s.db.SetFaults(silent)
				first := s.together(64, 1, dynalimit.Amounts{"rpm": 1})
				require.Len(t, first.errs, 64)
				assert.LessOrEqual(t, slices.Max(first.took), 1200*time.Millisecond)
				for range 5 {
					later := s.together(64, 1, dynalimit.Amounts{"rpm": 1})
					require.Len(t, later.errs, 64)
					assert.Zero(t, slices.Max(later.took))
					for _, err := range later.errs {
						require.ErrorIs(t, err, dynalimit.ErrUnavailable)
						wait, ok := dynalimit.RetryAfter(err)
						require.True(t, ok)
						assert.Greater(t, wait, time.Duration(0))
						assert.LessOrEqual(t, wait, 10*time.Second)
					}
					elapse(time.Second)
				}
				assert.False(t, s.limiter.Health().Ready)
				s.recovers()
				assert.True(t, s.limiter.Health().Ready)
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
				elapse(time.Second)
				assert.LessOrEqual(t, s.consumed(1, "rpm"), int64(3), "nothing is kept for calls that failed, but for what is in doubt")
			})
		})
	}
}

// A caller's own deadline leaves the policy time to decide, but only after a
// silence: a short deadline on a store that answers is no way around a limit.
func TestDeadlineOfACallerDuringAnOutage(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		within := func(d time.Duration) (time.Duration, *dynalimit.Lease, error) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			began := time.Now()
			lease, err := s.limiter.Acquire(ctx, userOf(0), model, dynalimit.Amounts{"rpm": 1})
			return time.Since(began), lease, err
		}
		s.down(ddbmem.Fault{Before: time.Hour})
		took, lease, err := within(500 * time.Millisecond)
		require.NoError(t, err)
		assert.True(t, lease.Degraded())
		assert.Equal(t, 450*time.Millisecond, took, "a tenth is kept for the policy")
		elapse(3 * time.Second)
		took, _, err = within(5 * time.Second)
		require.NoError(t, err)
		assert.Zero(t, took, "by now it is known")
		s.recovers()

		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 20 * time.Millisecond} })
		_, _, err = within(5 * time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, s.limiter.Health().Open)
		assert.Zero(t, s.limiter.Health().SilentBuckets)

		// The time before its bucket was asked is no silence of that: the configuration was read meanwhile.
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "BatchGetItem" {
				return ddbmem.Fault{Before: 170 * time.Millisecond}
			}
			return ddbmem.Fault{Before: 105 * time.Millisecond}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = s.limiter.Acquire(ctx, userOf(1), model, dynalimit.Amounts{"rpm": 1})
		require.ErrorIs(t, err, context.DeadlineExceeded, "no policy admits")
		s.recovers()
	})
}

// What answers, lives: nothing opens for want of capacity, and no policy admits.
func TestThrottlingIsNoOutage(t *testing.T) {
	for name, match := range map[string]string{"one key": "user-a", "the table": ""} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 10)}}, func(t *testing.T, s *process) {
				s.acquire(userOf(0), dynalimit.Amounts{"rpm": 4})
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					if bytes.Contains(r.Body, []byte(match)) {
						return throttled1
					}
					return ddbmem.Fault{}
				})
				for i := range 12 {
					began := time.Now()
					_, err := s.limiter.Acquire(t.Context(), userOf(0), model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable([]dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local}[i%3]))
					assert.LessOrEqual(t, time.Since(began), 2200*time.Millisecond, "Options.Timeout")
					require.ErrorIs(t, err, dynalimit.ErrUnavailable)
					wait, ok := dynalimit.RetryAfter(err)
					assert.True(t, ok)
					assert.Positive(t, wait)
				}
				assert.False(t, s.limiter.Health().Open)
				assert.Zero(t, s.limiter.Health().SilentBuckets)
				assert.Zero(t, s.limiter.Health().WaitingBuckets)
				s.recovers()
				assert.Equal(t, int64(4), s.consumed(1, "rpm"))
			})
		})
	}
}

// The policy admits callers of buckets that were not asked, because other buckets of the process had their turns when
// the table fell silent: before the callers' deadlines, and with the timeout of a request.
func TestOutageEndsTheWaitForPasses(t *testing.T) {
	for _, c := range []struct{ deadline, most time.Duration }{{300 * time.Millisecond, 270 * time.Millisecond}, {5 * time.Second, 1050 * time.Millisecond}} {
		virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
			const users = 26
			require.Empty(t, s.together(users, users, dynalimit.Amounts{"rpm": 1}).errs)
			s.limiter.lanes.Passes = lane.NewPasses(1)
			s.down(ddbmem.Fault{Before: time.Hour})
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			defer cancel()
			var all sync.WaitGroup
			for i := range users {
				all.Go(func() {
					lease, err := s.limiter.Acquire(ctx, userOf(i), model, dynalimit.Amounts{"rpm": 1})
					assert.NoError(t, err)
					assert.True(t, lease.Degraded())
					assert.LessOrEqual(t, time.Since(began), c.most)
				})
			}
			all.Wait()
			s.recovers()
			assert.InDelta(t, 2*users, s.consumed(users, "rpm"), float64(s.limiter.Health().Doubt["rpm"]))
		})
	}
}

// One sick partition opens its bucket, not the table.
func TestSickPartitionOpensItsBucketAlone(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		for i := range 2 {
			s.acquire(userOf(i), dynalimit.Amounts{"rpm": 1})
		}
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if bytes.Contains(r.Body, []byte("user-a")) {
				return ddbmem.Fault{Before: time.Hour}
			}
			return ddbmem.Fault{}
		})
		well := make(chan int)
		stop := make(chan struct{})
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					well <- n
					return
				case <-time.After(100 * time.Millisecond):
					lease, err := s.limiter.Acquire(t.Context(), userOf(1), model, dynalimit.Amounts{"rpm": 1})
					assert.NoError(t, err)
					assert.False(t, lease.Degraded())
					n++
				}
			}
		}()
		elapse(150 * time.Millisecond)
		sick := s.together(16, 1, dynalimit.Amounts{"rpm": 1})
		require.Empty(t, sick.errs)
		assert.LessOrEqual(t, slices.Max(sick.took), 1200*time.Millisecond)
		elapse(time.Second)
		assert.False(t, s.limiter.Health().Open)
		assert.Equal(t, 1, s.limiter.Health().SilentBuckets)
		close(stop)
		assert.Greater(t, <-well, 10)
		s.recovers()
		charged, doubt := s.consumed(1, "rpm"), s.limiter.Health().Doubt["rpm"]
		assert.LessOrEqual(t, charged, int64(17))
		assert.GreaterOrEqual(t, charged+doubt, int64(17))
	})
}

// Configuration serves past its TTL while the table does not answer, and not for
// ever.
func TestConfigurationOutlastsAnOutage(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		require.NoError(t, second(s.repo.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 10)}, OnUnavailable: dynalimit.Local, Version: admin.AnyVersion})))
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		s.clock.advance(30 * time.Minute)
		s.acquire(userOf(0), dynalimit.Amounts{"rpm": 9})
		s.deny(userOf(0), dynalimit.Amounts{"rpm": 1})
		s.clock.advance(40 * time.Minute)
		lease := s.acquire(userOf(0), dynalimit.Amounts{"rpm": 1})
		assert.Empty(t, lease.Statuses(), "nothing is known any more, and Allow is what the limiter says")
		s.recovers()
	})
}

// hangs are the ways in which one bucket can be silent.
var hangs = map[string]ddbmem.Fault{
	"drop": {Drop: true}, "hang": {Before: time.Hour}, "lost answers": {After: time.Hour},
	"5xx": {Error: &ddbmem.Error{Code: "InternalServerError"}},
}

// One sick partition of a parent: however a cascade is charged, its bucket alone opens, after
// one call or two that paid for it, and the others are charged as ever.
func TestOneSickLevelOfATransactionOpensAlone(t *testing.T) {
	for name, fault := range hangs {
		for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
			for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local} {
				t.Run(name+" "+string(mode)+" "+string(policy), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, ChargeMode: mode, OnUnavailable: policy})
						s.family("key", "project", "org")
						s.acquire("key", dynalimit.Amounts{"rpm": 1})
						s.db.SetFaults(s.silenceOf("org", fault))
						stop := s.readsOthers()
						slow, admitted := 0, int64(1)
						for range 60 {
							began := time.Now()
							_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1})
							if assert.LessOrEqual(t, time.Since(began), 2100*time.Millisecond); time.Since(began) > 100*time.Millisecond {
								slow++
							}
							if err == nil {
								admitted++
							} else {
								require.ErrorIs(t, err, dynalimit.ErrUnavailable)
							}
							elapse(300 * time.Millisecond)
						}
						assert.LessOrEqual(t, slow, 2)
						assert.Equal(t, 1, s.limiter.Health().SilentBuckets)
						assert.False(t, s.limiter.Health().Open)
						if policy != dynalimit.Refuse {
							assert.Equal(t, int64(61), admitted)
						}
						s.recovers()
						elapse(time.Minute)
						stop()
						doubt := s.limiter.Health().Doubt["rpm"]
						assert.LessOrEqual(t, doubt, int64(6), "what was under way")
						for _, id := range []string{"key", "project"} {
							assert.Equal(t, 1000-admitted, s.stored(id, "rpm").Tokens/milli, "charged, and nothing counted")
						}
						assert.InDelta(t, admitted, s.stored("org", "rpm").Consumed/milli, float64(doubt))
					})
				})
			}
		}
	}
}

// What a transaction took although no answer came is given back, although nobody calls who
// would ask its buckets.
func TestLostTransactionIsGivenBackWithoutTraffic(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, ChargeMode: dynalimit.ChargeTransaction}, func(t *testing.T, s *process) {
		s.family("key", "org")
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.db.SetFaults(func(q *ddbmem.Request) (f ddbmem.Fault) {
			switch q.Operation {
			case "TransactWriteItems":
				f.After = time.Hour
			case "UpdateItem": // a probe that is answered would have the levels asked one by one
				f.Before = time.Hour
			}
			return f
		})
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 10})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		assert.Equal(t, int64(989), s.stored("key", "rpm").Tokens/milli, "it landed")
		s.db.SetFaults(nil)
		elapse(10 * time.Second)
		for _, id := range []string{"key", "org"} {
			assert.Equal(t, int64(999), s.stored(id, "rpm").Tokens/milli, id)
		}
		assert.Zero(t, s.limiter.Health().Doubt["rpm"])
	})
}
