package budget

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestAHoldThatEndsDuringAPurge leaves no counter behind that it gave back to, of which the purge
// thinks that it is gone: of a process that had not noticed the deletion when it reserved.
func TestAHoldThatEndsDuringAPurge(t *testing.T) {
	w := newWorld(t)
	w.org(hardOrg())
	ctx := t.Context()
	const apps = 12 // a scan finds the hold of one or another after its counter
	app := func(n int) string { return fmt.Sprintf("app-%d", n) }
	for n := range apps {
		w.recommend(w.b, app(n))
	}
	how := Deletion{Purge: true, Revoke: revokeNothing}
	_, err := w.a.DeleteOrg(ctx, orgO, how)
	require.NoError(t, err)
	holds := map[string]*Hold{}
	for n := range apps {
		for range purgedTogether / 4 {
			_, err := w.b.Reserve(ctx, orgO, app(n), "premium", 1, time.Hour)
			require.NoError(t, err, "it has not noticed")
		}
		scope := ledger.ScopeKey(ScopeApp, orgO, app(n))
		holds[scope], err = w.b.Reserve(ctx, orgO, app(n), "premium", 1_000_000, time.Hour)
		require.NoError(t, err)
	}
	w.clock.Advance(purgeAfter)
	var busy atomic.Bool
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation != "TransactWriteItems" || !busy.CompareAndSwap(false, true) {
			return ddbmem.Fault{}
		}
		defer busy.Store(false)
		for scope, h := range holds {
			if len(w.items(scope+"#")) == 0 {
				require.NoError(t, h.Release(ctx))
			}
		}
		return ddbmem.Fault{}
	})
	report, err := w.a.DeleteOrg(ctx, orgO, how)
	w.db.SetFaults(nil)
	require.NoError(t, err)
	require.True(t, report.Complete)
	assert.Empty(t, belonging(w, orgO, ""))
}

// TestAPurgeEndsHoldsThatCameLate: what an app of an organisation that counts all apps together
// held by a process that had not noticed is held no longer.
func TestAPurgeEndsHoldsThatCameLate(t *testing.T) {
	w := newWorld(t)
	o := hardOrg()
	o.Scope = ScopeOrg
	w.org(o)
	for _, app := range []string{appA, appB} {
		_, err := w.a.PutApp(t.Context(), orgO, App{ID: app})
		require.NoError(t, err)
		w.recommend(w.b, app)
	}
	how := Deletion{Purge: true, Revoke: revokeNothing}
	_, err := w.a.DeleteApp(t.Context(), orgO, appA, how)
	require.NoError(t, err)
	var holds []*Hold
	for _, app := range []string{appA, appB} {
		h, err := w.b.Reserve(t.Context(), orgO, app, "premium", 1_000_000, time.Hour)
		require.NoError(t, err, "it has not noticed")
		holds = append(holds, h)
	}
	w.clock.Advance(purgeAfter)
	var extended atomic.Bool
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "TransactWriteItems" && extended.CompareAndSwap(false, true) {
			require.NoError(t, holds[0].Extend(t.Context(), 2*time.Hour), "while it is given back")
		}
		return ddbmem.Fault{}
	})
	report, err := w.a.DeleteApp(t.Context(), orgO, appA, how)
	w.db.SetFaults(nil)
	require.NoError(t, err)
	require.True(t, report.Complete)
	require.ErrorIs(t, holds[0].Extend(t.Context(), time.Hour), ErrNotFound)
	assert.Equal(t, 1, held(w, orgO), "the other app's")
	assert.Equal(t, int64(1_000_000), w.total("", "premium", "").HeldMicros)
}

// TestAReaderStoresNoTotalsOfWhatWasPurged while it read, or they would be counted when the
// organisation is put again.
func TestAReaderStoresNoTotalsOfWhatWasPurged(t *testing.T) {
	w := newWorld(t)
	w.org(hardOrg())
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
		o := hardOrg()
		o.Sticky, o.NoSticky = false, true
		w.org(o)
		for n, app := range []string{appA, appB} {
			_, err := w.a.Submit(t.Context(), orgO, app, call(n))
			require.NoError(t, err)
		}
		w.clock.Advance(3 * 24 * time.Hour)
		for _, app := range []string{appA, appB} {
			_, err := w.a.Reserve(t.Context(), orgO, app, "premium", 100_000, time.Minute)
			require.NoError(t, err)
		}
		w.clock.Advance(time.Hour)
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
		w.org(hardOrg())
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
			w.org(hardOrg())
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
			w.org(hardOrg())
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
