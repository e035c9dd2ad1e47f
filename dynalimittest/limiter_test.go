package dynalimittest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// failures is a test whose failures are looked at.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *failures) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

// failuresOf is how a test that does this fails.
func failuresOf(t *testing.T, do func(t testing.TB)) string {
	t.Helper()
	f, done := &failures{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		do(f)
	}()
	<-done
	return strings.Join(f.said, "\n")
}

func acquire(t *testing.T, l *dynalimittest.Limiter, entity string, tpm int64) error {
	t.Helper()
	_, err := l.Acquire(t.Context(), entity, "gpt-4", dynalimit.Amounts{"tpm": tpm})
	return err
}

// calls is what the observer of a service hears of.
type calls struct{ began, ended, denied, corrected int }

func (c *calls) observer() observe.Observer {
	return observe.Observer{
		AcquireStart: func(context.Context, observe.AcquireStart) context.Context {
			c.began++
			return nil
		},
		AcquireEnd: func(context.Context, observe.AcquireEnd) { c.ended++ },
		Denied:     func(context.Context, observe.Denial) { c.denied++ },
		Corrected:  func(context.Context, observe.Correction) { c.corrected++ },
	}
}

func TestDenyNextDeniesOneCall(t *testing.T) {
	seen := &calls{}
	limiter := dynalimittest.NewWithOptions(t, dynalimit.Options{Limits: limits, Observer: seen.observer()})
	require.NoError(t, acquire(t, limiter, "ana", 600))
	limiter.DenyNext()
	limiter.DenyNext()

	var denial *dynalimit.LimitExceededError
	require.ErrorAs(t, acquire(t, limiter, "ana", 100), &denial)
	assert.Equal(t, time.Second, denial.RetryAfter, "as of an empty bucket")
	require.ErrorIs(t, acquire(t, limiter, "ben", 100), dynalimit.ErrLimitExceeded)
	require.NoError(t, acquire(t, limiter, "ana", 5_400), "all that was left before")
	limiter.AssertTaken("ana", "gpt-4", dynalimit.Amounts{"tpm": 6_000, "rpm": 0})
	limiter.AssertTaken("ben", "gpt-4", nil)
	assert.Equal(t, calls{began: 4, ended: 4, denied: 2}, *seen, "the service's calls alone")
}

func TestDenyNextSaysThatNothingLimits(t *testing.T) {
	assert.Contains(t, failuresOf(t, func(f testing.TB) {
		limiter := dynalimittest.New(f, limits...)
		assert.NoError(t, admin.New(limiter.Repo).Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "ana", Resource: "gpt-4"}))
		limiter.DenyNext()
		assert.NoError(t, acquire(t, limiter, "ana", 100))
	}), "ana on gpt-4 was admitted, though DenyNext was called")
}

func TestMistakesOfATestAreNamed(t *testing.T) {
	for want, do := range map[string]func(*dynalimittest.Limiter){
		"ana took map[tpm:700] on gpt-4; want map[tpm:70]": func(l *dynalimittest.Limiter) {
			assert.NoError(t, acquire(t, l, "ana", 700))
			l.AssertTaken("ana", "gpt-4", dynalimit.Amounts{"tpm": 70})
		},
		"is before the clock": func(l *dynalimittest.Limiter) { l.AdvanceTo(l.Now().Add(-time.Second)) },
		"exhaust # on gpt-4":  func(l *dynalimittest.Limiter) { l.Exhaust("#", "gpt-4") },
	} {
		assert.Contains(t, failuresOf(t, func(f testing.TB) { do(dynalimittest.New(f, limits...)) }), want)
	}
	assert.Contains(t, failuresOf(t, func(f testing.TB) { dynalimittest.New(f, dynalimit.Limit{}) }), "make a limiter")
}

func TestExhaustTakesFromParentsAndCountsNothing(t *testing.T) {
	limiter := dynalimittest.New(t, limits...)
	require.NoError(t, admin.New(limiter.Repo).Entities.Create(t.Context(), admin.Entity{ID: "ana", ParentID: "shop", Cascade: true}))
	require.NoError(t, acquire(t, limiter, "ana", 600))
	limiter.Exhaust("ana", "gpt-4")
	limiter.Exhaust("ana", "gpt-4") // nothing is left

	require.ErrorIs(t, acquire(t, limiter, "shop", 1), dynalimit.ErrLimitExceeded)
	for _, entity := range []string{"ana", "shop"} {
		limiter.AssertTaken(entity, "gpt-4", dynalimit.Amounts{"tpm": 600})
	}
}

func TestClockMovesToTheNextWindow(t *testing.T) {
	limiter := dynalimittest.New(t, dynalimit.DailyQuota("tpd", 1_000, "UTC"))
	limiter.Exhaust("ana", "gpt-4")
	ask := func() error {
		_, err := limiter.Acquire(t.Context(), "ana", "gpt-4", dynalimit.Amounts{"tpd": 1})
		return err
	}
	limiter.AdvanceTo(time.Date(2000, time.January, 1, 23, 59, 59, 0, time.UTC))
	require.ErrorIs(t, ask(), dynalimit.ErrLimitExceeded)
	limiter.Advance(time.Second)
	require.NoError(t, ask())
}

func TestBubbleHasOneClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := dynalimittest.New(t, limits...)
		limiter.Exhaust("ana", "gpt-4")
		go func() {
			lease, err := limiter.Wait(t.Context(), "ana", "gpt-4", dynalimit.Amounts{"tpm": 100})
			assert.NoError(t, err)
			assert.NoError(t, lease.Rollback(t.Context()))
		}()
		synctest.Wait()
		limiter.Advance(time.Second)
		synctest.Wait()
		assert.Equal(t, time.Now(), limiter.Now())
		limiter.AssertTaken("ana", "gpt-4", nil)
	})
}

func TestCutOffFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := dynalimittest.New(t, limits...)
		require.NoError(t, acquire(t, limiter, "ana", 600))
		restore := limiter.FailStore()
		require.ErrorIs(t, acquire(t, limiter, "ana", 600), dynalimit.ErrUnavailable)
		restore()
		restore()
		require.NoError(t, acquire(t, limiter, "ana", 600))
		limiter.AssertTaken("ana", "gpt-4", dynalimit.Amounts{"tpm": 1_200})
	})
}

// TestMethodsWorkInCleanup: a test's context has ended when its functions of Cleanup run.
func TestMethodsWorkInCleanup(t *testing.T) {
	limiter := dynalimittest.New(t, limits...)
	t.Cleanup(func() { limiter.AssertTaken("ana", "gpt-4", nil) })
	t.Cleanup(func() { limiter.Exhaust("ana", "gpt-4") })
	t.Cleanup(limiter.FailStore())
}

// TestDenyNextBesideOtherCalls: exactly as many calls are denied as it says, and the others find
// their limits as they are; a caller that waits in line holds up none.
func TestDenyNextBesideOtherCalls(t *testing.T) {
	deny := func(t *testing.T, limiter *dynalimittest.Limiter) {
		t.Helper()
		for range 10 {
			limiter.DenyNext()
		}
		var denied atomic.Int64
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := acquire(t, limiter, "ana", 1); err != nil {
					assert.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
					denied.Add(1)
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, 10, denied.Load())
		limiter.AssertTaken("ana", "gpt-4", dynalimit.Amounts{"tpm": 90})
	}
	t.Run("outside of a bubble", func(t *testing.T) { deny(t, dynalimittest.New(t, limits...)) })
	synctest.Test(t, func(t *testing.T) {
		limiter := dynalimittest.New(t, limits...)
		limiter.Exhaust("ben", "gpt-4")
		var all sync.WaitGroup
		all.Go(func() {
			_, err := limiter.Wait(t.Context(), "ben", "gpt-4", dynalimit.Amounts{"tpm": 6_000})
			assert.NoError(t, err)
		})
		synctest.Wait()
		began := time.Now()
		deny(t, limiter)
		assert.Less(t, time.Since(began), time.Microsecond)
		all.Wait()
	})
}

// TestLimiterBelongsWhereItWasMade: a Wait in a bubble on a limiter from outside would never end.
func TestLimiterBelongsWhereItWasMade(t *testing.T) {
	assert.Contains(t, failuresOf(t, func(f testing.TB) {
		limiter := dynalimittest.New(f, limits...)
		limiter.Exhaust("ana", "gpt-4")
		synctest.Test(t, func(t *testing.T) {
			_, err := limiter.Wait(t.Context(), "ana", "gpt-4", dynalimit.Amounts{"tpm": 100})
			assert.ErrorIs(t, err, context.Canceled)
		})
	}), "make it where it is used")
}
