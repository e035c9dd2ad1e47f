package dynalimit_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/dynalimit/dynalimit/internal/schema"
)

func TestWaitSleepsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		began, meter := time.Now(), db.Meter()
		lease, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 5})
		require.NoError(t, err)
		require.Equal(t, dynalimit.Amounts{"rpm": 5}, lease.Used())
		require.Equal(t, 5*time.Second, time.Since(began))
		require.EqualValues(t, 1, db.Meter().Sub(meter).Requests(), "the known level needs no polling")
	})
}

func TestWaitIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		began := time.Now()
		var mu sync.Mutex
		var served []string
		var wg sync.WaitGroup
		for i, n := range []int64{50, 1, 3, 1} {
			wg.Go(func() {
				_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": n})
				mu.Lock()
				defer mu.Unlock()
				served = append(served, fmt.Sprintf("%d:%d@%v", i, n, time.Since(began)))
				require.NoError(t, err)
			})
			synctest.Wait()
		}
		// Acquires keep asking for what the first waits for, and do not get it.
		for time.Since(began) < 49*time.Second {
			<-time.After(time.Second)
			_, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 1})
			require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []string{"0:50@50s", "1:1@51s", "2:3@54s", "3:1@55s"}, served)
	})
}

func TestWaitFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4999*time.Millisecond)
		defer cancel()
		_, err := l.Wait(ctx, "u", "m", dynalimit.Amounts{"rpm": 5})
		var exceeded *dynalimit.LimitExceededError
		require.ErrorAs(t, err, &exceeded)
		require.Equal(t, 5*time.Second, exceeded.RetryAfter)
		_, err = l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 61})
		require.ErrorIs(t, err, dynalimit.ErrExceedsBurst)
		require.Zero(t, time.Since(began))

		// Behind another, the wait is longer: its needs come first.
		go func() { _, _ = l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 30}) }()
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		meter := db.Meter()
		_, err = l.Wait(ctx, "u", "m", dynalimit.Amounts{"rpm": 5})
		require.ErrorAs(t, err, &exceeded)
		require.Equal(t, 35*time.Second, exceeded.RetryAfter)
		require.Zero(t, time.Since(began))
		require.Zero(t, db.Meter().Sub(meter).Requests())
		<-time.After(time.Minute)
	})
}

func TestWaitCancelledKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := l.Wait(ctx, "u", "m", dynalimit.Amounts{"rpm": 60})
			failed <- err
		}()
		synctest.Wait()
		granted := make(chan time.Time, 1)
		began := time.Now()
		go func() {
			_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 10})
			require.NoError(t, err)
			granted <- time.Now()
		}()
		<-time.After(2 * time.Second)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		require.Equal(t, 10*time.Second, (<-granted).Sub(began), "the next moves up")
	})
}

func TestWaitersShareWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerSecond("rps", 1000))
		drain(t, l, dynalimit.Amounts{"rps": 1000})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 5 * time.Millisecond} })
		meter, began := db.Meter(), time.Now()
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rps": 1})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Less(t, time.Since(began), 560*time.Millisecond, "500 tokens take 500 ms")
		require.Less(t, db.Meter().Sub(meter).Requests(), int64(200))
	})
}

func TestWaitEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		failed := make(chan error, 1)
		go func() {
			_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 60})
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Close(t.Context()))
		require.True(t, errors.Is(<-failed, dynalimit.ErrClosed))
	})
}

// Waiters who bring limits that differ claim the bucket for theirs in turn. Each
// tries when its turn is due, not whenever another has claimed.
func TestWaitersThatDisagreeDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 60))
		drain(t, l, dynalimit.Amounts{"rpm": 60, "tpm": 60})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 5 * time.Millisecond} })
		began, meter := time.Now(), db.Meter()
		var group sync.WaitGroup
		for name, opts := range map[string][]dynalimit.AcquireOption{"rpm": nil, "tpm": {dynalimit.WithLimits(dynalimit.PerMinute("tpm", 61))}} {
			group.Go(func() { // both are at the head: they need nothing of each other's
				_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{name: 10}, opts...)
				require.NoError(t, err)
			})
		}
		group.Wait()
		require.Less(t, time.Since(began), time.Minute)
		require.Less(t, db.Meter().Sub(meter).Requests(), int64(60))
	})
}

// A Wait that fails returns no lease.
func TestFailedWaitReturnsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("rpm", 60))
		lease, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 61})
		require.ErrorIs(t, err, dynalimit.ErrExceedsBurst)
		require.Nil(t, lease)
		drain(t, l, dynalimit.Amounts{"rpm": 60})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		})
		<-time.After(time.Hour)
		lease, err = l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 60})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.Nil(t, lease)
	})
}

// impatient is a limiter that ends the test when it looks at the clock without end: virtual
// time stands still meanwhile.
func impatient(t *testing.T, r *repository) *rateLimiter {
	t.Helper()
	const most = 1000
	var looks atomic.Int64
	l, err := openLimiter(r, &dynalimit.Options{Now: func() time.Time {
		if looks.Add(1) > most {
			panic(fmt.Sprintf("more than %d looks at the clock", most))
		}
		return time.Now()
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(context.WithoutCancel(t.Context()))) })
	return l
}

// A waiter is not denied by what is left to it, in a transaction either.
func TestWaitInATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := team(t, []dynalimit.Limit{dynalimit.PerMinute("tpm", 60)}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 600)})
		l = impatient(t, l.repo)
		drain(t, l, dynalimit.Amounts{"tpm": 60})
		began, meter := time.Now(), db.Meter()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := l.Wait(ctx, "u", "m", dynalimit.Amounts{"tpm": 30}, dynalimit.WithChargeMode(dynalimit.ChargeTransaction))
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, time.Since(began))
		require.EqualValues(t, 1, db.Meter().Sub(meter).Operations["TransactWriteItems"].Requests)
	})
}

// A waiter that fits a full bucket only when those before it have been served
// stands behind them, and asks nothing meanwhile.
func TestWaiterThatCannotFitBesideAnotherStandsBehind(t *testing.T) {
	for entity, asked := range map[string]dynalimit.Amounts{"project": {"b": 10}, "u": {"b": 10, "rpm": 1}} {
		synctest.Test(t, func(t *testing.T) {
			a := dynalimit.Limit{Name: "a", Capacity: 3, RefillAmount: 1, RefillPeriod: time.Second}
			l, db := team(t, []dynalimit.Limit{a, dynalimit.PerSecond("b", 10)}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 600)})
			l = impatient(t, l.repo)
			drain(t, l, dynalimit.Amounts{"a": 3, "b": 1, "rpm": 1})
			<-time.After(time.Second)
			began := time.Now()
			first := waitFor(t, l, "project", dynalimit.Amounts{"a": 3, "b": 3}) // 2 s more
			meter := db.Meter()
			second := waitFor(t, l, entity, asked)
			_, err := l.Acquire(t.Context(), "project", "m", dynalimit.Amounts{"b": 5})
			require.NoError(t, err, "until the first is served, the second cannot use it")
			require.Equal(t, 2*time.Second, (<-first).Sub(began))
			require.Equal(t, 2300*time.Millisecond, (<-second).Sub(began), "%s: the 3 taken are back", entity)
			require.LessOrEqual(t, db.Meter().Sub(meter).Requests(), int64(8), entity)
		})
	}
}

// Two waiters who each need all of one level and a little of the other's are
// served in the order they came, and do not give way to each other for ever.
func TestWaitersOfTwoLevelsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := team(t, []dynalimit.Limit{dynalimit.PerMinute("tpm", 60)}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)})
		drain(t, l, dynalimit.Amounts{"tpm": 60, "rpm": 60})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 5 * time.Millisecond} })
		meter, began := db.Meter(), time.Now()
		first := waitFor(t, l, "u", dynalimit.Amounts{"tpm": 60, "rpm": 1})
		second := waitFor(t, l, "u", dynalimit.Amounts{"tpm": 1, "rpm": 60})
		assert.WithinDuration(t, began.Add(60*time.Second), <-first, 50*time.Millisecond)
		assert.WithinDuration(t, began.Add(61*time.Second), <-second, 100*time.Millisecond)
		assert.LessOrEqual(t, db.Meter().Sub(meter).Requests(), int64(30))
	})
}

// An Acquire that cannot fit beside a waiter is told when the waiter will have
// been served and its own amount be there again.
func TestRetryAfterBesideAWaiterIsHonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, dynalimit.Limit{Name: "a", Capacity: 60, RefillAmount: 1, RefillPeriod: time.Second}, dynalimit.PerSecond("b", 10))
		drain(t, l, dynalimit.Amounts{"a": 60})
		began := time.Now()
		served := waitFor(t, l, "u", dynalimit.Amounts{"a": 60, "b": 3})
		var waits []time.Duration
		for {
			_, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"b": 10})
			if err == nil {
				break
			}
			var denied *dynalimit.LimitExceededError
			require.ErrorAs(t, err, &denied)
			waits = append(waits, denied.RetryAfter)
			<-time.After(denied.RetryAfter)
		}
		require.Equal(t, []time.Duration{60*time.Second + 300*time.Millisecond}, waits)
		require.Equal(t, time.Minute, (<-served).Sub(began))
	})
}

// A raised limit ends a wait within the configuration's TTL, at the cost of one
// read a TTL however many wait.
func TestWaitNoticesARaisedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t)
		operator, err := openRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: tester})
		require.NoError(t, err)
		require.NoError(t, operator.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("tpm", 24)}))
		drain(t, l, dynalimit.Amounts{"tpm": 24})
		var served []<-chan time.Time
		for range 50 {
			served = append(served, waitFor(t, l, "u", dynalimit.Amounts{"tpm": 20}))
		}
		meter := db.Meter()
		<-time.After(10*time.Minute + time.Second)
		used := db.Meter().Sub(meter)
		assert.LessOrEqual(t, used.Operations["BatchGetItem"].Requests, int64(11), "one a minute")
		assert.Zero(t, writes(used))
		require.NoError(t, operator.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 2400)}))
		changed := time.Now()
		for _, s := range served {
			assert.Less(t, (<-s).Sub(changed), 61*time.Second+25*time.Second, "50 × 20 of 2400 a minute take 25 s")
		}
	})
}

// A waiter notices at once that its own process raised the limit.
func TestWaitNoticesALimitRaisedHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t)
		require.NoError(t, l.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("tpm", 24)}))
		drain(t, l, dynalimit.Amounts{"tpm": 24})
		served := waitFor(t, l, "u", dynalimit.Amounts{"tpm": 20})
		<-time.After(10 * time.Second)
		require.NoError(t, l.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 2400)}))
		changed := time.Now()
		assert.Less(t, (<-served).Sub(changed), 2*time.Second)
	})
}

// Nobody behind a waiter that does not fit is called along: it would overtake in
// the write that carries the head.
func TestCalledAlongInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerMinute("a", 60), dynalimit.PerMinute("c", 60), dynalimit.PerMinute("d", 60))
		lease, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"a": 60, "c": 60, "d": 1})
		require.NoError(t, err)
		began := time.Now()
		first := waitFor(t, l, "u", dynalimit.Amounts{"a": 1, "c": 10})
		second := waitFor(t, l, "u", dynalimit.Amounts{"a": 30})
		third := waitFor(t, l, "u", dynalimit.Amounts{"a": 5}) // fits beside the first, which is not its turn
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 5 * time.Millisecond} })
		<-time.After(10*time.Second - 2*time.Millisecond)
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"d": 1})) // in flight when the first tries
		assert.WithinDuration(t, began.Add(10*time.Second), <-first, 20*time.Millisecond)
		assert.WithinDuration(t, began.Add(31*time.Second), <-second, 20*time.Millisecond)
		assert.WithinDuration(t, began.Add(36*time.Second), <-third, 20*time.Millisecond)
	})
}

// Who waits keeps the place in line however many other buckets are used meanwhile.
func TestLineOfARarelyUsedBucketStays(t *testing.T) {
	live(t, &dynalimit.Options{MaxBuckets: 10, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}}, func(t *testing.T, s *process) {
		s.acquire("user-1", dynalimit.Amounts{"rpm": 60})
		began, served := time.Now(), make(chan time.Duration, 1)
		go func() {
			_, err := s.limiter.Wait(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 30})
			assert.NoError(t, err)
			served <- time.Since(began)
		}()
		elapse(time.Second)
		for {
			for i := range 20 {
				s.acquire(fmt.Sprint("other-", i), dynalimit.Amounts{"rpm": 1})
			}
			select {
			case after := <-served:
				assert.LessOrEqual(t, after, 31*time.Second)
				return
			case <-time.After(1100 * time.Millisecond):
				s.deny("user-1", dynalimit.Amounts{"rpm": 1})
			}
		}
	})
}

// Who waits for a bucket that its calls do not charge any more is served within one TTL: the
// resource left the group, or the entity its parent, or nothing limits the entity any more.
func TestWaitEndsWhereTheBucketIsNotChargedAnyMore(t *testing.T) {
	for name, c := range map[string]struct {
		scarce admin.Scope
		leave  func(s *process)
	}{
		"group": {admin.Scope{Everyone: true, Resource: group}, func(s *process) {
			require.NoError(s.t, s.repo.DeleteLimits(s.t.Context(), admin.Scope{Everyone: true, Resource: model}))
		}},
		"parent": {admin.Scope{Entity: "org"}, func(s *process) {
			_, err := s.repo.UpdateEntity(s.t.Context(), admin.Entity{ID: "key", ParentID: "org", Detached: true, Version: 1})
			require.NoError(s.t, err)
		}},
		"unlimited": {admin.Scope{Entity: "key"}, func(s *process) { s.says(schema.ConfigOwner{Entity: "key"}, unlimited) }},
	} {
		t.Run(name, func(t *testing.T) {
			inFamily(t, func(t *testing.T, operator *process) {
				operator.ofGroup(model)
				operator.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000))
				operator.limits(c.scarce, dynalimit.PerDay("rpm", 100))
				s := operator.peer(nil)
				s.acquire("key", dynalimit.Amounts{"rpm": 100})
				served := make(chan time.Time, 3)
				for range 3 {
					go func() {
						_, err := s.limiter.Wait(t.Context(), "key", model, dynalimit.Amounts{"rpm": 50})
						assert.NoError(t, err)
						served <- time.Now()
					}()
				}
				elapse(5 * time.Minute)
				c.leave(operator)
				left := time.Now()
				for range 3 {
					assert.LessOrEqual(t, (<-served).Sub(left), time.Minute+time.Second)
				}
			})
		})
	}
}
