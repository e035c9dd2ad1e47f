package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
)

func TestTags(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		for i, user := range []string{"u1", "u2", "u1"} {
			u := call(i)
			u.Tags = map[string]string{"user": user, "feature": "chat"}
			w.submit(w.a, u)
			assert.True(t, w.submit(w.b, u).Duplicate)
		}
		got, err := w.b.TagTotals(t.Context(), orgO, appA, "", "user")
		require.NoError(t, err)
		assert.Equal(t, []TagTotal{{"u1", 33_000, 2}, {"u2", 16_500, 1}}, got)
		got, err = w.b.TagTotals(t.Context(), orgO, appA, "", "feature")
		require.NoError(t, err)
		assert.Equal(t, []TagTotal{{"chat", 49_500, 3}}, got)
		assert.Equal(t, int64(49_500), w.total(appA, "premium", "").CostMicros)
	})
}

func TestHistoryClosesDays(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		for day := range 5 {
			u := call(day)
			u.Time = w.clock.Now()
			w.submit(w.a, u)
			w.clock.Advance(24 * time.Hour)
		}
		read := func(k *Keeper, from, to string) (costs []int64) {
			for d, err := range k.History(t.Context(), orgO, appA, from, to) {
				require.NoError(t, err)
				costs = append(costs, d.CostMicros)
			}
			return costs
		}
		want := []int64{0, 16_500, 16_500, 16_500, 16_500, 16_500, 0}
		assert.Equal(t, want, read(w.a, "20990122", "20990131"))
		closed := len(w.items("T#"))
		assert.Positive(t, closed)
		assert.Equal(t, want, read(w.b, "20990122", "20990128"))
		assert.Len(t, w.items("T#"), closed, "written once")

		require.NoError(t, adjust(t.Context(), w.a, orgO, appA, Adjustment{Label: "premium", Day: "20990123", DeltaMicros: -6_500, Reason: "refund"}))
		want[1] = 10_000
		assert.Equal(t, want, read(w.b, "20990122", "20990128"), "a late write opens its day again")
		assert.Equal(t, want, read(w.a, "20990122", "20990128"))
		assert.Equal(t, int64(10_000), w.total(appA, "premium", "20990123").CostMicros)
		for a, err := range w.b.Setup().Adjustments(t.Context(), orgO, appA) {
			require.NoError(t, err)
			assert.Equal(t, "refund", a.Reason)
			assert.Equal(t, int64(-6_500), a.DeltaMicros)
		}
		for _, bad := range [][2]string{{"20990128", "20990122"}, {"2099-01-22", "20990123"}, {"20990122", "x"}} {
			for _, err := range w.a.History(t.Context(), orgO, appA, bad[0], bad[1]) {
				requireCode(t, err, fault.InvalidRequest)
			}
		}
	})
}

// TestLateCloserDoesNotHideALateWrite: the shards were read before a late
// write, and the total is stored after it.
func TestLateCloserDoesNotHideALateWrite(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.submit(w.a, call(1))
		w.clock.Advance(72 * time.Hour)
		scope := ledger.AppScope(orgO, appA)
		tenant, err := w.b.tenants.get(t.Context(), orgO, appA)
		require.NoError(t, err)
		stale, err := w.b.ledger.SumDays(t.Context(), tenant.calendar, scope, map[string]bool{"premium": true}, "20990123", "20990123")
		require.NoError(t, err)
		require.Len(t, stale.Complete, 1)
		require.NoError(t, adjust(t.Context(), w.a, orgO, appA, Adjustment{Label: "premium", Day: "20990123", DeltaMicros: 500, Reason: "late"}))
		w.b.ledger.CloseAll(t.Context(), stale.Complete)
		assert.Equal(t, int64(17_000), w.total(appA, "premium", "20990123").CostMicros)
	})
}

// TestConcurrentPuts: nobody's PUT is lost, and no app is left invalid.
func TestConcurrentPuts(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		together(8, 8, func(i int) {
			k := []*Keeper{w.a, w.b}[i%2]
			var err error
			if i < 4 {
				_, err = k.Setup().PutOrg(t.Context(), fixtureOrg())
			} else {
				_, err = k.Setup().PutApp(t.Context(), orgO, App{ID: appA})
			}
			assert.NoError(t, err)
		})
		o, err := w.a.Setup().GetOrg(t.Context(), orgO)
		require.NoError(t, err)
		if w.engine.Flaky() { // a PUT whose answer was lost and that was overwritten is put again
			assert.GreaterOrEqual(t, o.Version, int64(5))
			return
		}
		assert.Equal(t, int64(5), o.Version)
		a, err := w.a.Setup().GetApp(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, int64(4), a.Version)
	})
}
