package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/prices"
)

// TestAnAppThatNobodyPutIsNotFound: a misspelt or made-up id has no quota, leaves no item,
// and slows no sum of its organisation.
func TestAnAppThatNobodyPutIsNotFound(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	ctx := t.Context()
	k, err := New(w.client, w.tables, &Options{Now: w.clock.Now, Principal: tester, Models: fixtureModels})
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Close(ctx)) }()
	items := len(w.items(""))
	requireGone(t, k, orgO, "app-prodction-api")
	_, err = k.SubmitBatch(ctx, orgO, "made-up", []prices.Usage{call(1)})
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "PutApp")
	assert.Len(t, w.items(""), items, "nothing is written")
	for app, err := range k.Setup().Apps(ctx, orgO) {
		assert.Fail(t, "it is listed", "%v %v", app.ID, err)
	}

	_, err = k.Setup().PutApp(ctx, orgO, App{ID: appA})
	require.NoError(t, err)
	r, err := k.Submit(ctx, orgO, appA, call(1))
	require.NoError(t, err)
	assert.Equal(t, int64(16_500), r.CostMicros)
	total := func() float64 {
		return w.spentOn(func() {
			got, err := k.Totals(ctx, orgO, "", "")
			require.NoError(t, err)
			assert.Equal(t, int64(16_500), got.CostMicros)
		}).ReadUnits()
	}
	total() // the configuration is known after it
	before := total()
	for i := range 50 {
		_, err := k.Submit(ctx, orgO, uuid(i), call(100+i))
		require.ErrorIs(t, err, ErrNotFound)
	}
	assert.Equal(t, before, total())
	err = k.Setup().DeleteApp(ctx, orgO, appA, nil)
	require.NoError(t, err)
	w.clock.Advance(time.Minute)
	requireGone(t, k, orgO, appA)
}
