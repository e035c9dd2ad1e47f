package budget

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
)

// Within a configuration the record of the label in use moves forward alone; a newer
// configuration may move it either way, and an older one not at all.
func TestStickyMovesForwardWithinAConfiguration(t *testing.T) {
	s := stickyView{Sticky: Sticky{Label: "standard", Index: 1, Version: 5}, exists: true}
	assert.False(t, s.needsWrite(0, "premium", 5))
	assert.False(t, s.needsWrite(1, "standard", 5))
	assert.True(t, s.needsWrite(2, "economy", 5))
	assert.True(t, s.needsWrite(0, "premium", 6))
	assert.False(t, s.needsWrite(2, "economy", 4))
}

// Sixty-four labels are as many as an ordering has: the choice passes over all but the
// last, each is counted, and a batch of all fits.
func TestSixtyFourLabels(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	o := manyLabels(64)
	w.org(o)
	usages := make([]Usage, 100)
	for i := range usages {
		usages[i] = call(i)
		usages[i].Label, usages[i].Model = o.Ordering[i%64], ""
	}
	results, err := w.a.SubmitBatch(ctx, o.ID, appA, usages)
	require.NoError(t, err)
	for _, r := range results {
		require.NoError(t, r.Err)
	}
	for _, l := range o.Ordering[:63] {
		require.NoError(t, adjust(ctx, w.a, o.ID, appA, Adjustment{Label: l, DeltaMicros: 10_000_000, Reason: "test"}))
	}
	w.clock.Advance(6 * time.Second)
	rec, err := w.b.Recommend(ctx, o.ID, appA)
	require.NoError(t, err)
	assert.Equal(t, o.Ordering[63], rec.Label)
	assert.Len(t, rec.Labels, 64)
	totals, err := w.b.Totals(ctx, o.ID, appA, "")
	require.NoError(t, err)
	var requests int64
	for _, l := range totals.Labels {
		requests += l.Requests
	}
	assert.Equal(t, int64(100), requests)
	_, err = w.a.Setup().PutOrg(ctx, manyLabels(65))
	requireCode(t, err, fault.InvalidConfig)
}

// manyLabels is an organisation with so many labels of one model, each with the longest
// name.
func manyLabels(n int) Org {
	o := fixtureOrg()
	o.Ordering, o.Quotas, o.Models = nil, map[string]int64{}, map[string]string{}
	for i := range n {
		label := fmt.Sprintf("%02d", i) + strings.Repeat("l", 62)
		o.Ordering, o.Quotas[label], o.Models[label] = append(o.Ordering, label), 10_000_000, premiumModel
	}
	return o
}

// A record is known for as long as the same one may come again: accepted a day
// late, and then from a spool.
func TestCountedRecordIsKnownForTwoDays(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, _ *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(1))
		require.NoError(t, err)
		item, err := k.store.Get(t.Context(), k.store.Usage, ledger.DedupKey(orgO, appA, uuid(1)))
		require.NoError(t, err)
		var d store.Decoder
		kept := time.Until(time.Unix(d.Int(item, store.AttrTTL), 0))
		require.NoError(t, d.Err)
		assert.GreaterOrEqual(t, kept, 2*acceptPast)
	})
}
