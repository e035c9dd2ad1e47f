package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
)

func TestCaseD32Rollover(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		w.spend(appA, "premium", 10_000_000)
		midnight := at(t, "2099-01-24T05:00:00Z")
		w.clock.Set(midnight.Add(-time.Second))
		assert.Equal(t, "standard", w.recommend(w.a, appA).Label)
		w.clock.Set(midnight)
		for _, k := range []*Keeper{w.a, w.b} {
			rec := w.recommend(k, appA)
			assert.Equal(t, "premium", rec.Label)
			assert.Equal(t, ModeNormal, rec.Mode)
			assert.Zero(t, rec.Labels[0].SpendMicros)
			assert.Equal(t, "20990124", rec.Day)
		}
		late := call(1)
		late.Time = midnight.Add(-time.Second)
		assert.Equal(t, "20990123", w.submit(w.a, late).Day)
		assert.Equal(t, int64(10_016_500), w.total(appA, "premium", "20990123").CostMicros)
		assert.Zero(t, w.total(appA, "premium", "20990124").CostMicros)
	})
}

// TestCaseD34ZoneAndScopeAreFixed: what was counted is by them, also after a deletion that
// keeps it. What is left out is as it is stored.
func TestCaseD34ZoneAndScopeAreFixed(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		o := fixtureOrg()
		o.Scope = ScopeOrg
		w.org(o)
		w.submit(w.a, call(1))
		refused := func(field string, change func(*Org)) {
			t.Helper()
			other := o
			change(&other)
			_, err := w.a.Setup().PutOrg(ctx, other)
			assert.Equal(t, field, requireCode(t, err, fault.InvalidConfig).Field)
			assert.ErrorContains(t, err, "put a new organisation")
		}
		both := func() {
			t.Helper()
			refused("timezone", func(o *Org) { o.Timezone = "Asia/Tokyo" })
			refused("quota_scope", func(o *Org) { o.Scope = ScopeApp })
		}
		both()
		err := w.a.Setup().DeleteOrg(ctx, orgO, nil)
		require.NoError(t, err)
		both()
		same := o
		same.Timezone, same.Scope = "", ""
		put, err := w.a.Setup().PutOrg(ctx, same)
		require.NoError(t, err)
		assert.Equal(t, ScopeOrg, put.Scope)
		assert.Equal(t, "America/New_York", put.Timezone)

		o.Timezone = "Mars/Olympus"
		_, err = w.a.Setup().PutOrg(ctx, o)
		assert.Equal(t, "timezone", requireCode(t, err, fault.InvalidConfig).Field)
	})
}
