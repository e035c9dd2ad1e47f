package tests

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// A take that does not fit is denied although smaller ones, which do, keep coming:
// nobody who asks not to wait waits in line.
func TestTakeThatDoesNotFitIsDeniedBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, dynalimit.PerDay("tpm", 1000))
		_, err := l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 200})
		require.NoError(t, err)
		db.SetFaults(after10ms)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100 { // one queues while the last is in flight, always
				go func() { _, _ = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": 1}) }()
				<-time.After(5 * time.Millisecond)
			}
		}()
		<-time.After(12 * time.Millisecond)
		left, err := availableOf(l.Check(t.Context(), "u", "m", nil))
		require.NoError(t, err)
		began := time.Now()
		_, err = l.Acquire(t.Context(), "u", "m", dynalimit.Amounts{"tpm": left["tpm"]}) // what is in flight is not known yet
		assert.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		assert.Less(t, time.Since(began), 50*time.Millisecond)
		<-done
		synctest.Wait()
	})
}

// What a batch gives back comes before what it takes, and a full bucket holds no
// more: a take denied beside both must say how long, not that it would fit.
func TestDenialBesideGiveBackAndTake(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}))
		old := s.acquire("org", dynalimit.Amounts{"rpm": 90})
		elapse(25 * time.Hour) // full again
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 10 * time.Millisecond} })
		errs := make(map[int64]chan error)
		take := func(n int64) {
			done := make(chan error, 1)
			errs[n] = done
			go func() {
				_, err := s.limiter.Acquire(t.Context(), "org", "gpt-4", dynalimit.Amounts{"rpm": n})
				done <- err
			}()
			synctest.Wait()
		}
		take(40)
		elapse(15 * time.Millisecond) // reads the configuration
		for _, n := range []int64{1, 80, 65} {
			take(n) // while the 40 are written
		}
		elapse(10 * time.Millisecond) // the 1 is written, and 80 and 65 do not fit beside
		require.NoError(t, old.Rollback(t.Context()))
		for _, n := range []int64{40, 1, 80} {
			require.NoError(t, <-errs[n])
		}
		var denied *dynalimit.LimitExceededError
		require.ErrorAs(t, <-errs[65], &denied)
		require.Equal(t, int64(20), denied.Primary().Remaining)
		require.Equal(t, 45*24*time.Hour/100, denied.RetryAfter.Round(time.Minute))
	})
}
