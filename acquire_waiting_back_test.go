package dynalimit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// A process gives back tokens for which a waiter of each other process competes: the first of them has some within
// 300 ms, and each within 1.2 s.
func TestGiveBacksReachOtherProcesses(t *testing.T) {
	for _, processes := range []int{2, 20, 200} {
		synctest.Test(t, func(t *testing.T) {
			given := int64(4 * processes)
			all, _ := peers(t, processes+1, 5*time.Millisecond, dynalimit.PerMinute("rpm", 60).WithBurst(given+10))
			held, err := all[processes].Acquire(t.Context(), "u", "m", dynalimit.Amounts{"rpm": given})
			require.NoError(t, err)
			const contested = 20 * time.Second
			var group sync.WaitGroup
			first, each := time.Hour, make([]time.Duration, processes)
			var mu sync.Mutex
			began := time.Now()
			for i, l := range all[:processes] {
				group.Go(func() {
					for each[i] == 0 {
						_, err := l.Wait(t.Context(), "u", "m", dynalimit.Amounts{"rpm": 1})
						assert.NoError(t, err)
						if after := time.Since(began) - contested; after > 0 {
							mu.Lock()
							each[i], first = after, min(first, after)
							mu.Unlock()
						}
					}
				})
			}
			elapse(contested)
			require.NoError(t, held.Rollback(t.Context()))
			group.Wait()
			last := time.Duration(0)
			for _, d := range each {
				last = max(last, d)
			}
			t.Logf("%d processes: the first after %v, the last after %v", processes, first, last)
			assert.Less(t, last, 1200*time.Millisecond, "%d processes", processes)
			assert.Less(t, first, 300*time.Millisecond, "%d processes", processes)
		})
	}
}
