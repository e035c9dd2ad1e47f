package budget

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func revokeNothing(context.Context, string, string) error { return nil }

func revokeFails(context.Context, string, string) error { return context.DeadlineExceeded }

// TestDeletionsAreFinished by whoever sweeps, of organisations and apps, with their
// credentials, wherever they were stopped.
func TestDeletionsAreFinished(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		tenanted(t, w, fixtureOrg())
		ctx := t.Context()
		require.Error(t, w.a.Setup().DeleteOrg(ctx, orgO, revokeFails))
		require.Error(t, w.a.Setup().DeleteApp(ctx, otherOrg, appA, revokeFails))
		open := func() int {
			swept, err := w.b.Sweep(ctx)
			require.NoError(t, err)
			return swept.Deletions
		}
		assert.Equal(t, 2, open())
		revoked := map[string]bool{}
		report, err := w.b.Setup().FinishDeletions(ctx, func(_ context.Context, org, app string) error {
			revoked[org+"/"+app] = true
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, FinishReport{Completed: 2}, report)
		assert.Equal(t, map[string]bool{
			orgO + "/": true, orgO + "/" + appA: true, orgO + "/" + appB: true, orgO + "/" + appA + "2": true, otherOrg + "/" + appA: true,
		}, revoked)
		report, err = w.b.Setup().FinishDeletions(ctx, revokeNothing)
		require.NoError(t, err)
		assert.Zero(t, report)
		assert.Zero(t, open())
		_, err = w.b.Setup().PutOrg(ctx, fixtureOrg())
		require.NoError(t, err)
		requireMisuse(t, "revoke", "FinishDeletions", func() error { _, err := w.a.Setup().FinishDeletions(ctx, nil); return err })
	})
}

// TestANoteThatCannotBeReadKeepsNoOtherDeletion from being finished.
func TestANoteThatCannotBeReadKeepsNoOtherDeletion(t *testing.T) {
	w := newWorld(t)
	tenanted(t, w, fixtureOrg())
	ctx := t.Context()
	for _, app := range []string{appA, appB} {
		require.Error(t, w.a.Setup().DeleteApp(ctx, orgO, app, revokeFails))
	}
	note := deletionKey(orgO, appA).Attributes()
	note["deleted_at_epoch_ms"] = store.String("yesterday")
	_, err := w.db.Client().PutItem(ctx, &dynamodb.PutItemInput{TableName: &w.tables.Control, Item: note})
	require.NoError(t, err)
	report, err := w.b.Setup().FinishDeletions(ctx, revokeNothing)
	require.ErrorContains(t, err, "DELETION#APP#"+appA)
	assert.Equal(t, FinishReport{Open: 1, Completed: 1}, report)
}

// TestADeletionThatAnotherFinishesIsNoError of whoever found it too.
func TestADeletionThatAnotherFinishesIsNoError(t *testing.T) {
	w := newWorld(t)
	tenanted(t, w, fixtureOrg())
	ctx := t.Context()
	require.Error(t, w.a.Setup().DeleteOrg(ctx, orgO, revokeFails))
	var found atomic.Bool
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Table == w.tables.Control && r.Operation == "GetItem" && found.CompareAndSwap(false, true) {
			report, err := w.a.Setup().FinishDeletions(ctx, revokeNothing)
			assert.NoError(t, err)
			assert.Equal(t, FinishReport{Completed: 1}, report)
		}
		return ddbmem.Fault{}
	})
	report, err := w.b.Setup().FinishDeletions(ctx, revokeNothing)
	w.db.SetFaults(nil)
	require.NoError(t, err)
	assert.Equal(t, FinishReport{Completed: 1}, report)
	report, err = w.b.Setup().FinishDeletions(ctx, revokeNothing)
	require.NoError(t, err)
	assert.Zero(t, report)
}
