package budget

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// TestADeletionThatIsOvertakenAnywhere, once it has begun, touches nothing of the tenant that was
// put again since: of no table, whichever request of it is late.
func TestADeletionThatIsOvertakenAnywhere(t *testing.T) {
	deletions := map[string]func(context.Context, *Keeper, Revoke) error{
		"DeleteOrg": func(ctx context.Context, k *Keeper, revoke Revoke) error {
			return k.Setup().DeleteOrg(ctx, orgO, revoke)
		},
		"DeleteApp": func(ctx context.Context, k *Keeper, revoke Revoke) error {
			return k.Setup().DeleteApp(ctx, orgO, appA, revoke)
		},
	}
	for name, run := range deletions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := ""
			if name == "DeleteApp" {
				app = appA
			}
			at := 0
			for overtaken(t, app, at, run) {
				at++
			}
			require.GreaterOrEqual(t, at, 5)
		})
	}
}

// overtaken puts a tenant again while a deletion of it is at one request, and reports whether it
// came to that.
func overtaken(t *testing.T, app string, at int, run func(context.Context, *Keeper, Revoke) error) bool {
	w := newWorld(t)
	w.org(fixtureOrg())
	ctx := t.Context()
	other := w.keeper(&Options{})
	use := func(n int) {
		t.Helper()
		until := w.clock.Now().Add(24 * time.Hour)
		for i, a := range []string{appA, appB} {
			_, err := other.Setup().PutApp(ctx, orgO, App{ID: a})
			require.NoError(t, err)
			u := call(10*n + i)
			u.Time = w.clock.Now()
			_, err = other.Submit(ctx, orgO, a, u)
			require.NoError(t, err)
			require.NoError(t, other.Setup().Override(ctx, orgO, a, "economy", until))
		}
		require.NoError(t, other.Setup().Override(ctx, orgO, "new", "economy", until))
	}
	use(0)
	stopped, late := false, false
	revoke := func(context.Context, string, string) error {
		late = late || stopped
		return nil
	}
	var n atomic.Int64
	var kept map[store.Key]map[string]any
	snapshot := func() map[store.Key]map[string]any {
		other.ledger.WaitForTotals()
		all := map[store.Key]map[string]any{}
		for _, table := range []string{w.tables.Control, w.tables.Usage} {
			for _, item := range fixture.Items(t, w.db.Client(), table, "") {
				var attributes map[string]any
				require.NoError(t, attributevalue.UnmarshalMap(item, &attributes))
				all[store.KeyOf(item)] = attributes
			}
		}
		return all
	}
	reached := false
	w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		if n.Add(1) != int64(at+1) {
			return ddbmem.Fault{}
		}
		reached = true
		n.Add(1_000_000)
		var err error
		if app == "" {
			_, err = other.Setup().GetOrg(ctx, orgO)
		} else {
			_, err = other.Setup().GetApp(ctx, orgO, app)
		}
		if err == nil { // it has not begun
			return ddbmem.Fault{}
		}
		require.ErrorIs(t, err, ErrNotFound)
		if app == "" {
			err = other.Setup().DeleteOrg(ctx, orgO, revoke)
		} else {
			err = other.Setup().DeleteApp(ctx, orgO, app, revoke)
		}
		require.NoError(t, err)
		_, err = other.Setup().PutOrg(ctx, fixtureOrg())
		require.NoError(t, err)
		use(1)
		kept, stopped = snapshot(), true
		return ddbmem.Fault{}
	})
	err := run(ctx, w.a, revoke)
	w.db.SetFaults(nil)
	if kept != nil {
		require.NoError(t, err, "at request %d", at)
		require.False(t, late, "at request %d: credentials ended", at)
		now := snapshot()
		require.ElementsMatch(t, slices.Collect(maps.Keys(kept)), slices.Collect(maps.Keys(now)), "at request %d", at)
		for key, item := range kept {
			require.Equal(t, item, now[key], "at request %d", at)
		}
	}
	return reached
}
