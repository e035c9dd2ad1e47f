package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/prices"
)

func TestPriceLayersAndEffectiveDates(t *testing.T) {
	from := at(t, "2099-02-01T00:00:00Z")
	table, err := prices.NewBook([]prices.Price{{Model: "us.m1", EffectiveFrom: from, Rates: prices.Rates{Input: 5}}})
	require.NoError(t, err)
	options, err := prices.NewBook([]prices.Price{{Model: "m1", Rates: prices.Rates{Input: 4}}, {Model: "m1", EffectiveFrom: from, Rates: prices.Rates{Input: 6}}})
	require.NoError(t, err)
	layers := priceLayers{{"table", table}, {"options", options}}
	for _, tc := range []struct {
		model string
		at    time.Time
		want  int64
	}{
		{"m1", from.Add(-time.Second), 4},
		{"m1", from, 5},
		{"global.m1", from, 6},
		{"eu.m1-v1:0", from, 5},
	} {
		p, _, ok := layers.lookup(tc.model, tc.at)
		require.True(t, ok)
		assert.Equal(t, tc.want, p.Input, "%s at %s", tc.model, tc.at)
	}
	_, err = prices.NewBook([]prices.Price{{Model: "m1", Rates: prices.Rates{Input: -2}}})
	require.Error(t, err)
}

// TestVersionsOfAModelHaveTheirOwnPrices: and one without a price of its own
// has that of the model.
func TestVersionsOfAModelHaveTheirOwnPrices(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Models = map[string]string{
			"premium": "amazon.titan-embed-text-v1", "standard": "us.amazon.titan-embed-text-v2:0", "economy": "amazon.titan-embed-text-v2:1",
		}
		o.Prices = []prices.Price{{Model: "amazon.titan-embed-text", Rates: prices.Rates{Input: 7_000}}}
	})
	w.org(fixtureOrg())
	costs := func() (got [3]int64) {
		for i, label := range fixtureOrg().Ordering {
			var err error
			got[i], err = w.a.Estimate(t.Context(), orgO, appA, label, 1_000_000, 0)
			require.NoError(t, err)
		}
		return got
	}
	assert.Equal(t, [3]int64{7_000, 7_000, 7_000}, costs())
	for model, input := range map[string]int64{"amazon.titan-embed-text-v1": 100_000, "amazon.titan-embed-text-v2:0": 20_000} {
		require.NoError(t, w.a.Prices().Put(t.Context(), model, prices.Price{Model: model, Rates: prices.Rates{Input: input}}))
	}
	assert.Equal(t, [3]int64{100_000, 20_000, 20_000}, costs(), "a later revision has the version's")
	require.NoError(t, w.a.Prices().Put(t.Context(), "amazon.titan-embed-text-v2:1", prices.Price{Model: "amazon.titan-embed-text-v2:1", Rates: prices.Rates{Input: 30_000}}))
	assert.Equal(t, [3]int64{100_000, 20_000, 30_000}, costs())
	require.NoError(t, w.a.Prices().Put(t.Context(), "amazon.titan-embed-text-v1"))
	assert.Equal(t, [3]int64{7_000, 20_000, 30_000}, costs(), "taken back")
}
