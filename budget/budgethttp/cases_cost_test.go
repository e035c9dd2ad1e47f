package budgethttp

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/budget/internal/fixture"
)

// priced is U(n) of another label's model, or of another number of tokens.
func priced(n int, label, model string, tokens example) example {
	return call(n).but(example{"model_label": label, "model_id": model, "tokens": tokens})
}

// models are organisation O's, with another for premium.
func models(premium string) example {
	return example{"models": example{"premium": premium, "standard": standardModel, "economy": economyModel}}
}

// stored is how many items the table of usage has.
func (w *world) stored() int {
	w.t.Helper()
	return len(fixture.Items(w.t, w.client, w.tables.Usage, ""))
}

// A call is priced exactly, and the totals have it.
func TestCaseA1ExactCost(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		r := w.a.submit(call(1)).is(http.StatusAccepted)
		assert.Equal(t, int64(16_500), r.number("cost_usd_micros"))
		assert.Equal(t, []any{"accepted", "20260123", uuid(1), "premium"}, []any{r.at("status"), r.at("day"), r.at("request_id"), r.at("model_label")})
		assert.Empty(t, r.header.Get("Idempotent-Replay"))
		assert.Equal(t, []int64{16_500, 1500, 800, 1}, w.total("premium", "20260123").sums())

		standard := priced(2, "standard", standardModel, example{"input": 1200, "output": 600})
		assert.Equal(t, int64(3360), w.a.submit(standard).is(http.StatusAccepted).number("cost_usd_micros"))
	})
}

// Costs below a millionth of a dollar add up: a thousand calls of 1.96 µ$.
func TestCaseA2NoRoundingLeak(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.put(example{"model_ordering": []any{"micro"}, "quotas": example{"micro": 1_000_000}, "models": nil})
		together(8, 40, func(i int) {
			records := make([]any, 25)
			for j := range records {
				records[j] = priced(i*25+j, "micro", microModel, example{"input": 28, "output": 7})
			}
			r := w.a.do(http.MethodPost, pathA+"/usage/batch", example{"records": records})
			assert.Equal(t, http.StatusMultiStatus, r.status, "%s", r.raw)
			assert.Equal(t, int64(25), r.number("accepted"))
		})
		assert.Equal(t, []int64{1960, 28_000, 7000, 1000}, w.total("micro", "").sums())
	})
}

// Each class of tokens has its own price, and none is counted as another.
func TestCaseA3TokenClassesAreDisjoint(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		const model = "us.anthropic.claude-sonnet-4-6"
		w.put(models(model))
		r := w.a.submit(priced(1, "premium", model, example{"input": 1000, "cache_read": 50_000, "cache_write_5m": 2000, "output": 800})).is(http.StatusAccepted)
		assert.Equal(t, int64(41_250), r.number("cost_usd_micros"))
		sum := w.total("premium", "")
		assert.Equal(t, map[string]any{"input": 1000.0, "cache_read": 50_000.0, "cache_write_5m": 2000.0, "cache_write_1h": 0.0, "output": 800.0}, sum.at("tokens"))
		assert.Equal(t, int64(41_250), sum.number("cost_usd_micros"))
	})
}

// The price is that of the call's time, and the stored record names it.
func TestCaseA4PriceFollowsTheEventsDate(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		const model = "us.anthropic.claude-sonnet-5"
		w.clock.Set(time.Date(2026, 9, 1, 0, 0, 30, 0, time.UTC))
		w.put(models(model))
		for i, test := range []struct {
			at    string
			cost  int64
			price string
		}{
			{"2026-08-31T23:59:59Z", 2_200_000, "always"},
			{"2026-09-01T00:00:01Z", 3_300_000, "2026-09-01T00:00:00Z"},
		} {
			usage := priced(i, "premium", model, example{"input": 1_000_000}).but(example{"timestamp": test.at})
			for _, n := range []*node{w.a, w.b} { // the other node answers with what is stored
				r := n.submit(usage).is(http.StatusAccepted)
				assert.Equal(t, test.cost, r.number("cost_usd_micros"))
				assert.Equal(t, "catalog|anthropic.claude-sonnet-5|regional|"+test.price, r.at("price_version"))
			}
		}
	})
}

// A global model has its own price; every other prefix, and none, is regional.
func TestCaseA5ScopePrefixMatters(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for i, test := range []struct {
			model string
			cost  int64
		}{
			{"global.anthropic.claude-sonnet-4-6", 3_000_000},
			{"us.anthropic.claude-sonnet-4-6", 3_300_000},
			{"anthropic.claude-sonnet-4-6", 3_300_000},
		} {
			w.put(models(test.model))
			r := w.a.submit(priced(i, "premium", test.model, example{"input": 1_000_000})).is(http.StatusAccepted)
			assert.Equal(t, test.cost, r.number("cost_usd_micros"), test.model)
		}
	})
}

// A label without a price is refused, by the model's name, and nothing is written.
func TestCaseA6UnknownPriceFailsClosed(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		const model = "anthropic.claude-unheard-of"
		w.put(models(model))
		before := w.stored()
		r := w.a.submit(call(1).but(example{"model_id": model})).fails(http.StatusBadRequest, wire.InvalidConfig)
		assert.Contains(t, r.at("message"), model)
		assert.Equal(t, before, w.stored(), "nothing is written")
		assert.Equal(t, []any{"standard", "NORMAL", "UNPRICED_premium"}, w.b.choice(pathA))
		selected := w.b.get(pathA + "/model-selection").is(http.StatusOK)
		assert.Equal(t, "UNPRICED", selected.of("quota_status", "premium").at("status"))
		assert.Equal(t, []int64{0, 0, 0, 0}, w.total("premium", "").sums())
	})
}

// The label decides the price, never the model that a client names.
func TestCaseA7ClientCannotChooseACheaperPrice(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.a.submit(call(1)).is(http.StatusAccepted)
		before := w.stored()
		r := w.a.submit(call(2).but(example{"model_id": economyModel})).fails(http.StatusBadRequest, wire.InvalidRequest)
		assert.Equal(t, "model_id", r.at("details.fields.0.field"))
		assert.Equal(t, before, w.stored(), "nothing is written")
		assert.Equal(t, []int64{16_500, 1500, 800, 1}, w.total("premium", "").sums())
		assert.Equal(t, []int64{0, 0, 0, 0}, w.total("economy", "").sums())
	})
}
