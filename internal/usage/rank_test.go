package usage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// TestRankingKeepsTheLargestLeaves: whatever the order, and without entities that have children.
func TestRankingKeepsTheLargestLeaves(t *testing.T) {
	hour := time.Date(2026, 3, 1, 5, 0, 0, 0, time.UTC)
	r := usage.NewRanking()
	for i := range 1000 {
		r.AddEntry(usage.Entry{
			Entity: fmt.Sprintf("key-%d", i), Resource: "all", Place: schema.UsagePlace{Parent: "org"},
			Net: map[string]int64{"usd": int64(i * 7919 % 1000), "tpm": -1, schema.PassedOn("usd"): 3},
		})
	}
	r.AddEntry(usage.Entry{Entity: "org", Resource: "all", Net: map[string]int64{"usd": 1 << 40}})
	rankings := r.All(hour)
	assert.Len(t, rankings, 1)
	assert.Len(t, rankings[0].Limits, 1, "limits that nobody used, and amounts counted above, are not ranked")
	for i, e := range rankings[0].Limits["usd"] {
		assert.Equal(t, int64(999-i), e.Consumed)
	}
	assert.Len(t, rankings[0].Limits["usd"], 20)

	rankings[0].Made = 5
	assert.Equal(t, rankings[0].Limits, schema.DecodeUsageRanking(rankings[0].Item(schema.Keys{})).Limits)
	twice := usage.MergeRankings([]schema.UsageRanking{rankings[0], rankings[0]})
	assert.Equal(t, int64(2*999), twice["usd"][0].Consumed)
}
