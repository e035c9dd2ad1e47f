package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
)

const adjustmentID = "11111111-1111-4111-8111-111111111111"

// TestAdjustmentID: one id is one adjustment, on every node, across midnight,
// and of one app.
func TestAdjustmentID(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		ctx := t.Context()
		a := Adjustment{ID: adjustmentID, Label: "premium", DeltaMicros: 700, Reason: "import"}
		first, err := w.a.Setup().Adjust(ctx, orgO, appA, a)
		require.NoError(t, err)
		assert.False(t, first.Duplicate)
		assert.Equal(t, "20990123", first.Day)
		again, err := w.b.Setup().Adjust(ctx, orgO, appA, a)
		require.NoError(t, err)
		assert.True(t, again.Duplicate)
		assert.Equal(t, first.At.UnixMilli(), again.At.UnixMilli())
		w.clock.Advance(24 * time.Hour)
		again, err = w.b.Setup().Adjust(ctx, orgO, appA, a)
		require.NoError(t, err)
		assert.Equal(t, "20990123", again.Day, "the day it was applied on")
		assert.Zero(t, w.total(appA, "premium", "").CostMicros)
		assert.Equal(t, int64(700), w.total(appA, "premium", "20990123").CostMicros)

		for name, change := range map[string]func(*Adjustment){
			"amount": func(a *Adjustment) { a.DeltaMicros = 701 },
			"label":  func(a *Adjustment) { a.Label = "economy" },
			"reason": func(a *Adjustment) { a.Reason = "other" },
			"day":    func(a *Adjustment) { a.Day = "20990122" },
		} {
			other := a
			change(&other)
			_, err = w.a.Setup().Adjust(ctx, orgO, appA, other)
			require.ErrorIs(t, err, ErrConflict, name)
		}
		require.NoError(t, adjust(ctx, w.a, orgO, appB, a), "another app's")
		for _, app := range []string{appA, appB} {
			n := 0
			for got, err := range w.b.Setup().Adjustments(ctx, orgO, app) {
				require.NoError(t, err)
				assert.Equal(t, app, got.App)
				n++
			}
			assert.Equal(t, 1, n)
		}
		all := 0
		for _, err := range w.b.Setup().Adjustments(ctx, orgO, "") {
			require.NoError(t, err)
			all++
		}
		assert.Equal(t, 2, all)
		a.ID = "not-a-uuid"
		_, err = w.a.Setup().Adjust(ctx, orgO, appA, a)
		assert.Equal(t, "id", requireCode(t, err, fault.InvalidRequest).Field)
	})
}
