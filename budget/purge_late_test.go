package budget

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestAReaderStoresNoTotalsOfWhatWasPurged while it read, or they would be counted when the
// organisation is put again.
func TestAReaderStoresNoTotalsOfWhatWasPurged(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	w.submit(w.a, call(1))
	w.recommend(w.b, appA)
	w.clock.Advance(3 * 24 * time.Hour)
	how := Deletion{Purge: true, Revoke: revokeNothing}
	days := 0
	for _, err := range w.b.History(t.Context(), orgO, appA, "20260123", "20260125") {
		require.NoError(t, err)
		if days++; days > 1 {
			continue
		}
		_, err = w.a.DeleteOrg(t.Context(), orgO, how)
		require.NoError(t, err)
		w.clock.Advance(purgeAfter)
		report, err := w.a.DeleteOrg(t.Context(), orgO, how)
		require.NoError(t, err)
		require.True(t, report.Complete)
	}
	assert.Equal(t, 3, days)
	assert.Empty(t, belonging(w, orgO, ""))
}

// TestASweepStoresNothingOfWhatWasPurged while it was at it, wherever it was.
func TestASweepStoresNothingOfWhatWasPurged(t *testing.T) {
	how := Deletion{Purge: true, Revoke: revokeNothing}
	for at := range 100 {
		w := newWorld(t, func(o *Options) { o.OnEvent = func(context.Context, Event) {} })
		o := fixtureOrg()
		o.Sticky, o.NoSticky = false, true
		w.org(o)
		for n, app := range []string{appA, appB} {
			_, err := w.a.Submit(t.Context(), orgO, app, call(n))
			require.NoError(t, err)
		}
		w.clock.Advance(3 * 24 * time.Hour)
		var n atomic.Int64
		w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Table == w.tables.Usage && r.Operation == "Query" && n.Add(1) == int64(at+1) {
				n.Add(1000)
				_, err := w.a.DeleteOrg(t.Context(), orgO, how)
				require.NoError(t, err)
				w.clock.Advance(purgeAfter)
				report, err := w.a.DeleteOrg(t.Context(), orgO, how)
				require.NoError(t, err)
				require.True(t, report.Complete)
			}
			return ddbmem.Fault{}
		})
		_, err := w.b.Sweep(t.Context(), orgO)
		w.db.SetFaults(nil)
		if n.Load() < 1000 {
			require.NoError(t, err)
			require.Greater(t, at, 10)
			return
		}
		if err != nil {
			require.ErrorIs(t, err, ErrNotFound)
		}
		require.Empty(t, belonging(w, orgO, ""), "at query %d", at)
	}
	t.Fatal("it does not end")
}

// TestNoOverrideOutlivesItsApp: a process that has not noticed a deletion can set none, which would
// be of the app that is put again, or of one that was never put.
func TestNoOverrideOutlivesItsApp(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.org(fixtureOrg())
		set := func(k *Keeper, app string) error {
			return k.Override(ctx, orgO, app, "economy", w.clock.Now().Add(time.Hour))
		}
		for name, remove := range map[string]func() error{
			"app":          func() error { _, err := w.a.DeleteApp(ctx, orgO, appA, Deletion{}); return err },
			"organisation": func() error { _, err := w.a.DeleteOrg(ctx, orgO, Deletion{}); return err },
		} {
			_, err := w.a.PutApp(ctx, orgO, App{ID: appA})
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
			_, err = w.a.PutApp(ctx, orgO, App{ID: appA})
			require.NoError(t, err)
			assert.Equal(t, "premium", w.recommend(w.a, appA).Label, name)
			require.NoError(t, set(w.b, appA))
			_, err = w.a.PutApp(ctx, orgO, App{ID: appA, TightPercent: 70})
			require.NoError(t, err)
			assert.Equal(t, "economy", w.recommend(w.a, appA).Label, "one of its own stays")
		}
	})
}

// TestAnOverrideAmongDeletions is not set once its app or organisation is deleted, whichever of its
// requests is late.
func TestAnOverrideAmongDeletions(t *testing.T) {
	for name, remove := range map[string]func(*world) error{
		"app":          func(w *world) error { _, err := w.a.DeleteApp(t.Context(), orgO, appA, Deletion{}); return err },
		"organisation": func(w *world) error { _, err := w.a.DeleteOrg(t.Context(), orgO, Deletion{}); return err },
	} {
		for at, reached := int64(1), true; reached; at++ {
			w := newWorld(t)
			w.org(fixtureOrg())
			_, err := w.a.PutApp(t.Context(), orgO, App{ID: appA})
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
			err = w.b.Override(t.Context(), orgO, appA, "economy", w.clock.Now().Add(time.Hour))
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
