package budget

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestPutIsFollowedDuringALoad: a load that began before the PUT is not what
// its process goes by after it.
func TestPutIsFollowedDuringALoad(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		var slowed atomic.Bool
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "BatchGetItem" && slowed.CompareAndSwap(false, true) {
				return ddbmem.Fault{After: 300 * time.Millisecond}
			}
			return ddbmem.Fault{}
		})
		loaded := make(chan error, 1)
		go func() {
			_, err := k.Recommend(t.Context(), orgO, appA)
			loaded <- err
		}()
		pass(50 * time.Millisecond)
		o := fixtureOrg()
		o.Ordering = []string{"economy"}
		_, err := k.Setup().PutOrg(t.Context(), o)
		require.NoError(t, err)
		rec, err := k.Recommend(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, "economy", rec.Label)
		require.NoError(t, <-loaded)
		rec, err = k.Recommend(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, "economy", rec.Label, "the old load is not kept")
	})
}

// TestPricesAreFollowedDuringALoad is the same for prices.
func TestPricesAreFollowedDuringALoad(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		var loads atomic.Int32
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "BatchGetItem" {
				if loads.Add(1) <= 2 {
					return ddbmem.Fault{After: 300 * time.Millisecond}
				}
			}
			return ddbmem.Fault{}
		})
		loaded := make(chan error, 1)
		go func() {
			_, err := k.Estimate(t.Context(), orgO, appA, "premium", 1, 1)
			loaded <- err
		}()
		pass(350 * time.Millisecond) // the prices are being read
		require.NoError(t, k.Prices().Put(t.Context(), premiumModel, Price{Model: premiumModel, Rates: Rates{Input: 7_000_000}}))
		require.NoError(t, <-loaded)
		micros, err := k.Estimate(t.Context(), orgO, appA, "premium", 1_000_000, 0)
		require.NoError(t, err)
		assert.Equal(t, int64(7_000_000), micros)
	})
}

// TestTotalsHaveANewLabel: one that another process put a moment ago.
func TestTotalsHaveANewLabel(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		_ = w.total(appA, "premium", "") // node b has the configuration now
		o := fixtureOrg()
		o.Ordering = append(o.Ordering, "micro")
		o.Quotas["micro"] = 1_000_000
		w.org(o)
		w.submit(w.a, Usage{
			RequestID: uuid(1), Label: "micro", Tokens: Tokens{Input: 10_000_000}, Tags: map[string]string{"user": "u1"},
		})
		assert.Equal(t, int64(350_000), w.total(appA, "micro", "").CostMicros)
		tags, err := w.b.TagTotals(t.Context(), orgO, "", "", "user")
		require.NoError(t, err)
		assert.Equal(t, []TagTotal{{"u1", 350_000, 1}}, tags, "of the whole organisation")
	})
}

// TestNotFoundSaysWhat: which organisation, app or record does not exist.
func TestNotFoundSaysWhat(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.a.Recommend(ctx, orgO, appA)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "organisation "+orgO)
	_, err = w.a.Setup().GetOrg(ctx, orgO)
	require.ErrorContains(t, err, "organisation "+orgO)
	_, err = w.a.Setup().PutApp(ctx, orgO, App{ID: appA})
	require.ErrorContains(t, err, "organisation "+orgO)
	w.org(fixtureOrg())
	_, err = w.a.Setup().GetApp(ctx, orgO, appA)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, appA)
	_, err = w.a.Sticky(ctx, orgO, appA)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "sticky record")
}
