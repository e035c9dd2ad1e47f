package dynalimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestCancelledCallersReturnAtOnce cancels an acquire at every millisecond of
// its way: before its write, in flight, queued behind another's, waiting.
func TestCancelledCallersReturnAtOnce(t *testing.T) {
	for after := time.Duration(0); after <= 24*time.Millisecond; after += 3 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			l, db := waitLimiter(t, PerMinute("rpm", 60))
			drain(t, l, Amounts{"rpm": 1})
			db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
				return ddbmem.Fault{Before: 5 * time.Millisecond, After: 5 * time.Millisecond}
			})
			results := make(chan error, 2)
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			began := time.Now()
			for range 2 { // the second queues behind the first
				go func() {
					_, err := l.Acquire(ctx, "u", "m", Amounts{"rpm": 5})
					results <- err
				}()
				synctest.Wait()
			}
			granted := int64(0)
			for range 2 {
				if err := <-results; err == nil {
					granted += 5
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Equal(t, after, time.Since(began))
				}
			}
			require.NoError(t, l.Close(t.Context()))
			db.SetFaults(nil)
			other, err := New(l.repo, &Options{Limits: l.opts.Limits})
			require.NoError(t, err)
			available, err := other.Available(t.Context(), "u", "m")
			require.NoError(t, err)
			require.Equal(t, 59-granted, available["rpm"], "what was granted to nobody is given back")
		})
	}
}

func TestRollbackSurvivesACancelledContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, PerMinute("rpm", 60))
		ctx, cancel := context.WithCancel(t.Context())
		lease, err := l.Acquire(ctx, "u", "m", Amounts{"rpm": 60})
		require.NoError(t, err)
		cancel()
		require.NoError(t, lease.Rollback(ctx))
		available, err := l.Available(t.Context(), "u", "m")
		require.NoError(t, err)
		require.Equal(t, Amounts{"rpm": 60}, available)
	})
}
