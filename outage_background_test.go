package dynalimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// A caller whose context cannot end is answered as fast as others when the bucket
// does not: the outage lasts for as long as the test.
func TestAnOutageAnswersCallersWhoseContextCannotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, PerMinute("tpm", 1000))
		drain(t, l, Amounts{"tpm": 1})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
		t.Cleanup(func() { db.SetFaults(nil) })
		for range 3 {
			began := time.Now()
			lease, err := l.Acquire(context.Background(), "u", "m", Amounts{"tpm": 1}, WithOnUnavailable(Allow))
			require.NoError(t, err)
			require.True(t, lease.Degraded())
			require.LessOrEqual(t, time.Since(began), 2*time.Second, "Options.Timeout") // the bubble's time
		}
	})
}
