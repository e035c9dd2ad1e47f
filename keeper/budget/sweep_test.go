package budget

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestASweepAsksForWhatSpent: apps that spend nothing cost a sweep nothing, and it leaves what this
// process knows of other apps alone. It closes the day of those that spent, once.
func TestASweepAsksForWhatSpent(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.org(fixtureOrg())
	var r recorder
	sweeper := w.keeper(&Options{OnEvent: r.hook})
	sweep := func() (SweepReport, ddbmem.Meter) {
		var report SweepReport
		m := w.spentOn(func() {
			var err error
			report, err = sweeper.Sweep(ctx)
			require.NoError(t, err)
		})
		return report, m
	}
	sweep() // days on which nothing was counted are done
	_, idle := sweep()
	for i := range 40 {
		_, err := w.a.Setup().PutApp(ctx, orgO, App{ID: fmt.Sprintf("idle-%d", i)})
		require.NoError(t, err)
	}
	report, none := sweep()
	assert.Equal(t, idle.Requests(), none.Requests())
	assert.Zero(t, report)

	w.spend(appA, "premium", 5_000_000)
	report, spent := sweep()
	assert.Equal(t, 1, report.Orgs)
	assert.Equal(t, []string{"premium 50"}, r.take(), "nobody looked for it")
	assert.Less(t, spent.Requests()-idle.Requests(), int64(12))
	assert.Zero(t, sweeper.Stats().ConfigMisses)
	assert.Zero(t, sweeper.standing.views.Len()+sweeper.standing.watches.Len())

	w.clock.Advance(51 * time.Hour)
	report, _ = sweep()
	assert.Equal(t, 1, report.Closed)
	report, after := sweep()
	assert.Zero(t, report.Closed, "once")
	assert.LessOrEqual(t, after.Requests(), idle.Requests())
	found := 0
	for _, item := range w.items("T#") {
		assert.NotNil(t, item["n"])
		found++
	}
	assert.Equal(t, 1, found)
}

// TestTotalsOfManyAppsAreReadAtOnce, and of no day before the organisation was made.
func TestTotalsOfManyAppsAreReadAtOnce(t *testing.T) {
	simulated(t, Options{RequestTimeout: time.Minute, Timeout: time.Minute}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		ctx := t.Context()
		const apps = 24
		for i := range apps {
			_, err := k.Setup().PutApp(ctx, orgO, App{ID: fmt.Sprintf("app-%d", i)})
			require.NoError(t, err)
		}
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 50 * time.Millisecond} })
		today := k.now().UTC().Format("20060102")
		for name, read := range map[string]func() error{
			"today": func() error { _, err := k.Totals(ctx, orgO, "", ""); return err },
			"a year": func() error {
				days := 0
				for d, err := range k.History(ctx, orgO, "", k.now().AddDate(-1, 0, 0).Format("20060102"), today) {
					if err != nil {
						return err
					}
					assert.Zero(t, d.CostMicros)
					days++
				}
				assert.GreaterOrEqual(t, days, 365)
				return nil
			},
		} {
			began, before := time.Now(), db.Meter()
			require.NoError(t, read())
			assert.Less(t, time.Since(began), 2*time.Second, name)
			assert.Less(t, db.Meter().Sub(before).Requests(), int64(apps*5+40), name)
		}
	})
}

// TestAForcedLookHasAFloor: within half a second of the last query none is made.
func TestAForcedLookHasAFloor(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	look := func() int64 {
		return w.spentOn(func() {
			_, err := w.a.RecommendFresh(t.Context(), orgO, appA)
			require.NoError(t, err)
		}).Requests()
	}
	look()
	for _, step := range []struct {
		after time.Duration
		asks  bool
	}{{0, false}, {499 * time.Millisecond, false}, {time.Millisecond, true}, {time.Millisecond, false}} {
		w.clock.Advance(step.after)
		assert.Equal(t, step.asks, look() > 0, step.after)
	}
}
