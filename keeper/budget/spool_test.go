package budget

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/prices"
)

func TestSpoolKeepsRecordsThroughAnOutage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	simulated(t, Options{Spool: path}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		_, err := k.Submit(ctx, orgO, appA, call(1))
		require.NoError(t, err)
		db.SetFaults(down)
		r, err := k.Submit(ctx, orgO, appA, call(2))
		require.NoError(t, err)
		assert.True(t, r.Spooled)
		r, err = k.Submit(ctx, orgO, appA, call(3))
		require.NoError(t, err)
		assert.True(t, r.Spooled)
		results, err := k.SubmitBatch(ctx, orgO, appA, []prices.Usage{call(1), call(4)})
		require.NoError(t, err)
		for _, r := range results {
			require.NoError(t, r.Err)
			assert.True(t, r.Spooled)
		}
		assert.Equal(t, 4, k.Health().Spooled)
		require.Error(t, k.Replay(ctx), "still down")
		assert.Equal(t, 4, k.Health().Spooled)

		back(db, k)
		pass(30 * time.Second) // replayed in the background
		synctest.Wait()
		assert.Zero(t, k.Health().Spooled)
		got, err := k.Totals(ctx, orgO, appA, "")
		require.NoError(t, err)
		assert.Equal(t, int64(4), got.Labels[0].Requests, "each once")
		assert.Equal(t, int64(66_000), got.CostMicros)
	})
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestSpoolSurvivesACrash: a new process replays the file, torn last line and
// all; what is refused for good is handed over and kept.
func TestSpoolSurvivesACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	simulated(t, Options{Spool: path, SpoolInterval: time.Hour}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		db.SetFaults(down)
		for i := range 3 {
			u := call(i)
			if i == 1 {
				u.Time = time.Time{} // of when it was received
			}
			_, err := k.Submit(ctx, orgO, appA, u)
			require.NoError(t, err)
		}
		unknown := call(5)
		unknown.Label = "platinum"
		_, err := k.Submit(ctx, orgO, appA, unknown)
		require.NoError(t, err, "the configuration was not to be had")
		require.NoError(t, k.Close(ctx))
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteString(`{"org_id":"torn`)
		require.NoError(t, err)
		require.NoError(t, file.Close())

		back(db, k)
		pass(20 * time.Hour)
		var refused []string
		again, err := New(db.Client(), Tables{}, &Options{AllowUnknownApps: true, Principal: tester, Models: fixtureModels, Spool: path, OnRefused: func(u SpooledUsage, err error) {
			refused = append(refused, u.Usage.Label)
		}})
		require.NoError(t, err)
		synctest.Wait()
		pass(time.Second)
		assert.Zero(t, again.Health().Spooled)
		got, err := again.Totals(ctx, orgO, appA, "20990123")
		require.NoError(t, err)
		assert.Equal(t, int64(3), got.Labels[0].Requests)
		assert.Equal(t, []string{"platinum", ""}, refused)
		kept, err := os.ReadFile(path + ".refused")
		require.NoError(t, err)
		assert.Equal(t, 2, strings.Count(string(kept), "\n"))
		assert.Contains(t, string(kept), `{"org_id":"torn`)
		require.NoError(t, again.Close(context.Background()))
	})
}

func TestSpoolOptions(t *testing.T) {
	client := ddbmem.New().Client()
	_, err := New(client, Tables{}, &Options{AllowUnknownApps: true, OnUnavailable: OnUnavailable{Submit: Allow}})
	assert.Contains(t, requireCode(t, err, fault.InvalidRequest).Reason, "Spool")
	_, err = New(client, Tables{}, &Options{AllowUnknownApps: true, Spool: filepath.Join(t.TempDir(), "no", "such", "directory")})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = New(nil, Tables{}, nil)
	requireCode(t, err, fault.InvalidRequest)
}

// spooling is a world whose first keeper has a spool that is replayed when the
// test says so.
func spooling(t *testing.T, adapt ...func(*Options)) (*world, *Keeper, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spool")
	w := newWorld(t)
	w.org(fixtureOrg())
	opts := &Options{Spool: path, SpoolInterval: time.Hour}
	for _, f := range adapt {
		f(opts)
	}
	k := w.keeper(opts)
	_, err := k.Submit(t.Context(), orgO, appA, call(1000)) // the configuration is known
	require.NoError(t, err)
	return w, k, path
}

func spoolOne(t *testing.T, k *Keeper, u prices.Usage) {
	t.Helper()
	r, err := k.Submit(t.Context(), orgO, appA, u)
	require.NoError(t, err)
	require.True(t, r.Spooled)
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}
