package budget

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestTotalsHoldNothingForTheDead: what a client held that died is not held any longer, though
// nobody but readers of totals came by since.
func TestTotalsHoldNothingForTheDead(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		w.reserve(w.a, 100_000)
		assert.Equal(t, int64(100_000), w.total(appA, "premium", "").HeldMicros)
		w.clock.Advance(50 * time.Second)
		w.reserve(w.a, 7)
		w.clock.Advance(10*time.Second + ledger.LeaseMargin)
		assert.Equal(t, int64(7), w.total(appA, "premium", "").HeldMicros)
		whole, err := w.b.Totals(t.Context(), orgO, "", "")
		require.NoError(t, err)
		assert.Equal(t, int64(7), whole.Labels[0].HeldMicros)
		w.clock.Advance(time.Hour)
		whole, err = w.b.Totals(t.Context(), orgO, "", "")
		require.NoError(t, err)
		assert.Zero(t, whole.Labels[0].HeldMicros)
		assert.Empty(t, w.items("HOLD#"))
	})
}

// TestTotalsOfWhatCannotBeGivenBack: totals are read all the same, and say what the store does.
func TestTotalsOfWhatCannotBeGivenBack(t *testing.T) {
	w := newWorld(t)
	w.org(hardOrg())
	w.reserve(w.a, 100_000)
	w.clock.Advance(time.Hour)
	w.db.SetFaults(onWrites("TransactWriteItems", ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}))
	assert.Equal(t, int64(100_000), w.total(appA, "premium", "").HeldMicros)
	w.db.SetFaults(nil)
	assert.Zero(t, w.total(appA, "premium", "").HeldMicros)
}

// TestTotalsWaitForNoWrite: a store that takes no writes delays no totals for longer than a call
// may wait.
func TestTotalsWaitForNoWrite(t *testing.T) {
	simulated(t, Options{Timeout: time.Second}, hardOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Reserve(t.Context(), orgO, appA, "premium", 100_000, time.Minute)
		require.NoError(t, err)
		pass(time.Hour)
		db.SetFaults(onWrites("TransactWriteItems", conflicted))
		began := time.Now()
		got, err := k.Totals(t.Context(), orgO, appA, "")
		require.NoError(t, err)
		assert.Equal(t, int64(100_000), got.Labels[0].HeldMicros)
		assert.LessOrEqual(t, time.Since(began), time.Second)
		pass(20 * time.Second)
		back(db, k)
	})
}

// TestTotalsOfWhatIsGivenBackSlowly: when there is no time left to read them again, they are as
// they were read first.
func TestTotalsOfWhatIsGivenBackSlowly(t *testing.T) {
	simulated(t, Options{Timeout: time.Second}, hardOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Reserve(t.Context(), orgO, appA, "premium", 100_000, time.Minute)
		require.NoError(t, err)
		pass(time.Hour)
		var released atomic.Bool
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			switch {
			case r.Operation == "TransactWriteItems":
				released.Store(true)
				return ddbmem.Fault{After: 900 * time.Millisecond}
			case r.Operation == "Query" && released.Load():
				return ddbmem.Fault{After: 500 * time.Millisecond}
			}
			return ddbmem.Fault{}
		})
		got, err := k.Totals(t.Context(), orgO, appA, "")
		require.NoError(t, err)
		assert.Equal(t, int64(100_000), got.Labels[0].HeldMicros)
		back(db, k)
		assert.Zero(t, heldNow(t, k))
	})
}

// TestWhatExpiredIsGivenBackOnce, by however many readers, settlements, releases and
// extensions at the same time.
func TestWhatExpiredIsGivenBackOnce(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		ctx := t.Context()
		const n = 12
		holds := make([]*Hold, n)
		for i := range holds {
			holds[i] = w.reserve([]*Keeper{w.a, w.b}[i%2], 100_000)
		}
		stays := w.reserve(w.a, 7)
		require.NoError(t, stays.Extend(ctx, time.Hour))
		w.clock.Advance(time.Minute + ledger.LeaseMargin)
		together(3*n, 3*n, func(i int) {
			k, h := []*Keeper{w.a, w.b}[i%2], holds[i%n]
			switch {
			case i >= n:
				_, err := k.Totals(ctx, orgO, appA, "")
				assert.NoError(t, err)
			case i%3 == 0:
				_, err := h.Settle(ctx, call(i))
				assert.NoError(t, err)
			case i%3 == 1:
				assert.NoError(t, h.Release(ctx))
			default:
				if err := h.Extend(ctx, time.Hour); err != nil {
					assert.ErrorIs(t, err, ErrNotFound)
				}
				assert.NoError(t, h.Release(ctx))
			}
		})
		w.clock.Advance(6 * time.Second)
		for _, day := range []string{"", "20260123"} {
			got := w.total(appA, "premium", day)
			assert.Equal(t, []int64{n / 3, 7, n / 3 * 16_500}, []int64{got.Requests, got.HeldMicros, got.CostMicros})
		}
		require.NoError(t, stays.Release(ctx))
		w.requireNothingHeld(n / 3)
	})
}
