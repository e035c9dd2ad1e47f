package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// requireNothingHeld: no hold is left, and every counter of hard mode has what
// n calls cost, once.
func (w *world) requireNothingHeld(n int64) {
	w.t.Helper()
	require.Empty(w.t, w.items("HOLD#"))
	counters := 0
	for _, item := range w.items("ORG#") {
		row, err := ledger.DecodeCounter(item)
		require.NoError(w.t, err)
		require.Equal(w.t, money.FromMicros(n*16_500), row.Cost, store.KeyOf(item))
		if row.Hard {
			require.Equal(w.t, row.Cost, row.Used, store.KeyOf(item))
			counters++
		}
	}
	require.NotZero(w.t, counters)
	got := w.total(appA, "premium", "")
	require.Equal(w.t, []int64{n, n * 16_500, 0}, []int64{got.Requests, got.CostMicros, got.HeldMicros})
}

// TestDuplicateSettleGivesTheHoldBack: the record was counted before, by a
// submission or another hold; what was held for it is free at once.
func TestDuplicateSettleGivesTheHoldBack(t *testing.T) {
	limited := hardOrg()
	limited.Limits = []PeriodQuota{{Period: Day, Micros: 20_000_000}, {Period: Week, Label: "premium", Micros: 30_000_000}}
	tagged := call(1)
	tagged.Tags = map[string]string{"user": "u1"}
	for name, tc := range map[string]struct {
		org   Org
		usage Usage
	}{"one counter": {hardOrg(), call(1)}, "four counters and a tag": {limited, tagged}} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, w *world) {
				w.org(tc.org)
				first := w.reserve(w.b, 66_000)
				w.submit(w.a, tc.usage)
				moved := w.reserve(w.a, 66_000)
				require.NoError(t, moved.Extend(t.Context(), time.Hour))
				for _, h := range []*Hold{first, moved} {
					for range 2 {
						r, err := h.Settle(t.Context(), tc.usage)
						require.NoError(t, err)
						assert.True(t, r.Duplicate)
						assert.Equal(t, int64(16_500), r.CostMicros)
					}
					require.NoError(t, h.Release(t.Context()), "there is nothing left to do")
				}
				w.requireNothingHeld(1)
			})
		})
	}
}

// TestDuplicateSettleAfterTheModelChanged: a record that would be refused now.
func TestDuplicateSettleAfterTheModelChanged(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		w.submit(w.a, call(1))
		h := w.reserve(w.a, 66_000)
		o := hardOrg()
		o.Models = map[string]string{"premium": standardModel}
		w.org(o)
		r, err := h.Settle(t.Context(), call(1))
		require.NoError(t, err)
		assert.True(t, r.Duplicate)
		w.requireNothingHeld(1)
	})
}

// TestARefusedSettlementKeepsTheHold: the call is not counted yet.
func TestARefusedSettlementKeepsTheHold(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		h := w.reserve(w.a, 66_000)
		other := call(1)
		other.Model = standardModel
		for range 2 {
			_, err := h.Settle(t.Context(), other)
			assert.Equal(t, "model_id", requireCode(t, err, CodeInvalidRequest).Field)
			assert.Equal(t, int64(66_000), w.total(appA, "premium", "").HeldMicros)
		}
		_, err := h.Settle(t.Context(), call(1))
		require.NoError(t, err)
		w.requireNothingHeld(1)
	})
}

// TestConflictKeepsTheHold: the call itself is not counted yet.
func TestConflictKeepsTheHold(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		w.submit(w.a, call(1))
		other := call(1)
		other.Tokens.Output++
		h := w.reserve(w.a, 66_000)
		_, err := h.Settle(t.Context(), other)
		require.ErrorIs(t, err, ErrConflict)
		assert.Equal(t, int64(66_000), w.total(appA, "premium", "").HeldMicros)
		r, err := h.Settle(t.Context(), call(2))
		require.NoError(t, err)
		assert.False(t, r.Duplicate)
		w.requireNothingHeld(2)

		h = w.reserve(w.a, 66_000)
		_, err = h.Settle(t.Context(), other)
		require.ErrorIs(t, err, ErrConflict)
		require.NoError(t, h.Release(t.Context()))
		w.requireNothingHeld(2)
	})
}

// TestDuplicatesTogether: settlements of one record and reservations share
// transactions, from two processes.
func TestDuplicatesTogether(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		holds := make([]*Hold, 20)
		for i := range holds {
			holds[i] = w.reserve([]*Keeper{w.a, w.b}[i%2], 66_000)
		}
		together(20, 20, func(i int) {
			_, err := holds[i].Settle(t.Context(), call(1))
			assert.NoError(t, err)
			h, err := []*Keeper{w.a, w.b}[i%2].Reserve(t.Context(), orgO, appA, "premium", 66_000, time.Minute)
			if assert.NoError(t, err) {
				assert.NoError(t, h.Release(t.Context()))
			}
		})
		w.requireNothingHeld(1)
	})
}
