package dynalimit_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// waited is one Wait: when it came, and when it was served.
type waited struct{ came, served time.Time }

// loopWaits waits for one token again and again for a time, in a number of callers. It returns the waits in order
// of arrival.
func loopWaits(t *testing.T, l *rateLimiter, callers int, limit string, d time.Duration) []waited {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		all   []waited
	)
	for range callers {
		group.Go(func() {
			for until := time.Now().Add(d); time.Now().Before(until); {
				came := time.Now()
				_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{limit: 1})
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
			all := loopWaits(t, l, waiters, "rps", 3*time.Second)
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
