package budget

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// onTransactions gives the n-th transaction, from 1, its fault.
func onTransactions(fault func(n int) ddbmem.Fault) ddbmem.FaultFunc {
	var n atomic.Int32
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation != "TransactWriteItems" {
			return ddbmem.Fault{}
		}
		return fault(int(n.Add(1)))
	}
}

func heldNow(t *testing.T, k *Keeper) int64 {
	t.Helper()
	got, err := k.Totals(t.Context(), orgO, appA, "")
	require.NoError(t, err)
	return got.Labels[0].HeldMicros
}

// TestAbandonedReservationIsGivenBack: one that was written while its caller
// heard of a failure, or of nothing, does not hold money for an hour.
func TestAbandonedReservationIsGivenBack(t *testing.T) {
	for name, tc := range map[string]struct {
		patience time.Duration // of the caller
		faults   func(n int) ddbmem.Fault
	}{
		"lost, then conflicts": {200 * time.Millisecond, func(n int) ddbmem.Fault {
			if n == 1 {
				return ddbmem.Fault{Lose: true}
			}
			return conflicted
		}},
		"lost for good": {time.Minute, func(int) ddbmem.Fault { return ddbmem.Fault{Lose: true} }},
		"the store is gone for half a minute": {time.Minute, func(n int) ddbmem.Fault {
			if n == 1 {
				return ddbmem.Fault{Lose: true}
			}
			return ddbmem.Fault{Drop: true}
		}},
		"granted too late": {50 * time.Millisecond, func(int) ddbmem.Fault { return ddbmem.Fault{After: 100 * time.Millisecond} }},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, Options{}, hardOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
				_, err := k.Submit(t.Context(), orgO, appA, call(100))
				require.NoError(t, err)
				db.SetFaults(onTransactions(tc.faults))
				ctx, cancel := context.WithTimeout(t.Context(), tc.patience)
				defer cancel()
				_, err = k.Reserve(ctx, orgO, appA, "premium", 9_000_000, time.Hour)
				var u *UnavailableError
				require.ErrorAs(t, err, &u)
				pass(20 * time.Second)
				db.SetFaults(nil)
				pass(20 * time.Second)
				assert.Zero(t, heldNow(t, k))
			})
		})
	}
}

// TestReservationLandsAfterItWasGivenUp: the write was on its way for longer
// than anybody waited, and must hold nothing then.
func TestReservationLandsAfterItWasGivenUp(t *testing.T) {
	simulated(t, Options{}, hardOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(100))
		require.NoError(t, err)
		late := make(chan struct{})
		db.SetFaults(onTransactions(func(n int) ddbmem.Fault {
			switch {
			case n == 1:
				return ddbmem.Fault{Late: late}
			case n < 40:
				return conflicted
			}
			return ddbmem.Fault{}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = k.Reserve(ctx, orgO, appA, "premium", 9_000_000, time.Hour)
		require.Error(t, err)
		pass(30 * time.Second)
		close(late)
		pass(time.Second)
		db.SetFaults(nil)
		assert.Zero(t, heldNow(t, k))
		_, err = k.Reserve(t.Context(), orgO, appA, "premium", 9_000_000, time.Minute)
		require.NoError(t, err)
	})
}

// TestBarredTwiceIsNotGivenBack: the hold was never written, and the answer to
// barring its id was lost. What is in its place is no hold to give back.
func TestBarredTwiceIsNotGivenBack(t *testing.T) {
	for name, barring := range map[string][]ddbmem.Fault{
		"then a conflict": {{Lose: true}, conflicted},
		"for good":        append(slices.Repeat([]ddbmem.Fault{{Lose: true}}, 30), conflicted),
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, Options{}, hardOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
				_, err := k.Submit(t.Context(), orgO, appA, call(100))
				require.NoError(t, err)
				var mu sync.Mutex
				reserved := false
				db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					mu.Lock()
					defer mu.Unlock()
					puts, counts := bytes.Contains(r.Body, []byte(`"Put"`)), bytes.Contains(r.Body, []byte(`"Update"`))
					switch {
					case r.Operation != "TransactWriteItems" || !puts:
						return ddbmem.Fault{}
					case counts && !reserved:
						reserved = true
						return ddbmem.Fault{Drop: true}
					case counts:
						return conflicted
					case len(barring) == 0:
						return ddbmem.Fault{}
					}
					f := barring[0]
					barring = barring[1:]
					return f
				})
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				_, err = k.Reserve(ctx, orgO, appA, "premium", 9_000_000, time.Minute)
				require.Error(t, err)
				pass(50 * time.Second)
				require.Empty(t, barring, "it was barred more than once")
				db.SetFaults(nil)
				assert.Zero(t, heldNow(t, k))
				pass(time.Minute)
				_, err = k.Sweep(t.Context(), orgO)
				require.NoError(t, err)
				assert.Zero(t, heldNow(t, k), "and when it expires")
			})
		})
	}
}

// TestCloseGivesBackAbandonedReservations: they do not outlive the keeper that
// made them.
func TestCloseGivesBackAbandonedReservations(t *testing.T) {
	simulated(t, Options{}, hardOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(100))
		require.NoError(t, err)
		db.SetFaults(onTransactions(func(n int) ddbmem.Fault {
			if n == 1 {
				return ddbmem.Fault{Lose: true}
			}
			return conflicted
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = k.Reserve(ctx, orgO, appA, "premium", 9_000_000, time.Hour)
		require.Error(t, err)
		db.SetFaults(nil)
		require.NoError(t, k.Close(t.Context()))
		other, err := New(db.Client(), Tables{}, &Options{Principal: tester, Models: fixtureModels})
		require.NoError(t, err)
		assert.Zero(t, heldNow(t, other))
		require.NoError(t, other.Close(t.Context()))
	})
}

// TestCloseIsBoundedWithAbandonedReservations: a store that is gone does not
// keep Close, or a goroutine.
func TestCloseIsBoundedWithAbandonedReservations(t *testing.T) {
	simulated(t, Options{}, hardOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(100))
		require.NoError(t, err)
		db.SetFaults(onTransactions(func(int) ddbmem.Fault { return ddbmem.Fault{Lose: true} }))
		_, err = k.Reserve(t.Context(), orgO, appA, "premium", 1, time.Hour)
		require.Error(t, err)
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
		began := time.Now()
		err = k.Close(t.Context())
		require.True(t, err == nil || errors.Is(err, context.DeadlineExceeded), "%v", err)
		assert.Less(t, time.Since(began), time.Minute)
	})
}

// TestAbandonedHoldIsGivenUpInTheEnd: one that cannot be given back is not tried
// for ever; it expires.
func TestAbandonedHoldIsGivenUpInTheEnd(t *testing.T) {
	simulated(t, Options{}, hardOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		db.SetFaults(onTransactions(func(n int) ddbmem.Fault {
			if n == 1 {
				return ddbmem.Fault{Lose: true} // it is held, and nobody knows
			}
			return conflicted
		}))
		_, err := k.Reserve(t.Context(), orgO, appA, "premium", 1, time.Hour)
		require.ErrorIs(t, err, ErrUnavailable)
		pass(3 * time.Minute)
		before := db.Meter().Requests()
		pass(time.Minute)
		assert.Equal(t, before, db.Meter().Requests(), "nobody tries any more")
	})
}
