package budget

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// hotItem refuses transactions that meet another on the day's counter, as
// DynamoDB does: one is on it for busy, and each answer takes a way there and
// back.
type hotItem struct {
	mu        sync.Mutex
	busy, way time.Duration
	until     time.Time
	conflicts int64
	sent      int64
}

func (h *hotItem) fault(r *ddbmem.Request) ddbmem.Fault {
	f := ddbmem.Fault{Before: h.way, After: h.way}
	if r.Operation != "TransactWriteItems" || !bytes.Contains(r.Body, []byte("#SH#0")) {
		return f
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent++
	now := time.Now()
	if now.Before(h.until) {
		h.conflicts++
		f.Error = &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{}, {Code: "TransactionConflict"}}}
		return f
	}
	h.until = now.Add(h.busy)
	f.Before += h.busy
	return f
}

// TestHardModeUnderContention has several processes reserve and settle on one
// counter, as fast as they are answered, for a second, or ten where more than 100
// histories are asked for. Conflicts cost time, never a call.
func TestHardModeUnderContention(t *testing.T) {
	sizes := []int{1, 2, 4, 8}
	if few(t) {
		sizes = []int{2, 8}
	}
	for _, processes := range sizes {
		synctest.Test(t, func(t *testing.T) {
			db := ddbmem.New()
			org := hardOrg()
			org.Quotas["premium"] = maxQuota
			var keepers []*Keeper
			for range processes {
				k, err := New(db.Client(), Tables{}, &Options{Principal: tester, Models: fixtureModels})
				require.NoError(t, err)
				keepers = append(keepers, k)
			}
			require.NoError(t, keepers[0].CreateTables(t.Context()))
			_, err := keepers[0].PutOrg(t.Context(), org)
			require.NoError(t, err)
			hot := &hotItem{busy: 4 * time.Millisecond, way: 2 * time.Millisecond}
			db.SetFaults(hot.fault)

			const callers = 25 // a process
			lasting := time.Second
			if histories(t) > 100 {
				lasting = 10 * time.Second
			}
			var calls, slowest, ids atomic.Int64
			start := time.Now()
			var group sync.WaitGroup
			for _, k := range keepers {
				for range callers {
					group.Go(func() {
						for time.Since(start) < lasting {
							began := time.Now()
							h, err := k.Reserve(t.Context(), orgO, appA, "premium", 20_000, time.Minute)
							if !assert.NoError(t, err) {
								return
							}
							u := call(int(ids.Add(1)))
							u.Time = time.Time{}
							_, err = h.Settle(t.Context(), u)
							if !assert.NoError(t, err) {
								return
							}
							calls.Add(1)
							slowest.Store(max(slowest.Load(), int64(time.Since(began))))
						}
					})
				}
			}
			group.Wait()
			seconds := time.Since(start).Seconds()
			db.SetFaults(nil)
			totals, err := keepers[0].Totals(t.Context(), orgO, appA, "")
			require.NoError(t, err)
			assert.Equal(t, calls.Load(), totals.Labels[0].Requests)
			assert.Zero(t, totals.Labels[0].HeldMicros)
			t.Logf("%d processes of %d callers: %.0f calls/s, %.0f transactions/s landed, %.0f conflicts/s, slowest call %v",
				processes, callers, float64(calls.Load())/seconds, float64(hot.sent-hot.conflicts)/seconds,
				float64(hot.conflicts)/seconds, time.Duration(slowest.Load()).Round(time.Millisecond))
			for _, k := range keepers {
				require.NoError(t, k.Close(context.Background()))
			}
			db.Close()
		})
	}
}
