package dynalimit

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// The patterns that break other limiters over a shared store.

// admitted takes one at a time, without waiting, until it is denied.
func admitted(t *testing.T, l *RateLimiter, name string) int {
	for n := 0; ; n++ {
		_, err := l.Acquire(t.Context(), "key", "gpt-4", Amounts{name: 1})
		if errors.Is(err, ErrLimitExceeded) {
			return n
		}
		require.NoError(t, err)
	}
}

// pattern is two limiters on a bucket with limits, in virtual time.
func pattern(t *testing.T, test func(t *testing.T, db *ddbmem.DB, l [2]*RateLimiter), limits ...Limit) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		repo := e.repository(t, &RepositoryOptions{Now: time.Now})
		require.NoError(t, repo.SetSystemLimits(t.Context(), limits, nil))
		test(t, e.db, [2]*RateLimiter{inSlot(t, e, repo.Table(), 0), inSlot(t, e, repo.Table(), 1)})
	})
}

func TestPatternFullBucketIdleThenBurst(t *testing.T) {
	pattern(t, func(t *testing.T, _ *ddbmem.DB, l [2]*RateLimiter) {
		_, err := l[0].Acquire(t.Context(), "key", "gpt-4", Amounts{"rpm": 1})
		require.NoError(t, err)
		for _, idle := range []time.Duration{time.Minute, 10 * time.Minute, 3 * time.Hour} {
			elapse(idle)
			assert.Equal(t, 100, admitted(t, l[0], "rpm"), "after %v", idle)
			assert.Equal(t, 0, admitted(t, l[1], "rpm"))
		}
	}, PerMinute("rpm", 100))
}

func TestPatternDrainedBucketIdleThenBurst(t *testing.T) {
	pattern(t, func(t *testing.T, _ *ddbmem.DB, l [2]*RateLimiter) {
		assert.Equal(t, 100, admitted(t, l[0], "rpm"))
		elapse(time.Minute)
		assert.Equal(t, 100, admitted(t, l[1], "rpm"))
		assert.Equal(t, 0, admitted(t, l[0], "rpm"))
		elapse(30 * time.Second)
		assert.Equal(t, 50, admitted(t, l[0], "rpm"))
		assert.Equal(t, 0, admitted(t, l[1], "rpm"))
	}, PerMinute("rpm", 100))
}

// A slow limit beside a fast one, for they share one refill instant: 138
// millitokens in 12 s, whoever writes how often.
func TestPatternSlowLimitBesideFast(t *testing.T) {
	pattern(t, func(t *testing.T, _ *ddbmem.DB, l [2]*RateLimiter) {
		lease, err := l[0].Acquire(t.Context(), "key", "gpt-4", Amounts{"day": 1000})
		require.NoError(t, err)
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"rps": 1}))
		began := time.Now()
		for i := 0; time.Since(began) < 12*time.Second; i++ {
			_, err := l[i%2].Acquire(t.Context(), "key", "gpt-4", Amounts{"rps": 1})
			require.NoError(t, err)
			elapse(25 * time.Millisecond)
		}
		bucket := l[0].lanes.Of("key", "gpt-4")
		image, err := l[0].repo.readBucket(t.Context(), bucket.Key, nil, 0)
		require.NoError(t, err)
		day := image.State(image.Set.Index("day"))
		until := began.Add(12 * time.Second).UnixMilli()
		assert.Equal(t, grid(until, 1_000_000, 86_400_000)-grid(began.UnixMilli(), 1_000_000, 86_400_000), day.Level(until))
		assert.InDelta(t, 138, day.Level(until), 1)
	}, PerDay("day", 1000), PerSecond("rps", 50))
}

func grid(t, amount, period int64) int64 { return t/period*amount + t%period*amount/period }

// Of 200 calls 30 % get no answer though their write was applied. Each call ends
// as granted or as unknown; none is counted twice.
func TestPatternLostAnswers(t *testing.T) {
	pattern(t, func(t *testing.T, db *ddbmem.DB, l [2]*RateLimiter) {
		r := rand.New(rand.NewPCG(7, 7))
		var mu sync.Mutex
		lost := 0
		db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			mu.Lock()
			defer mu.Unlock()
			if q.Operation != "UpdateItem" && q.Operation != "PutItem" || r.Float64() >= .3 {
				return ddbmem.Fault{}
			}
			lost++
			return ddbmem.Fault{Lose: true}
		})
		granted, unknown := int64(0), int64(0)
		for i := range 200 {
			for sent := false; !sent; {
				_, err := l[i%2].Acquire(t.Context(), "key", "gpt-4", Amounts{"rpm": 1})
				switch {
				case err == nil:
					granted, sent = granted+1, true
				case errors.Is(err, ErrUnconfirmed):
					unknown, sent = unknown+1, true
				default: // after a few unanswered requests the bucket is probed first
					require.ErrorIs(t, err, ErrUnavailable)
					elapse(time.Second)
				}
			}
		}
		elapse(time.Minute)
		bucket := l[0].lanes.Of("key", "gpt-4")
		image, err := l[0].repo.readBucket(t.Context(), bucket.Key, nil, 0)
		require.NoError(t, err)
		db.SetFaults(nil)
		mu.Lock()
		defer mu.Unlock()
		assert.GreaterOrEqual(t, lost, 40)
		assert.GreaterOrEqual(t, granted, int64(180))
		consumed := image.Limits[0].Consumed / milli
		assert.GreaterOrEqual(t, consumed, granted, "%d unknown", unknown)
		assert.LessOrEqual(t, consumed, granted+unknown, "what is found to have landed for nobody is given back")
	}, Limit{Name: "rpm", Capacity: 1000, RefillAmount: 1, RefillPeriod: 24 * time.Hour})
}
