package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/prices"
)

func TestCaseA1ExactCost(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		r := w.submit(w.a, call(1))
		assert.Equal(t, int64(16_500), r.CostMicros)
		assert.Equal(t, "20990123", r.Day)
		assert.False(t, r.Duplicate)
		got := w.total(appA, "premium", "20990123")
		assert.Equal(t, int64(16_500), got.CostMicros)
		assert.Equal(t, prices.Tokens{Input: 1500, Output: 800}, got.Tokens)
		assert.Equal(t, int64(1), got.Requests)

		standard := call(2)
		standard.Label, standard.Model, standard.Tokens = "standard", standardModel, prices.Tokens{Input: 1200, Output: 600}
		assert.Equal(t, int64(3_360), w.submit(w.b, standard).CostMicros)
	})
}

func TestCaseA2NoRoundingLeak(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Ordering = []string{"micro"}
		o.Quotas = map[string]int64{"micro": 1_000_000}
		w.org(o)
		together(16, 1000, func(i int) {
			u := call(i)
			u.Label, u.Model, u.Tokens = "micro", microModel, prices.Tokens{Input: 28, Output: 7}
			_, err := w.send(w.a, u)
			assert.NoError(t, err)
		})
		assert.Equal(t, int64(1960), w.total(appA, "micro", "").CostMicros)
	})
}

func TestCaseA3TokenClassesAreDisjoint(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Models = map[string]string{"premium": "us.anthropic.claude-sonnet-4-6", "standard": standardModel, "economy": economyModel}
		w.org(o)
		u := call(1)
		u.Model = "us.anthropic.claude-sonnet-4-6"
		u.Tokens = prices.Tokens{Input: 1000, CacheRead: 50_000, CacheWrite5m: 2000, Output: 800}
		assert.Equal(t, int64(41_250), w.submit(w.a, u).CostMicros)
		assert.Equal(t, u.Tokens, w.total(appA, "premium", "").Tokens)
	})
}

func TestCaseA4PriceFollowsTheEventsDate(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.clock.Set(at(t, "2099-09-01T00:00:30Z"))
		require.NoError(t, w.a.Prices().Put(t.Context(), "us.anthropic.claude-sonnet-5",
			prices.Price{Model: "us.anthropic.claude-sonnet-5", Rates: anthropicRates(2_200_000, 11_000_000)},
			prices.Price{Model: "us.anthropic.claude-sonnet-5", EffectiveFrom: at(t, "2099-09-01T00:00:00Z"), Rates: anthropicRates(3_300_000, 16_500_000)},
		))
		o := fixtureOrg()
		o.Models = map[string]string{"premium": "us.anthropic.claude-sonnet-5", "standard": standardModel, "economy": economyModel}
		w.org(o)
		for i, tc := range []struct {
			at   string
			want int64
			from string
		}{
			{"2099-08-31T23:59:59Z", 2_200_000, "always"},
			{"2099-09-01T00:00:01Z", 3_300_000, "2099-09-01T00:00:00Z"},
		} {
			u := call(i)
			u.Model, u.Tokens, u.Time = "us.anthropic.claude-sonnet-5", prices.Tokens{Input: 1_000_000}, at(t, tc.at)
			r := w.submit(w.a, u)
			assert.Equal(t, tc.want, r.CostMicros)
			assert.Equal(t, "table|anthropic.claude-sonnet-5|regional|"+tc.from, r.PriceVersion)
		}
	})
}

func TestCaseA5ScopePrefixMatters(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for i, tc := range []struct {
			model string
			want  int64
		}{
			{"global.anthropic.claude-sonnet-4-6", 3_000_000},
			{"us.anthropic.claude-sonnet-4-6", 3_300_000},
			{"anthropic.claude-sonnet-4-6", 3_300_000},
		} {
			o := fixtureOrg()
			o.Models = map[string]string{"premium": tc.model, "standard": standardModel, "economy": economyModel}
			w.org(o)
			u := call(i)
			u.Model, u.Tokens = tc.model, prices.Tokens{Input: 1_000_000}
			assert.Equal(t, tc.want, w.submit(w.a, u).CostMicros, tc.model)
		}
	})
}

func TestCaseA6UnknownPriceFailsClosed(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Models = map[string]string{"premium": "anthropic.claude-unheard-of", "standard": standardModel, "economy": economyModel}
		w.org(o)
		u := call(1)
		u.Model = "anthropic.claude-unheard-of"
		_, err := w.a.Submit(t.Context(), orgO, appA, u)
		assert.Contains(t, requireCode(t, err, fault.InvalidConfig).Reason, "anthropic.claude-unheard-of")
		assert.Empty(t, w.items(""), "nothing is written")
		rec := w.recommend(w.b, appA)
		assert.Equal(t, "standard", rec.Label)
		assert.Equal(t, "UNPRICED_premium", rec.Reason)
		assert.Equal(t, prices.StatusUnpriced, rec.Labels[0].Status)

		require.NoError(t, w.a.Prices().Put(t.Context(), "anthropic.claude-unheard-of",
			prices.Price{Model: "anthropic.claude-unheard-of", Rates: prices.Rates{Input: 1_000_000, Output: 2_000_000}}))
		assert.Equal(t, int64(3_100), w.submit(w.a, u).CostMicros, "a stored price")
		w.clock.Advance(31 * time.Second)
		assert.Equal(t, "premium", w.recommend(w.b, appA).Label, "seen by the other node")
		require.NoError(t, w.a.Prices().Put(t.Context(), "anthropic.claude-unheard-of"))
		assert.Equal(t, "standard", w.recommend(w.a, appA).Label)
	})
}

func TestCaseA7ClientCannotChooseACheaperPrice(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		u := call(1)
		u.Model = economyModel
		_, err := w.a.Submit(t.Context(), orgO, appA, u)
		assert.Equal(t, "model_id", requireCode(t, err, fault.InvalidRequest).Field)
		assert.Zero(t, w.total(appA, "premium", "").Requests)
		assert.Zero(t, w.total(appA, "economy", "").Requests)
	})
}

func TestEstimate(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	micros, err := w.a.Estimate(t.Context(), orgO, appA, "premium", 1500, 800)
	require.NoError(t, err)
	assert.Equal(t, int64(16_500), micros)
	for _, label := range []string{"nowhere", "micro", ""} { // micro has a model and is not in the ordering
		_, err = w.a.Estimate(t.Context(), orgO, appA, label, 1, 1)
		assert.Equal(t, "model_label", requireCode(t, err, fault.InvalidModelLabel).Field)
	}
	_, err = w.a.Estimate(t.Context(), orgO, appA, "premium", -1, 1)
	requireCode(t, err, fault.InvalidRequest)
}

// anthropicRates are rates with cache rates as Anthropic has them, by the input's.
func anthropicRates(input, output int64) prices.Rates {
	return prices.Rates{Input: input, Output: output, CacheRead: input / 10, CacheWrite5m: input * 5 / 4, CacheWrite1h: input * 2}
}
