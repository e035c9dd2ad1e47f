package budget

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

const otherOrg = "650e8400-e29b-41d4-a716-446655440000"

// tenanted is a world with two organisations, of which O has two apps, one with an
// override, records with tags, holds of each kind and an adjustment.
func tenanted(t testing.TB, w *world, o Org) {
	t.Helper()
	ctx := t.Context()
	other := o
	other.ID = otherOrg
	for _, org := range []Org{o, other} {
		w.org(org)
		for i, app := range []string{appA, appB, appA + "2"} {
			if app == appA {
				_, err := w.a.Setup().PutApp(ctx, org.ID, App{ID: app, TightPercent: 80})
				require.NoError(t, err)
			}
			u := call(i)
			u.Tags = map[string]string{"user": "u1"}
			_, err := w.a.Submit(ctx, org.ID, app, u)
			require.NoError(t, err)
			require.NoError(t, adjust(ctx, w.a, org.ID, app, Adjustment{Label: "standard", DeltaMicros: 5, Reason: "test"}))
		}
		require.NoError(t, w.a.Setup().Override(ctx, org.ID, appA, "economy", w.clock.Now().Add(time.Hour)))
	}
}

// requireGone says that no call finds a tenant by a keeper.
func requireGone(t testing.TB, k *Keeper, org, app string) {
	t.Helper()
	ctx := t.Context()
	for name, try := range map[string]func() error{
		"Recommend": func() error { _, err := k.Recommend(ctx, org, app); return err },
		"Submit":    func() error { _, err := k.Submit(ctx, org, app, call(99)); return err },
		"Adjust": func() error {
			return adjust(ctx, k, org, app, Adjustment{Label: "premium", DeltaMicros: 1, Reason: "x"})
		},
		"Override": func() error { return k.Setup().Override(ctx, org, app, "premium", k.now().Add(1000*time.Hour)) },
		"Totals":   func() error { _, err := k.Totals(ctx, org, app, ""); return err },
		"GetApp":   func() error { _, err := k.Setup().GetApp(ctx, org, app); return err },
	} {
		require.ErrorIs(t, try(), ErrNotFound, name)
	}
}

// TestADeletedOrganisationAdmitsAndCountsNothing, here at once and elsewhere when its
// configuration is read again; what was counted stays, and what is put again goes on.
func TestADeletedOrganisationAdmitsAndCountsNothing(t *testing.T) {
	for _, scope := range []Scope{ScopeApp, ScopeOrg} {
		t.Run(string(scope), func(t *testing.T) {
			engines(t, func(t *testing.T, w *world) {
				o := fixtureOrg()
				o.Scope = scope
				tenanted(t, w, o)
				ctx := t.Context()
				before, err := w.a.Setup().GetOrg(ctx, orgO)
				require.NoError(t, err)
				for _, app := range []string{appA, appB} {
					w.recommend(w.a, app)
				}

				require.NoError(t, w.a.Setup().DeleteOrg(ctx, orgO, nil))
				for _, app := range []string{appA, appB} {
					requireGone(t, w.a, orgO, app)
				}
				w.clock.Advance(31 * time.Second)
				requireGone(t, w.b, orgO, appA)
				for org, err := range w.b.Setup().Orgs(ctx) {
					require.NoError(t, err)
					assert.Equal(t, otherOrg, org.ID)
				}
				_, err = w.b.Sweep(ctx)
				require.NoError(t, err)

				require.NoError(t, w.b.Setup().DeleteOrg(ctx, orgO, nil))
				_, err = w.a.Setup().PutApp(ctx, orgO, App{ID: appA})
				require.ErrorIs(t, err, ErrNotFound)

				put, err := w.b.Setup().PutOrg(ctx, o)
				require.NoError(t, err)
				assert.Greater(t, put.Version, before.Version+1)
				requireGone(t, w.b, orgO, appA)
				app, err := w.b.Setup().PutApp(ctx, orgO, App{ID: appA})
				require.NoError(t, err)
				assert.Equal(t, int64(3), app.Version)
				assert.Zero(t, app.TightPercent)
				rec := w.recommend(w.b, appA)
				assert.Equal(t, "premium", rec.Label, "the override has gone")
				w.submit(w.b, call(50))
				counted := call(0)
				counted.Tags = map[string]string{"user": "u1"}
				assert.True(t, w.submit(w.b, counted).Duplicate, "what was counted stays counted")
				w.clock.Advance(6 * time.Second)
				totals, err := w.b.Totals(ctx, orgO, "", "")
				require.NoError(t, err)
				assert.Equal(t, int64(4), totals.Labels[0].Requests)
			})
		})
	}
}

func TestADeletionNeedsAPrincipal(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	nobody := w.a.As("")
	m := w.spentOn(func() {
		requireMisuse(t, "principal", "DeleteOrg", func() error { return nobody.Setup().DeleteOrg(t.Context(), orgO, nil) })
		requireMisuse(t, "principal", "DeleteApp", func() error { return nobody.Setup().DeleteApp(t.Context(), orgO, appA, nil) })
	})
	assert.Zero(t, m.Requests())
}

// TestADeletionEndsCredentialsBeforeItIsComplete: while they cannot be ended, nobody finds the
// organisation or app, and nobody can put it again. When it is complete DynamoDB removes what is
// left, with what was counted.
func TestADeletionEndsCredentialsBeforeItIsComplete(t *testing.T) {
	w := newWorld(t)
	tenanted(t, w, fixtureOrg())
	ctx := t.Context()
	broken := errors.New("not now")
	var revoked []string
	fails := true
	revoke := func(_ context.Context, org, app string) error {
		assert.Equal(t, orgO, org)
		requireGone(t, w.a, orgO, appA)
		if fails {
			return broken
		}
		revoked = append(revoked, app)
		return nil
	}
	require.ErrorIs(t, w.a.Setup().DeleteApp(ctx, orgO, appA, revoke), broken)
	_, err := w.b.Setup().PutApp(ctx, orgO, App{ID: appA})
	require.ErrorIs(t, err, ErrConflict)
	require.ErrorContains(t, err, "DeleteApp")
	fails = false
	require.NoError(t, w.b.Setup().DeleteApp(ctx, orgO, appA, revoke))
	_, err = w.a.Setup().PutApp(ctx, orgO, App{ID: appA})
	require.NoError(t, err)

	fails = true
	require.ErrorIs(t, w.a.Setup().DeleteOrg(ctx, orgO, revoke), broken)
	_, err = w.b.Setup().PutOrg(ctx, fixtureOrg())
	require.ErrorIs(t, err, ErrConflict)
	require.ErrorContains(t, err, "DeleteOrg")
	fails = false
	require.NoError(t, w.b.Setup().DeleteOrg(ctx, orgO, revoke))
	require.NoError(t, w.b.Setup().DeleteOrg(ctx, orgO, revoke))
	assert.Equal(t, []string{appA, ""}, revoked)
	left := func() []store.Item { return fixture.Items(t, w.db.Client(), w.tables.Control, orgKey(orgO).PK) }
	require.NotEmpty(t, left())
	for _, item := range left() {
		var d store.Decoder
		assert.Equal(t, w.clock.Now().AddDate(0, 0, 402).Unix(), d.Int(item, store.AttrTTL), store.KeyOf(item))
	}
	w.org(fixtureOrg())
	var d store.Decoder
	assert.Zero(t, d.Int(left()[0], store.AttrTTL), "it stays")
}

// TestADeletionThatIsKilledAnywhereIsCompleted by the same call: whether all requests from
// one on fail, or one is answered badly.
func TestADeletionThatIsKilledAnywhereIsCompleted(t *testing.T) {
	once := map[string]ddbmem.Fault{
		"answer lost": {Lose: true}, "throttled": {Error: &ddbmem.Error{Code: "ThrottlingException"}}, "conflict": conflicted,
	}
	kinds := append(slices.Sorted(maps.Keys(once)), "killed")
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for at, reached := 0, true; reached; at++ {
				reached = killed(t, kind, once[kind], at)
			}
		})
	}
}

// killed deletes an organisation with a fault at one request, and reports whether that was
// reached.
func killed(t *testing.T, kind string, fault ddbmem.Fault, at int) (reached bool) {
	w := newWorld(t)
	w.org(fixtureOrg())
	ctx := t.Context()
	for i, app := range []string{appA, appB} {
		_, err := w.a.Submit(ctx, orgO, app, call(i))
		require.NoError(t, err)
	}
	revoked := map[string]bool{}
	revoke := func(_ context.Context, _, app string) error { revoked[app] = true; return nil }
	doomed, cancel := context.WithCancel(ctx)
	defer cancel()
	n := 0
	var mu sync.Mutex
	w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		mu.Lock()
		defer mu.Unlock()
		n++
		switch {
		case n <= at || kind != "killed" && n > at+1:
			return ddbmem.Fault{}
		case kind == "killed":
			cancel()
			return ddbmem.Fault{Drop: true}
		}
		return fault
	})
	err := w.a.Setup().DeleteOrg(doomed, orgO, revoke)
	mu.Lock()
	reached = n > at
	mu.Unlock()
	w.db.SetFaults(nil)
	again := w.keeper(&Options{}) // the others wait until the store has answered again
	w.a, w.b = again, again
	if err != nil {
		if org, readErr := again.Setup().GetOrg(ctx, orgO); readErr != nil {
			require.ErrorIs(t, readErr, ErrNotFound)
			_, err = again.Setup().PutOrg(ctx, fixtureOrg())
			require.ErrorIs(t, err, ErrConflict, "%s at %d", kind, at)
		} else {
			require.Equal(t, int64(1), org.Version)
		}
	}
	require.NoError(t, again.Setup().DeleteOrg(ctx, orgO, revoke))
	require.Equal(t, map[string]bool{"": true}, revoked)
	deletions := 0
	for _, e := range eventsOf(t, again, orgO) {
		if e.Action == actionOrgDeleted || e.Action == actionAppDeleted {
			deletions++
		}
	}
	require.Equal(t, 3, deletions, "%s at %d", kind, at)
	_, err = again.Setup().PutOrg(ctx, fixtureOrg())
	require.NoError(t, err)
	return reached
}
