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
