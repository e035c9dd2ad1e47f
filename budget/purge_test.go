package budget

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func revokeNothing(context.Context, string, string) error { return nil }

// replaced completes the deletion of an organisation by another process, puts it again and
// uses it.
func replaced(t *testing.T, w *world, k *Keeper) {
	t.Helper()
	ctx := t.Context()
	how := Deletion{Purge: true, Revoke: revokeNothing}
	_, err := k.DeleteOrg(ctx, orgO, how)
	require.NoError(t, err)
	w.clock.Advance(purgeAfter)
	report, err := k.DeleteOrg(ctx, orgO, how)
	require.NoError(t, err)
	require.True(t, report.Complete)
	_, err = k.PutOrg(ctx, fixtureOrg())
	require.NoError(t, err)
	_, err = k.PutApp(ctx, orgO, App{ID: appA})
	require.NoError(t, err)
	u := call(1)
	u.Time = w.clock.Now()
	_, err = k.Submit(ctx, orgO, appA, u)
	require.NoError(t, err)
}

// TestAPutDuringAPurgeIsToldWhen it can be made: no call completes the purge before.
func TestAPutDuringAPurgeIsToldWhen(t *testing.T) {
	w := newWorld(t)
	tenanted(t, w, fixtureOrg())
	ctx := t.Context()
	how := Deletion{Purge: true, Revoke: revokeNothing}
	puts := map[string]func() error{
		"DeleteApp": func() error { _, err := w.a.PutApp(ctx, orgO, App{ID: appA}); return err },
		"DeleteOrg": func() error { _, err := w.a.PutOrg(ctx, fixtureOrg()); return err },
	}
	for _, call := range []string{"DeleteApp", "DeleteOrg"} {
		remove := func() (DeletionReport, error) {
			if call == "DeleteApp" {
				return w.a.DeleteApp(ctx, orgO, appA, how)
			}
			return w.a.DeleteOrg(ctx, orgO, how)
		}
		report, err := remove()
		require.NoError(t, err)
		w.clock.Advance(time.Minute)
		err = puts[call]()
		require.ErrorIs(t, err, ErrConflict)
		require.ErrorContains(t, err, "complete that with "+call+" first, at "+report.Again.Format(time.RFC3339)+" or later")
		wait, ok := RetryAfter(err)
		assert.True(t, ok)
		assert.Equal(t, purgeAfter-time.Minute, wait)

		w.clock.Advance(wait)
		err = puts[call]()
		require.ErrorContains(t, err, "complete that with "+call+" first")
		assert.NotContains(t, err.Error(), "or later")
		report, err = remove()
		require.NoError(t, err)
		require.True(t, report.Complete)
		require.NoError(t, puts[call]())
	}
}

// TestADeletionThatWasOvertakenTouchesNothing of the organisation that was put again with
// that id, wherever it had been stopped.
func TestADeletionThatWasOvertakenTouchesNothing(t *testing.T) {
	for _, at := range []string{"Scan", "Revoke"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t)
			tenanted(t, w, fixtureOrg())
			other := w.keeper(&Options{})
			var stopped atomic.Bool
			var kept []store.Key
			stop := func() {
				if stopped.CompareAndSwap(false, true) {
					replaced(t, w, other)
					kept = belonging(w, orgO, "")
				}
			}
			revokedLate := false
			how := Deletion{Purge: true, Revoke: func(_ context.Context, _, app string) error {
				revokedLate = revokedLate || stopped.Load()
				if at == "Revoke" && app == "" {
					stop()
				}
				return nil
			}}
			w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Table == w.tables.Usage && r.Operation == at {
					stop()
				}
				return ddbmem.Fault{}
			})
			report, err := w.a.DeleteOrg(t.Context(), orgO, how)
			w.db.SetFaults(nil)
			require.NoError(t, err)
			require.True(t, stopped.Load())
			assert.False(t, report.Complete)
			assert.Equal(t, w.clock.Now(), report.Again)
			assert.False(t, revokedLate)
			assert.Zero(t, report.Purged)
			assert.ElementsMatch(t, kept, belonging(w, orgO, ""))
		})
	}
}

// bulk fills the usage table with pages of what is nobody's, between what is somebody's.
func bulk(t *testing.T, w *world, pages int) {
	t.Helper()
	for i := range pages * 4 {
		item := store.Key{PK: "NOBODY#" + uuid(i), SK: "#"}.Attributes()
		item["text"] = store.String(strings.Repeat("x", 300_000))
		_, err := w.db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.tables.Usage, Item: item})
		require.NoError(t, err)
	}
}

// scans counts the pages of the usage table that are read.
func scans(w *world) *atomic.Int64 {
	var n atomic.Int64
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Table == w.tables.Usage && r.Operation == "Scan" {
			n.Add(1)
		}
		return ddbmem.Fault{}
	})
	return &n
}

// TestAPurgeGoesOnWhereItStopped: steps of one page each, by two processes in turn, read
// each page once in each pass, and leave nothing.
func TestAPurgeGoesOnWhereItStopped(t *testing.T) {
	w := newWorld(t)
	tenanted(t, w, fixtureOrg())
	bulk(t, w, 3)
	late := w.keeper(&Options{})
	w.recommend(late, appA)
	others := len(w.items("")) - len(belonging(w, orgO, ""))
	read := scans(w)
	how := Deletion{Purge: true, Pages: 1, Revoke: revokeNothing}
	deleted := w.clock.Now()
	steps := func() (last DeletionReport) {
		t.Helper()
		for i := range 100 {
			report, err := []*Keeper{w.a, w.b}[i%2].DeleteOrg(t.Context(), orgO, how)
			require.NoError(t, err)
			if report.Complete || report.Again.After(w.clock.Now()) {
				return report
			}
			require.Equal(t, int64(i+1), read.Load())
		}
		t.Fatal("it does not end")
		return last
	}
	assert.Equal(t, deleted.Add(purgeAfter), steps().Again)
	pages := read.Swap(0)
	assert.GreaterOrEqual(t, pages, int64(3))
	assert.Empty(t, belonging(w, orgO, ""))
	read.Store(0)
	steps()
	assert.Zero(t, read.Load(), "there is nothing to do until then")
	w.submit(late, call(77)) // it has not noticed
	w.clock.Advance(purgeAfter)
	assert.True(t, steps().Complete)
	assert.Equal(t, pages, read.Load())
	assert.Empty(t, belonging(w, orgO, ""))
	w.db.SetFaults(nil)
	assert.Len(t, w.items(""), others)
}

// TestDeletionsAreFinished by whoever sweeps, of organisations and apps, with their
// credentials, wherever they were stopped.
func TestDeletionsAreFinished(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		tenanted(t, w, fixtureOrg())
		ctx := t.Context()
		broken := context.DeadlineExceeded
		_, err := w.a.DeleteOrg(ctx, orgO, Deletion{Purge: true, Revoke: func(context.Context, string, string) error { return broken }})
		require.ErrorIs(t, err, broken)
		_, err = w.a.DeleteApp(ctx, otherOrg, appA, Deletion{Purge: true, Revoke: revokeNothing})
		require.NoError(t, err)
		open := func() int {
			swept, err := w.b.Sweep(ctx)
			require.NoError(t, err)
			return swept.Deletions
		}
		assert.Equal(t, 2, open())
		revoked := map[string]bool{}
		how := Deletion{Revoke: func(_ context.Context, org, app string) error {
			revoked[org+"/"+app] = true
			return nil
		}}
		report, err := w.b.FinishDeletions(ctx, how)
		require.NoError(t, err)
		assert.Equal(t, 2, report.Open)
		assert.Zero(t, report.Completed)
		assert.False(t, report.More)
		assert.Positive(t, report.Purged)
		assert.Equal(t, map[string]bool{orgO + "/": true, orgO + "/" + appA: true, orgO + "/" + appB: true, orgO + "/" + appA + "2": true}, revoked)
		w.clock.Advance(purgeAfter)
		for {
			how.Pages = 1
			report, err = w.b.FinishDeletions(ctx, how)
			require.NoError(t, err)
			if !report.More {
				break
			}
		}
		assert.Equal(t, FinishReport{Completed: 2}, FinishReport{Open: report.Open, Completed: report.Completed})
		assert.Empty(t, belonging(w, orgO, ""))
		assert.Empty(t, belonging(w, otherOrg, appA))
		assert.NotEmpty(t, belonging(w, otherOrg, appB))
		report, err = w.b.FinishDeletions(ctx, how)
		require.NoError(t, err)
		assert.Equal(t, FinishReport{}, report)
		assert.Zero(t, open())
		_, err = w.b.PutOrg(ctx, fixtureOrg())
		require.NoError(t, err)
		requireMisuse(t, "Revoke", "FinishDeletions", func() error { _, err := w.a.FinishDeletions(ctx, Deletion{}); return err })
	})
}

// TestADeletionThatIsAskedForMoreIsNotComplete: the tenant cannot be put again before what
// another process was asked for is done, too.
func TestADeletionThatIsAskedForMoreIsNotComplete(t *testing.T) {
	w := newWorld(t)
	tenanted(t, w, fixtureOrg())
	ctx := t.Context()
	other := w.keeper(&Options{})
	var asked atomic.Bool
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Table == w.tables.Control && r.Operation == "DeleteItem" && asked.CompareAndSwap(false, true) {
			_, err := other.DeleteOrg(ctx, orgO, Deletion{Purge: true, Revoke: revokeNothing})
			assert.NoError(t, err)
		}
		return ddbmem.Fault{}
	})
	report, err := w.a.DeleteOrg(ctx, orgO, Deletion{Revoke: revokeNothing})
	w.db.SetFaults(nil)
	require.NoError(t, err)
	require.True(t, asked.Load())
	assert.False(t, report.Complete)
	assert.Equal(t, w.clock.Now(), report.Again)
	_, err = w.a.PutOrg(ctx, fixtureOrg())
	require.ErrorIs(t, err, ErrConflict)
	w.clock.Advance(purgeAfter)
	report, err = w.a.DeleteOrg(ctx, orgO, Deletion{Revoke: revokeNothing})
	require.NoError(t, err)
	assert.True(t, report.Complete)
	assert.Empty(t, belonging(w, orgO, ""))
}

// TestANoteThatCannotBeReadKeepsNoOtherDeletion from being finished.
func TestANoteThatCannotBeReadKeepsNoOtherDeletion(t *testing.T) {
	w := newWorld(t)
	tenanted(t, w, fixtureOrg())
	ctx := t.Context()
	for _, app := range []string{appA, appB} {
		_, err := w.a.DeleteApp(ctx, orgO, app, Deletion{Purge: true, Revoke: revokeNothing})
		require.NoError(t, err)
	}
	note := deletionKey(orgO, appA).Attributes()
	note["deleted_at_epoch_ms"] = store.String("yesterday")
	_, err := w.db.Client().PutItem(ctx, &dynamodb.PutItemInput{TableName: &w.tables.Control, Item: note})
	require.NoError(t, err)
	w.clock.Advance(purgeAfter)
	report, err := w.b.FinishDeletions(ctx, Deletion{Revoke: revokeNothing})
	require.ErrorContains(t, err, "DELETION#APP#"+appA)
	assert.Equal(t, FinishReport{Open: 1, Completed: 1, Purged: report.Purged}, report)
	assert.Empty(t, belonging(w, orgO, appB))
}

// TestADeletionThatAnotherFinishesIsNoError of whoever found it too.
func TestADeletionThatAnotherFinishesIsNoError(t *testing.T) {
	w := newWorld(t)
	tenanted(t, w, fixtureOrg())
	ctx := t.Context()
	broken := context.DeadlineExceeded
	_, err := w.a.DeleteOrg(ctx, orgO, Deletion{Revoke: func(context.Context, string, string) error { return broken }})
	require.ErrorIs(t, err, broken)
	how := Deletion{Revoke: revokeNothing}
	var found atomic.Bool
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Table == w.tables.Control && r.Operation == "GetItem" && found.CompareAndSwap(false, true) {
			report, err := w.a.FinishDeletions(ctx, how)
			assert.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
		}
		return ddbmem.Fault{}
	})
	report, err := w.b.FinishDeletions(ctx, how)
	w.db.SetFaults(nil)
	require.NoError(t, err)
	assert.Equal(t, FinishReport{Open: 1, More: true}, report)
	report, err = w.b.FinishDeletions(ctx, how)
	require.NoError(t, err)
	assert.Equal(t, FinishReport{}, report)
}
