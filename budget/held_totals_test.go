package budget

import (
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
