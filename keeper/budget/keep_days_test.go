package budget

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// TestNoKeeperShortensWhatAnotherKeeps: a service keeps days for ten years, and another keeper with
// the default of 400 days adjusts, reads and closes one of its days. The service still reads the day
// after DynamoDB has deleted whatever was to be deleted.
func TestNoKeeperShortensWhatAnotherKeeps(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	service := w.keeper(&Options{KeepDays: 3650, AllowUnknownApps: true})
	other := w.keeper(&Options{AllowUnknownApps: true})
	r := w.submit(service, call(1))
	adjusted := Adjustment{Label: "premium", Day: r.Day, DeltaMicros: 5, Reason: "test"}
	for _, k := range []*Keeper{service, other} {
		require.NoError(t, adjust(t.Context(), k, orgO, appA, adjusted))
	}
	w.clock.Advance(3 * 24 * time.Hour)
	for _, k := range []*Keeper{service, other} { // both close it, the other one after a late write
		if k == other {
			require.NoError(t, adjust(t.Context(), other, orgO, appA, adjusted))
		}
		for _, err := range k.History(t.Context(), orgO, appA, r.Day, r.Day) {
			require.NoError(t, err)
		}
		k.ledger.WaitForTotals()
	}
	counters := 0
	for _, item := range w.items("") {
		key := store.KeyOf(item)
		if _, counts := item["cost_picos"]; !counts || !strings.HasPrefix(key.PK, "T#") && !strings.HasPrefix(key.PK, "ORG#") {
			continue // neither a counter nor a closed total
		}
		counters++
		var d store.Decoder
		assert.Greater(t, d.Int(item, store.AttrTTL), w.clock.Now().AddDate(9, 0, 0).Unix(), key)
	}
	assert.Positive(t, counters)
}
