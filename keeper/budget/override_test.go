package budget

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
)

// TestStickySaysOverride: while it is followed; then what spend led to.
func TestStickySaysOverride(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.spend(appA, "premium", 10_000_000)
		w.recommend(w.a, appA)
		until := w.clock.Now().Add(time.Hour)
		require.NoError(t, w.a.Setup().Override(t.Context(), orgO, appA, "economy", until))
		got, err := w.a.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, []any{"economy", 2, "standard", ReasonManualOverride}, []any{got.Label, got.Index, got.Previous, got.Reason})
		assert.True(t, until.Add(-time.Hour).Equal(got.At), "when it was set")
		assert.Equal(t, ReasonManualOverride, w.recommend(w.a, appA).Reason)
		w.clock.Set(until)
		got, err = w.a.Sticky(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, []any{"standard", 1, "premium", reasonQuotaExceeded}, []any{got.Label, got.Index, got.Previous, got.Reason})
	})
}

// TestTheStickyRecordIsKept unless an organisation has it off.
func TestTheStickyRecordIsKept(t *testing.T) {
	for _, off := range []bool{false, true} {
		w := newWorld(t)
		o := fixtureOrg()
		o.Sticky, o.NoSticky = false, off
		w.org(o)
		for range 2 { // as it was read, it is put again
			got, err := w.b.Setup().GetOrg(t.Context(), orgO)
			require.NoError(t, err)
			assert.Equal(t, []bool{!off, off}, []bool{got.Sticky, got.NoSticky})
			w.org(got)
		}
		w.spend(appA, "premium", 10_000_000)
		assert.Equal(t, "standard", w.recommend(w.a, appA).Label)
		got, err := w.b.Sticky(t.Context(), orgO, appA)
		if off {
			require.ErrorIs(t, err, ErrNotFound)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "standard", got.Label)
	}
}

// TestOverrideNeedsAPrice: a label that could not be chosen cannot be forced.
func TestOverrideNeedsAPrice(t *testing.T) {
	w := newWorld(t)
	o := fixtureOrg()
	o.Models = map[string]string{"standard": "no.such-model"}
	w.org(o)
	err := w.a.Setup().Override(t.Context(), orgO, appA, "standard", w.clock.Now().Add(time.Hour))
	assert.Contains(t, requireCode(t, err, fault.InvalidConfig).Error(), "no.such-model")
	assert.Equal(t, reasonWithinQuota, w.recommend(w.a, appA).Reason)
}

// TestNoOverrideOutlivesItsApp: a process that has not noticed a deletion can set none, which would
// be of the app that is put again, or of one that was never put.
func TestNoOverrideOutlivesItsApp(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.org(fixtureOrg())
		set := func(k *Keeper, app string) error {
			return k.Setup().Override(ctx, orgO, app, "economy", w.clock.Now().Add(time.Hour))
		}
		for name, remove := range map[string]func() error{
			"app":          func() error { err := w.a.Setup().DeleteApp(ctx, orgO, appA, nil); return err },
			"organisation": func() error { err := w.a.Setup().DeleteOrg(ctx, orgO, nil); return err },
		} {
			_, err := w.a.Setup().PutApp(ctx, orgO, App{ID: appA})
			require.NoError(t, err)
			w.recommend(w.b, appA)
			w.recommend(w.b, "new")
			require.NoError(t, remove())
			require.ErrorIs(t, set(w.b, appA), ErrNotFound, name)
			if name == "organisation" {
				require.ErrorIs(t, set(w.b, "new"), ErrNotFound)
			}
			w.org(fixtureOrg())
			require.Equal(t, "premium", w.recommend(w.a, "new").Label, name)
			_, err = w.a.Setup().PutApp(ctx, orgO, App{ID: appA})
			require.NoError(t, err)
			assert.Equal(t, "premium", w.recommend(w.a, appA).Label, name)
			require.NoError(t, set(w.b, appA))
			_, err = w.a.Setup().PutApp(ctx, orgO, App{ID: appA, TightPercent: 70})
			require.NoError(t, err)
			assert.Equal(t, "economy", w.recommend(w.a, appA).Label, "one of its own stays")
		}
	})
}

// TestAnOverrideAmongDeletions is not set once its app or organisation is deleted, whichever of its
// requests is late.
func TestAnOverrideAmongDeletions(t *testing.T) {
	for name, remove := range map[string]func(*world) error{
		"app":          func(w *world) error { err := w.a.Setup().DeleteApp(t.Context(), orgO, appA, nil); return err },
		"organisation": func(w *world) error { err := w.a.Setup().DeleteOrg(t.Context(), orgO, nil); return err },
	} {
		for at, reached := int64(1), true; reached; at++ {
			w := newWorld(t)
			w.org(fixtureOrg())
			_, err := w.a.Setup().PutApp(t.Context(), orgO, App{ID: appA})
			require.NoError(t, err)
			w.recommend(w.b, appA)
			var n atomic.Int64
			reached = false
			w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
				if n.Add(1) == at {
					reached = true
					n.Add(1000)
					require.NoError(t, remove(w))
				}
				return ddbmem.Fault{}
			})
			err = w.b.Setup().Override(t.Context(), orgO, appA, "economy", w.clock.Now().Add(time.Hour))
			w.db.SetFaults(nil)
			if reached {
				require.ErrorIs(t, err, ErrNotFound, "%s at %d", name, at)
			} else {
				require.NoError(t, err)
			}
			item, err := w.a.store.Get(t.Context(), w.tables.Control, overrideKey(orgO, appA))
			require.NoError(t, err)
			require.Equal(t, reached, item == nil, "%s at %d", name, at)
		}
	}
}
