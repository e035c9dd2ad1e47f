package budget

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
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
