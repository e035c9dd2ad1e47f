package dynalimit_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
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

// waited is one Wait: when it came, and when it was served.
type waited struct{ came, served time.Time }

// loopWaits waits for amounts again and again for a time, in a number of callers. It returns the waits in order
// of arrival.
func loopWaits(t *testing.T, l *rateLimiter, callers int, amounts dynalimit.Amounts, d time.Duration) []waited {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		all   []waited
	)
	for range callers {
		group.Go(func() {
			for until := time.Now().Add(d); time.Now().Before(until); {
				came := time.Now()
				_, err := l.Wait(t.Context(), "u", "m", amounts)
				assert.NoError(t, err)
				mu.Lock()
				all = append(all, waited{came, time.Now()})
				mu.Unlock()
			}
		})
	}
	group.Wait()
	slices.SortFunc(all, func(a, b waited) int { return cmp.Or(a.came.Compare(b.came), a.served.Compare(b.served)) })
	return all
}

// Where a bucket refills many calls in a round trip, too, nobody is served more than a round trip before a
// waiter that came a round trip earlier.
func TestNobodyOvertakesInAProcess(t *testing.T) {
	for _, waiters := range []int{100, 200, 1000} {
		synctest.Test(t, func(t *testing.T) {
			const trip, most = 5 * time.Millisecond, 7 * time.Millisecond // a write waits up to 2 ms for its callers
			rate := int64(2 * waiters)
			l, db := waitLimiter(t, dynalimit.PerSecond("rps", rate))
			drain(t, l, dynalimit.Amounts{"rps": rate})
			db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: trip} })
			all := loopWaits(t, l, waiters, dynalimit.Amounts{"rps": 1}, 3*time.Second)
			require.Greater(t, len(all), 4*waiters)
			overtook, longest := 0, time.Duration(0)
			for i, a := range all {
				longest = max(longest, a.served.Sub(a.came))
				if slices.ContainsFunc(all[i+1:], func(b waited) bool {
					return b.came.Sub(a.came) > most && a.served.Sub(b.served) > most
				}) {
					overtook++
				}
			}
			assert.Zero(t, overtook, "%d waiters", waiters)
			assert.Less(t, longest, 520*time.Millisecond, "%d waiters", waiters)
		})
	}
}

// peers are limiters of processes that share a table behind a round trip, with the same limits.
func peers(t *testing.T, n int, trip time.Duration, limits ...dynalimit.Limit) ([]*rateLimiter, *ddbmem.DB) {
	t.Helper()
	first, db := waitLimiter(t, limits...)
	all := []*rateLimiter{first}
	for range n - 1 {
		repo, err := openRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: tester})
		require.NoError(t, err)
		l, err := openLimiter(repo, &dynalimit.Options{Limits: limits})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close(context.WithoutCancel(t.Context()))) })
		all = append(all, l)
	}
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: trip} })
	return all, db
}

// Processes share a bucket in proportion to their waiters, however many they are, and nearly all of it is granted.
func TestProcessesShareByTheirWaiters(t *testing.T) {
	for name, c := range map[string]struct {
		processes, waiters int
		rate               int64
		low, high          float64
		lasts              time.Duration // after 10 seconds
		aDay               int64         // of a limit that is never scarce, of which each call takes 100
	}{
		"2 of 1":                      {2, 1, 30, .7, 1.35, 60 * time.Second, 0},
		"3 of 1":                      {3, 1, 30, .7, 1.35, 60 * time.Second, 0},
		"2 of 1 beside a daily limit": {2, 1, 30, .7, 1.35, 60 * time.Second, 10_000_000},
		"3 of 2 beside a daily limit": {3, 2, 30, .7, 1.35, 60 * time.Second, 10_000_000},
		"2 of 50":                     {2, 50, 30, .84, 1.2, 60 * time.Second, 0},
		"2 of 10":                     {2, 10, 30, .84, 1.2, 60 * time.Second, 0},
		"20 of 5":                     {20, 5, 100, .75, 1.3, 60 * time.Second, 0},
		"100 of 2":                    {100, 2, 100, .6, 1.55, 100 * time.Second, 0}, // of each process one take a second
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const warm = 10 * time.Second
				lasts := warm + c.lasts
				limits, amounts := []dynalimit.Limit{dynalimit.PerMinute("rpm", 60*c.rate).WithBurst(2 * c.rate)}, dynalimit.Amounts{"rpm": 1}
				if c.aDay > 0 {
					limits, amounts["tpd"] = append(limits, dynalimit.PerDay("tpd", c.aDay)), 100
				}
				all, _ := peers(t, c.processes, 5*time.Millisecond, limits...)
				drain(t, all[0], dynalimit.Amounts{"rpm": 2 * c.rate})
				began := time.Now()
				var group sync.WaitGroup
				served := make([][]waited, len(all))
				for i, l := range all {
					group.Go(func() { served[i] = loopWaits(t, l, c.waiters, amounts, lasts) })
				}
				group.Wait()
				turn := time.Duration(c.processes*c.waiters) * time.Second / time.Duration(c.rate)
				span := min(max(c.lasts/3, 4*turn), c.lasts)
				share, granted := float64(c.rate)*span.Seconds()/float64(c.processes), 0
				low, high := 9., 0.
				for from := warm; from+span <= lasts; from += span / 2 {
					for i := range served {
						n := countServed(served[i], began.Add(from), span)
						low, high = min(low, float64(n)/share), max(high, float64(n)/share)
					}
				}
				for i := range served {
					granted += countServed(served[i], began.Add(warm), lasts-warm)
				}
				text := fmt.Sprintf("%.2f to %.2f of a fair share, granted %.3f", low, high, float64(granted)/float64(c.rate)/(lasts-warm).Seconds())
				t.Log(text)
				assert.GreaterOrEqual(t, low, c.low, text)
				assert.LessOrEqual(t, high, c.high, text)
				assert.GreaterOrEqual(t, float64(granted), .98*float64(c.rate)*(lasts-warm).Seconds(), text)
			})
		})
	}
}

// countServed counts the waits that were served in a time.
func countServed(all []waited, from time.Time, d time.Duration) (n int) {
	for _, w := range all {
		if at := w.served.Sub(from); at >= 0 && at < d {
			n++
		}
	}
	return n
}

// A process with a role that may not write notes waits all the same, and does not try to leave another for ten
// minutes.
func TestRoleWithoutNotesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, db := peers(t, 2, 0, dynalimit.PerSecond("rps", 30))
		denied := 0
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if bytes.Contains(r.Body, []byte(`"wn"`)) {
				denied++
				return ddbmem.Fault{Before: 5 * time.Millisecond, Error: &ddbmem.Error{Code: "AccessDeniedException"}}
			}
			return ddbmem.Fault{Before: 5 * time.Millisecond}
		})
		var group sync.WaitGroup
		for _, l := range all {
			group.Go(func() { assert.NotEmpty(t, loopWaits(t, l, 10, dynalimit.Amounts{"rps": 1}, 20*time.Second)) })
		}
		group.Wait()
		assert.Positive(t, denied)
		assert.LessOrEqual(t, denied, len(all))
	})
}

// Whatever a broken or hostile process writes into a note delays a waiter no longer than until the bucket is full and
// two spreads later, and changes nothing of what is admitted.
func TestNotesOfOthersDelayLittle(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() // of synctest
	for name, note := range map[string][]byte{
		"an age of years":         (&schema.Note{Until: now, At: now, Lane: 7, Age: 1 << 32, Spread: 1 << 32}).Bytes(),
		"reserved for ever":       (&schema.Note{Until: 1 << 47, At: now, Lane: 7, Age: 10, Spread: 4, Needs: []int64{30_000}}).Bytes(),
		"more than fits reserved": (&schema.Note{Until: now + 900, At: now, Lane: 7, Age: 10, Spread: 4, Needs: []int64{1 << 62}}).Bytes(),
		"from the future":         (&schema.Note{Until: now, At: 1 << 47, Lane: 7, Age: 10, Spread: 4}).Bytes(),
		"no note":                 []byte("whatever"),
		"empty":                   {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, db := peers(t, 2, 5*time.Millisecond, dynalimit.PerSecond("rps", 30))
				drain(t, all[0], dynalimit.Amounts{"rps": 30})
				_, err := db.Client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
					TableName: aws.String("limits"), Key: schema.NewKeys("").Bucket("u", "m").Attributes(),
					UpdateExpression: aws.String("SET wn = :wn"), ExpressionAttributeValues: schema.Item{":wn": schema.Bytes(note)},
				})
				require.NoError(t, err)
				began := time.Now()
				for range 3 {
					_, err := all[1].Wait(t.Context(), "u", "m", dynalimit.Amounts{"rps": 5})
					require.NoError(t, err)
				}
				assert.Less(t, time.Since(began), 3*3100*time.Millisecond, name)
				assert.GreaterOrEqual(t, time.Since(began), 490*time.Millisecond, name)
			})
		})
	}
}

// A note with a wrong age delays a process that waits for slots by two looks, once.
func TestNotesOfOthersDelaySlotsLittle(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 1, time.Minute), func(t *testing.T, s *process) {
		p, lease, now := s.peer(nil), s.acquire("u", inflight), time.Now().UnixMilli()
		_, err := s.client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &s.repo.table, Key: s.repo.keys.Bucket("u", model).Attributes(), UpdateExpression: aws.String("SET wn = :wn"),
			ExpressionAttributeValues: schema.Item{":wn": schema.Bytes((&schema.Note{Until: now, At: now, Lane: 7, Age: 1 << 32, Spread: 4}).Bytes())},
		})
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { assert.NoError(t, lease.Settle(t.Context(), nil)) })
		for _, most := range []time.Duration{12 * time.Second, 2 * time.Second, 2 * time.Second} {
			began := time.Now()
			next, err := p.limiter.Wait(t.Context(), "u", model, inflight)
			require.NoError(t, err)
			assert.Less(t, time.Since(began), most)
			elapse(time.Second)
			require.NoError(t, next.Settle(t.Context(), nil))
		}
	})
}

// While another process has reserved amounts, Acquire leaves them, and says exactly when they are free.
func TestAcquireLeavesAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, db := peers(t, 2, 0, dynalimit.PerSecond("rps", 10))
		drain(t, all[0], dynalimit.Amounts{"rps": 10})
		<-time.After(500 * time.Millisecond)
		now := time.Now().UnixMilli()
		note := schema.Note{Until: now + 350, At: now, Lane: 7, Age: 10, Spread: 4, Needs: []int64{7000}}
		_, err := db.Client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("limits"), Key: schema.NewKeys("").Bucket("u", "m").Attributes(),
			UpdateExpression: aws.String("SET wn = :wn"), ExpressionAttributeValues: schema.Item{":wn": schema.Bytes(note.Bytes())},
		})
		require.NoError(t, err)
		_, err = all[1].Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rps": 10}) // it sees the note
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		denied, ok := errors.AsType[*dynalimit.LimitExceededError](err)
		require.True(t, ok)
		assert.Equal(t, 500*time.Millisecond, denied.RetryAfter, "the reservation ends before")
		for _, c := range []struct {
			asked int64
			want  time.Duration
		}{{1, 300 * time.Millisecond}, {2, 350 * time.Millisecond}} {
			_, err = all[1].Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rps": c.asked})
			denied, ok := errors.AsType[*dynalimit.LimitExceededError](err)
			require.True(t, ok, "%d asked", c.asked)
			assert.Equal(t, c.want, denied.RetryAfter, "%d asked: beside the reservation, or after it", c.asked)
		}
		<-time.After(349 * time.Millisecond)
		_, err = all[1].Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rps": 2})
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		<-time.After(time.Millisecond)
		_, err = all[1].Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rps": 2})
		require.NoError(t, err)
	})
}

// Callers of Acquire that come back when they are told are served in turn with the waiters of their process.
func TestAcquireHasAPlaceBesideWaiters(t *testing.T) {
	for name, c := range map[string]struct {
		loops, people int
		low, high     float64 // of the people, a second
	}{
		"20 beside 5 loops":  {5, 20, 12, 18},
		"20 beside 50 loops": {50, 20, 6, 11},
		"1 beside 50 loops":  {50, 1, .4, .8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rate, lasts = 30, 30 * time.Second
				all, _ := peers(t, 1, 5*time.Millisecond, dynalimit.PerMinute("rpm", 60*rate).WithBurst(2*rate))
				l := all[0]
				drain(t, l, dynalimit.Amounts{"rpm": 2 * rate})
				until := time.Now().Add(lasts)
				var group sync.WaitGroup
				var granted, tries atomic.Int64
				for range c.people {
					group.Go(func() {
						for time.Now().Before(until) {
							_, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 1})
							tries.Add(1)
							if err == nil {
								granted.Add(1)
								<-time.After(15 * time.Millisecond)
								continue
							}
							denied, ok := errors.AsType[*dynalimit.LimitExceededError](err)
							if !assert.True(t, ok, "%v", err) {
								return
							}
							<-time.After(denied.RetryAfter + time.Millisecond)
						}
					})
				}
				waits := loopWaits(t, l, c.loops, dynalimit.Amounts{"rpm": 1}, lasts)
				group.Wait()
				text := fmt.Sprintf("people %.1f of %.1f tries, waiters %.1f a second", float64(granted.Load())/lasts.Seconds(), float64(tries.Load())/lasts.Seconds(), float64(len(waits))/lasts.Seconds())
				t.Log(text)
				assert.GreaterOrEqual(t, float64(granted.Load())/lasts.Seconds(), c.low, text)
				assert.LessOrEqual(t, float64(granted.Load())/lasts.Seconds(), c.high, text)
				assert.GreaterOrEqual(t, float64(granted.Load())+float64(len(waits)), .97*rate*lasts.Seconds(), text)
			})
		})
	}
}

// Jobs with deadlines of 10 s, and room for all, fail in neither of two processes.
func TestJobsWithDeadlinesAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := peers(t, 2, 5*time.Millisecond, dynalimit.PerMinute("rpm", 1800).WithBurst(30))
		drain(t, all[0], dynalimit.Amounts{"rpm": 30})
		var group sync.WaitGroup
		for _, l := range all {
			for range 50 {
				group.Go(func() {
					for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
						_, err := l.Wait(ctx, "u", "m", dynalimit.Amounts{"rpm": 1})
						assert.NoError(t, err)
						cancel()
					}
				})
			}
		}
		group.Wait()
	})
}

// Workers that hold 6,000 tokens for a second and use 600 share the bucket within a factor of two, in one process and
// in two.
func TestWorkersThatGiveBackShare(t *testing.T) {
	for _, processes := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			all, _ := peers(t, processes, 5*time.Millisecond, dynalimit.PerMinute("tpm", 60_000))
			drain(t, all[0], dynalimit.Amounts{"tpm": 60_000})
			var group sync.WaitGroup
			done := make([]int, 20)
			for i := range done {
				group.Go(func() {
					for until := time.Now().Add(60 * time.Second); time.Now().Before(until); {
						lease, err := all[i%processes].Wait(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 6000})
						if !assert.NoError(t, err) {
							return
						}
						<-time.After(time.Second)
						assert.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 600}))
						done[i]++
					}
				})
			}
			group.Wait()
			t.Log(processes, done)
			sums := make([]int, processes)
			for i, n := range done {
				sums[i%processes] += n
			}
			assert.LessOrEqual(t, slices.Max(sums), 2*slices.Min(sums), "%d processes: %v", processes, sums)
		})
	}
}

// Waiters of several processes share the slots of a limit of calls in flight, nearly all of which are in use.
func TestProcessesShareSlotsByTheirWaiters(t *testing.T) {
	for name, c := range map[string]struct {
		processes, waiters int
		slots              int64
		call               time.Duration // on average
		low, high, used    float64
		reads              float64       // a second, at most
		lasts              time.Duration // after a quarter of it
	}{
		"4 of 5, 10 slots":  {4, 5, 10, 5 * time.Second, .8, 1.2, .96, 25, 120 * time.Second},
		"2 of 20, 20 slots": {2, 20, 20, 5 * time.Second, .9, 1.1, .98, 25, 90 * time.Second},
		"40 of 2, 20 slots": {40, 2, 20, 5 * time.Second, .5, 1.6, .98, 120, 200 * time.Second},
		"2 of 5, one slot":  {2, 5, 1, time.Second, .8, 1.2, .76, 20, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, db := peers(t, c.processes, 5*time.Millisecond, dynalimit.Concurrent("inflight", c.slots, time.Minute))
				var reads, writes atomic.Int64
				db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					if r.Operation == "GetItem" {
						reads.Add(1)
					} else {
						writes.Add(1)
					}
					return ddbmem.Fault{Before: 5 * time.Millisecond}
				})
				began, warm := time.Now(), c.lasts/4
				var group sync.WaitGroup
				var mu sync.Mutex
				used, served, calls := time.Duration(0), make([]int, len(all)), 0
				within := func(at time.Time) time.Duration { return min(max(at.Sub(began)-warm, 0), c.lasts-warm) }
				for i, l := range all {
					random := rand.New(rand.NewPCG(7, uint64(i)))
					for range c.waiters {
						group.Go(func() {
							for time.Since(began) < c.lasts {
								lease, err := l.Wait(t.Context(), "u", "m", inflight)
								if !assert.NoError(t, err) {
									return
								}
								at := time.Now()
								mu.Lock()
								call := time.Duration(random.ExpFloat64() * float64(c.call))
								if within(at) > 0 && at.Sub(began) < c.lasts {
									served[i]++
									calls++
								}
								mu.Unlock()
								elapse(call)
								assert.NoError(t, lease.Settle(t.Context(), nil))
								mu.Lock()
								used += within(at.Add(call)) - within(at)
								mu.Unlock()
							}
						})
					}
				}
				group.Wait()
				low, high := 9., 0.
				for _, n := range served {
					share := float64(n) * float64(len(all)) / float64(calls)
					low, high = min(low, share), max(high, share)
				}
				part := used.Seconds() / float64(c.slots) / (c.lasts - warm).Seconds()
				text := fmt.Sprintf("%.2f to %.2f of a fair share, in use %.3f, %.0f reads/s, %.0f writes/s", low, high, part, float64(reads.Load())/c.lasts.Seconds(), float64(writes.Load())/c.lasts.Seconds())
				t.Log(text)
				assert.GreaterOrEqual(t, low, c.low, text)
				assert.LessOrEqual(t, high, c.high, text)
				assert.GreaterOrEqual(t, part, c.used, text)
				assert.LessOrEqual(t, float64(reads.Load())/c.lasts.Seconds(), c.reads, text)
			})
		})
	}
}
