package budget

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestSpoolTakesWhatWasInTimeWhenItCame: a record that was acknowledged is counted within two
// days, on the day that it was made, also if its time is by then longer ago than is taken anew.
func TestSpoolTakesWhatWasInTimeWhenItCame(t *testing.T) {
	opts := Options{Spool: filepath.Join(t.TempDir(), "spool"), SpoolInterval: 200 * time.Hour, OnRefused: func(_ SpooledUsage, err error) {
		assert.NoError(t, err)
	}}
	simulated(t, opts, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		_, err := k.Submit(ctx, orgO, appA, call(100)) // the configuration is known
		require.NoError(t, err)
		db.SetFaults(down)
		for i, made := range []time.Time{fixtureNow.Add(-23 * time.Hour), {}, fixtureNow.Add(4 * time.Minute)} {
			u := call(i)
			u.Time = made
			spoolOne(t, k, u)
		}
		db.SetFaults(nil) // in an outage the store is looked for all the time
		pass(47 * time.Hour)
		back(db, k)
		require.Equal(t, 3, k.Health().Spooled)
		require.NoError(t, k.Replay(ctx))
		for day, want := range map[string]int64{"20990122": 1, "20990123": 3, "20990124": 0, "20990125": 0} {
			got, err := k.Totals(ctx, orgO, appA, day)
			require.NoError(t, err)
			assert.Equal(t, want, got.Labels[0].Requests, day)
		}
	})
}

// TestSpoolRefusesWhatMayHaveBeenForgotten: after two days the item is gone that
// would say that a record was counted.
func TestSpoolRefusesWhatMayHaveBeenForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	var refused []string
	opts := Options{Spool: path, SpoolInterval: 200 * time.Hour, OnRefused: func(u SpooledUsage, _ error) {
		refused = append(refused, u.Usage.RequestID)
	}}
	simulated(t, opts, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		_, err := k.Recommend(ctx, orgO, appA)
		require.NoError(t, err)
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Lose: r.Operation == "TransactWriteItems"} })
		u := call(1)
		u.Time = time.Time{}
		r, err := k.Submit(ctx, orgO, appA, u)
		require.NoError(t, err)
		require.True(t, r.Spooled)
		db.SetFaults(nil)
		pass(100 * time.Hour) // and the item's time is over
		back(db, k)
		require.NoError(t, k.Replay(ctx))
		got, err := k.Totals(ctx, orgO, appA, "20990123")
		require.NoError(t, err)
		assert.Equal(t, int64(1), got.Labels[0].Requests)
		assert.Equal(t, []string{uuid(1)}, refused)
	})
}

// TestSpoolBoundOfTwoDays is exact, and a clock that went back refuses nothing.
func TestSpoolBoundOfTwoDays(t *testing.T) {
	for age, taken := range map[time.Duration]bool{unknownAfter: true, unknownAfter + 1: false, -time.Hour: true} {
		var refused []SpooledUsage
		w, k, _ := spooling(t, func(o *Options) { o.OnRefused = func(u SpooledUsage, _ error) { refused = append(refused, u) } })
		w.db.SetFaults(refuseAll("AccessDeniedException"))
		for n := range 2 { // of one content, but for the id; and one twice
			spoolOne(t, k, call(n))
			spoolOne(t, k, call(1))
		}
		w.db.SetFaults(nil)
		w.clock.Advance(age)
		require.NoError(t, k.Replay(t.Context()))
		assert.Zero(t, k.Health().Spooled, age)
		want := map[bool][]int64{true: {3, 0}, false: {1, 4}}[taken] // with the one that made the configuration known
		day, err := k.Totals(t.Context(), orgO, appA, "20990123")
		require.NoError(t, err)
		assert.Equal(t, want, []int64{day.Labels[0].Requests, int64(len(refused))}, age)
	}
}
