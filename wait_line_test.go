package dynalimit

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// roundsOf counts how often a limiter looks at a configuration, and ends the
// test when it does so without end: virtual time stands still meanwhile.
type roundsOf struct {
	configStore
	most, n int
}

func (c *roundsOf) config(ctx context.Context, entity, resource string, until time.Time) (*resolvedConfig, schema.Item, bool, error) {
	if c.n++; c.n > c.most {
		panic(fmt.Sprintf("more than %d rounds", c.most))
	}
	return c.configStore.config(ctx, entity, resource, until)
}

// A waiter is not denied by what is left to it, in a transaction either.
func TestWaitInATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := team(t, []Limit{PerMinute("tpm", 60)}, []Limit{PerMinute("tpm", 600)})
		drain(t, l, Amounts{"tpm": 60})
		l.desk.routes.store = &roundsOf{configStore: l.desk.routes.store, most: 50}
		began, meter := time.Now(), db.Meter()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := l.Wait(ctx, "u", "m", Amounts{"tpm": 30}, WithCascade(CascadeTransaction))
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, time.Since(began))
		require.EqualValues(t, 1, db.Meter().Sub(meter).Operations["TransactWriteItems"].Requests)
	})
}

// A waiter that fits a full bucket only when those before it have been served
// stands behind them, and asks nothing meanwhile.
func TestWaiterThatCannotFitBesideAnotherStandsBehind(t *testing.T) {
	for entity, asked := range map[string]Amounts{"project": {"b": 10}, "u": {"b": 10, "rpm": 1}} {
		synctest.Test(t, func(t *testing.T) {
			a := Limit{Name: "a", Capacity: 3, RefillAmount: 1, RefillPeriod: time.Second}
			l, db := team(t, []Limit{a, PerSecond("b", 10)}, []Limit{PerMinute("rpm", 600)})
			drain(t, l, Amounts{"a": 3, "b": 1, "rpm": 1})
			<-time.After(time.Second)
			began := time.Now()
			first := waitFor(t, l, "project", Amounts{"a": 3, "b": 3}) // 2 s more
			l.desk.routes.store = &roundsOf{configStore: l.desk.routes.store, most: 30}
			meter := db.Meter()
			second := waitFor(t, l, entity, asked)
			_, err := l.Acquire(t.Context(), "project", "m", Amounts{"b": 5})
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
		l, db := team(t, []Limit{PerMinute("tpm", 60)}, []Limit{PerMinute("rpm", 60)})
		drain(t, l, Amounts{"tpm": 60, "rpm": 60})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 5 * time.Millisecond} })
		meter, began := db.Meter(), time.Now()
		first := waitFor(t, l, "u", Amounts{"tpm": 60, "rpm": 1})
		second := waitFor(t, l, "u", Amounts{"tpm": 1, "rpm": 60})
		assert.WithinDuration(t, began.Add(60*time.Second), <-first, 50*time.Millisecond)
		assert.WithinDuration(t, began.Add(61*time.Second), <-second, 100*time.Millisecond)
		assert.LessOrEqual(t, db.Meter().Sub(meter).Requests(), int64(30))
	})
}

// An Acquire that cannot fit beside a waiter is told when the waiter will have
// been served and its own amount be there again.
func TestRetryAfterBesideAWaiterIsHonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, Limit{Name: "a", Capacity: 60, RefillAmount: 1, RefillPeriod: time.Second}, PerSecond("b", 10))
		drain(t, l, Amounts{"a": 60})
		began := time.Now()
		served := waitFor(t, l, "u", Amounts{"a": 60, "b": 3})
		var waits []time.Duration
		for {
			_, err := l.Acquire(t.Context(), "u", "m", Amounts{"b": 10})
			if err == nil {
				break
			}
			var denied *LimitExceededError
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
		operator, err := NewRepository(db.Client(), "limits", &RepositoryOptions{Principal: tester})
		require.NoError(t, err)
		require.NoError(t, operator.SetLimits(t.Context(), Scope{Everyone: true}, []Limit{PerDay("tpm", 24)}))
		drain(t, l, Amounts{"tpm": 24})
		var served []<-chan time.Time
		for range 50 {
			served = append(served, waitFor(t, l, "u", Amounts{"tpm": 20}))
		}
		meter := db.Meter()
		<-time.After(10*time.Minute + time.Second)
		used := db.Meter().Sub(meter)
		assert.LessOrEqual(t, used.Operations["BatchGetItem"].Requests, int64(11), "one a minute")
		assert.Zero(t, writes(used))
		require.NoError(t, operator.SetLimits(t.Context(), Scope{Everyone: true}, []Limit{PerMinute("tpm", 2400)}))
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
		require.NoError(t, l.repo.SetLimits(t.Context(), Scope{Everyone: true}, []Limit{PerDay("tpm", 24)}))
		drain(t, l, Amounts{"tpm": 24})
		served := waitFor(t, l, "u", Amounts{"tpm": 20})
		<-time.After(10 * time.Second)
		require.NoError(t, l.repo.SetLimits(t.Context(), Scope{Everyone: true}, []Limit{PerMinute("tpm", 2400)}))
		changed := time.Now()
		assert.Less(t, (<-served).Sub(changed), 2*time.Second)
	})
}

// Nobody behind a waiter that does not fit is called along: it would overtake in
// the write that carries the head.
func TestCalledAlongInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, PerMinute("a", 60), PerMinute("c", 60), PerMinute("d", 60))
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"a": 60, "c": 60, "d": 1})
		require.NoError(t, err)
		began := time.Now()
		first := waitFor(t, l, "u", Amounts{"a": 1, "c": 10})
		second := waitFor(t, l, "u", Amounts{"a": 30})
		third := waitFor(t, l, "u", Amounts{"a": 5}) // fits beside the first, which is not its turn
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 5 * time.Millisecond} })
		<-time.After(10*time.Second - 2*time.Millisecond)
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"d": 1})) // in flight when the first tries
		assert.WithinDuration(t, began.Add(10*time.Second), <-first, 20*time.Millisecond)
		assert.WithinDuration(t, began.Add(31*time.Second), <-second, 20*time.Millisecond)
		assert.WithinDuration(t, began.Add(36*time.Second), <-third, 20*time.Millisecond)
	})
}

// Who waits keeps the place in line however many other buckets are used meanwhile.
func TestLineOfARarelyUsedBucketStays(t *testing.T) {
	live(t, &Options{MaxBuckets: 10, Limits: []Limit{PerMinute("rpm", 60)}}, func(t *testing.T, s *process) {
		s.acquire("user-1", Amounts{"rpm": 60})
		began, served := time.Now(), make(chan time.Duration, 1)
		go func() {
			_, err := s.limiter.Wait(t.Context(), "user-1", model, Amounts{"rpm": 30})
			assert.NoError(t, err)
			served <- time.Since(began)
		}()
		elapse(time.Second)
		for {
			for i := range 20 {
				s.acquire(fmt.Sprint("other-", i), Amounts{"rpm": 1})
			}
			select {
			case after := <-served:
				assert.LessOrEqual(t, after, 31*time.Second)
				return
			case <-time.After(1100 * time.Millisecond):
				s.deny("user-1", Amounts{"rpm": 1})
			}
		}
	})
}
