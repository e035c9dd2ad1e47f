package dynalimit

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// Waiters who bring limits that differ claim the bucket for theirs in turn. Each
// tries when its turn is due, not whenever another has claimed.
func TestWaitersThatDisagreeDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, PerMinute("rpm", 60), PerMinute("tpm", 60))
		drain(t, l, Amounts{"rpm": 60, "tpm": 60})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 5 * time.Millisecond} })
		began, meter := time.Now(), db.Meter()
		var group sync.WaitGroup
		for name, opts := range map[string][]AcquireOption{"rpm": nil, "tpm": {WithLimits(PerMinute("tpm", 61))}} {
			group.Go(func() { // both are at the head: they need nothing of each other's
				_, err := l.Wait(t.Context(), "u", "m", Amounts{name: 10}, opts...)
				require.NoError(t, err)
			})
		}
		group.Wait()
		require.Less(t, time.Since(began), time.Minute)
		require.Less(t, db.Meter().Sub(meter).Requests(), int64(60))
	})
}
