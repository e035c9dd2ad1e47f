package budgethttp

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

// A call is priced exactly, and the totals have it.
func TestUsageIsCountedExactly(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		r := w.a.submit(call(1)).is(http.StatusAccepted)
		assert.Equal(t, int64(16500), r.number("cost_usd_micros"))
		assert.Equal(t, "accepted", r.at("status"))
		assert.Equal(t, "20260123", r.at("day"))
		assert.Empty(t, r.header.Get("Idempotent-Replay"))
		sum := w.total("premium", "")
		assert.Equal(t, []int64{16500, 1500, 800, 1},
			[]int64{sum.number("cost_usd_micros"), sum.number("tokens.input"), sum.number("tokens.output"), sum.number("requests")})

		standard := call(2).but(example{"model_label": "standard", "model_id": standardModel, "tokens": example{"input": 1200, "output": 600}})
		assert.Equal(t, int64(3360), w.a.submit(standard).is(http.StatusAccepted).number("cost_usd_micros"))
	})
}

// A label without a price is refused, by the model's name, and nothing is counted.
func TestUnpricedLabelIsRefusedAndSkipped(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Ordering, o.Quotas["none"] = []string{"none", "premium"}, 1_000_000
		w.org(o)
		r := w.a.submit(call(1).but(example{"model_label": "none", "model_id": nil})).fails(http.StatusBadRequest, wire.InvalidConfig)
		assert.Contains(t, r.at("message"), "nobody.knows-this")
		selected := w.b.get(pathA + "/model-selection").is(http.StatusOK)
		assert.Equal(t, "premium", selected.at("recommended_model.label"))
		assert.Equal(t, "UNPRICED_none", selected.at("reason"))
		assert.Equal(t, int64(0), w.total("none", "").number("requests"))
	})
}

// The label decides the price, never the model that a client names.
func TestClientCannotChooseACheaperPrice(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.a.submit(call(1).but(example{"model_id": economyModel})).fails(http.StatusBadRequest, wire.InvalidRequest)
		assert.Equal(t, int64(0), w.total("premium", "").number("requests"))
	})
}

// What is sent again is answered with what was counted.
func TestReplayIsCountedOnce(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		first := w.a.submit(call(1)).is(http.StatusAccepted)
		for _, n := range []*node{w.b, w.a} {
			again := n.submit(call(1)).is(http.StatusAccepted)
			assert.Equal(t, "duplicate", again.at("status"))
			assert.Equal(t, "true", again.header.Get("Idempotent-Replay"))
			assert.Equal(t, first.at("cost_usd_micros"), again.at("cost_usd_micros"))
			assert.Equal(t, first.at("shard"), again.at("shard"))
		}
		sum := w.total("premium", "")
		assert.Equal(t, int64(16500), sum.number("cost_usd_micros"))
		assert.Equal(t, int64(1), sum.number("requests"))

		w.b.submit(call(1).but(example{"tokens": example{"input": 1500, "output": 801}})).fails(http.StatusConflict, wire.IdempotencyConflict)
		assert.Equal(t, int64(16500), w.total("premium", "").number("cost_usd_micros"))
	})
}

// Two paths lead to the same: usage, and costs as it was first called.
func TestCostsIsAnotherNameOfUsage(t *testing.T) {
	w := newWorld(t)
	w.a.do(http.MethodPost, pathA+"/costs", call(1)).is(http.StatusAccepted)
	assert.Equal(t, "duplicate", w.a.submit(call(1)).is(http.StatusAccepted).at("status"))
	r := w.a.do(http.MethodPost, pathA+"/costs/batch", example{"records": []any{call(1), call(2)}}).is(http.StatusMultiStatus)
	assert.Equal(t, int64(1), r.number("duplicate"))
}

func TestConcurrentUsageLosesNothing(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		const calls = 300
		together(16, calls, func(i int) {
			n := []*node{w.a, w.b}[i%2]
			assert.Equal(t, http.StatusAccepted, n.submit(call(i)).status)
		})
		sum := w.total("premium", "")
		assert.Equal(t, []int64{calls * 16500, calls * 1500, calls * 800, calls},
			[]int64{sum.number("cost_usd_micros"), sum.number("tokens.input"), sum.number("tokens.output"), sum.number("requests")})
	})
}

// A record belongs to the day of its timestamp, and the window has two ends.
func TestTimestampsDecideTheDay(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for i, test := range []struct {
			ago    time.Duration
			status int
			day    string
		}{
			{25 * time.Hour, http.StatusBadRequest, ""},
			{3 * time.Hour, http.StatusAccepted, "20260123"},
			{12 * time.Hour, http.StatusAccepted, "20260122"},
			{-299 * time.Second, http.StatusAccepted, "20260123"},
			{-301 * time.Second, http.StatusBadRequest, ""},
		} {
			r := w.a.submit(call(i).but(example{"timestamp": fixtureNow.Add(-test.ago).Format(time.RFC3339)})).is(test.status)
			if test.day != "" {
				assert.Equal(t, test.day, r.at("day"), "%v ago", test.ago)
			}
		}
		for _, bad := range []any{"2026-01-23T15:30:45", "2026-01-23", "yesterday", "", 1769182245, "2026-01-23T15:30:45+99:00", "2026-13-23T15:30:45Z"} {
			w.a.submit(call(9).but(example{"timestamp": bad})).fails(http.StatusBadRequest, wire.InvalidRequest)
		}
		w.a.submit(call(9).but(example{"timestamp": nil})).fails(http.StatusBadRequest, wire.InvalidRequest)
	})
}

// Each record of a batch is counted or refused by itself.
func TestBatchCountsEachRecordByItself(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		var records []any
		for i := range 95 {
			records = append(records, call(i))
		}
		records = append(records, call(3), call(7), call(200).but(example{"model_label": "gold", "model_id": nil}),
			call(201).but(example{"model_label": "silver", "model_id": nil}), call(202).but(example{"tokens": example{"input": -1}}))
		r := w.a.do(http.MethodPost, pathA+"/usage/batch", example{"records": records}).is(http.StatusMultiStatus)
		assert.Equal(t, []int64{97, 2, 3}, []int64{r.number("accepted"), r.number("duplicate"), r.number("failed")})
		codes := map[any]int{}
		for i := range records {
			assert.Equal(t, int64(i), r.number(fmt.Sprintf("results.%d.index", i)))
			if code := r.at(fmt.Sprintf("results.%d.error.error", i)); code != nil {
				codes[code]++
			}
		}
		assert.Equal(t, map[any]int{"INVALID_MODEL_LABEL": 2, "INVALID_REQUEST": 1}, codes)
		assert.Equal(t, int64(1_567_500), w.total("premium", "").number("cost_usd_micros"))
	})
}

func TestBatchHasBounds(t *testing.T) {
	w := newWorld(t)
	var records []any
	for i := range 101 {
		records = append(records, call(i))
	}
	batch := pathA + "/usage/batch"
	w.a.do(http.MethodPost, batch, example{"records": records}).fails(http.StatusBadRequest, wire.InvalidRequest)
	w.a.do(http.MethodPost, batch, example{"records": []any{}}).fails(http.StatusBadRequest, wire.InvalidRequest)
	w.a.do(http.MethodPost, batch, example{}).fails(http.StatusBadRequest, wire.InvalidRequest)
	w.a.do(http.MethodPost, batch, records[:1]).fails(http.StatusBadRequest, wire.InvalidRequest)
	filler := strings.Repeat(" ", 1<<20)
	w.a.send(http.MethodPost, batch, []byte(`{"records": []}`+filler)).fails(http.StatusRequestEntityTooLarge, wire.PayloadTooLarge)
	w.a.send(http.MethodPost, pathA+"/usage", []byte(filler[:64<<10+1])).fails(http.StatusRequestEntityTooLarge, wire.PayloadTooLarge)
	assert.Equal(t, int64(0), w.total("premium", "").number("requests"))
}

// A body of exactly the limit is taken.
func TestBodyMayBeAsLargeAsTheLimit(t *testing.T) {
	w := newWorld(t)
	raw, err := wireJSON(call(1))
	require.NoError(t, err)
	w.a.send(http.MethodPost, pathA+"/usage", append(raw, []byte(strings.Repeat(" ", 64<<10-len(raw)))...)).is(http.StatusAccepted)
}

// A total that cannot be read whole is no total.
func TestTotalOfAnIncompleteReadIsUnavailable(t *testing.T) {
	w := newWorld(t, func(o *budget.Options) { o.Timeout, o.RequestTimeout = 50*time.Millisecond, 50*time.Millisecond })
	w.a.submit(call(1)).is(http.StatusAccepted)
	w.engine.SetFaults(downFor("Query", "BatchGetItem"))
	r := w.b.get(pathA+"/aggregates/today").fails(http.StatusServiceUnavailable, wire.ServiceUnavailable)
	assert.NotEmpty(t, r.header.Get("Retry-After"))
	w.engine.SetFaults(nil)
}

// A node that was started later knows what others counted.
func TestTotalsNeedNoRegistration(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.a.submit(call(1)).is(http.StatusAccepted)
		third := w.node(w.keeper())
		assert.Equal(t, int64(16500), third.get(pathA+"/aggregates/today").is(http.StatusOK).number("cost_usd_micros"))
		assert.Equal(t, int64(16500), third.get(pathO+"/aggregates/today").is(http.StatusOK).number("cost_usd_micros"))
		assert.Equal(t, int64(16500), third.get(pathO+"/aggregates/2026-01-23").is(http.StatusOK).number("cost_usd_micros"))
		assert.Equal(t, int64(0), third.get(pathA+"/aggregates/20260122").is(http.StatusOK).number("cost_usd_micros"))
	})
}

// The thresholds of the modes are exact, and the answer says how long it may be kept.
func TestSelectionFollowsTheSpend(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for _, step := range []struct {
			add                 int64
			label, mode, reason string
			secs                int64
		}{
			{0, "premium", "NORMAL", "WITHIN_QUOTA", 300},
			{9_499_999, "premium", "NORMAL", "WITHIN_QUOTA", 300},
			{1, "premium", "TIGHT", "WITHIN_QUOTA", 60},
			{499_999, "premium", "TIGHT", "WITHIN_QUOTA", 60},
			{1, "standard", "NORMAL", "QUOTA_EXCEEDED_premium", 300},
		} {
			if step.add > 0 {
				w.spend(appA, "premium", step.add)
			}
			r := w.b.get(pathA + "/model-selection").is(http.StatusOK)
			assert.Equal(t, []any{step.label, step.mode, step.reason}, []any{r.at("recommended_model.label"), r.at("mode"), r.at("reason")})
			assert.Equal(t, step.secs, r.number("cache_duration_secs"))
			assert.Equal(t, fmt.Sprintf("private, max-age=%d", step.secs), r.header.Get("Cache-Control"))
			assert.Equal(t, "2026-01-24T05:00:00Z", r.at("reset_at"))
		}
	})
}

// force_check asks the store, even if everything is known.
func TestForcedSelectionIsFresh(t *testing.T) {
	w := newWorld(t)
	assert.Equal(t, "premium", w.b.get(pathA+"/model-selection").is(http.StatusOK).at("recommended_model.label"))
	_, err := w.a.keeper.Adjust(t.Context(), orgO, appA, budget.Adjustment{Label: "premium", DeltaMicros: 10_000_000, Reason: "test"})
	require.NoError(t, err)
	assert.Equal(t, "premium", w.b.get(pathA+"/model-selection").is(http.StatusOK).at("recommended_model.label"), "known for 5 s")
	assert.Equal(t, "standard", w.b.get(pathA+"/model-selection?force_check=true").is(http.StatusOK).at("recommended_model.label"))
}

// The answer to usage says what to use next.
func TestUsageReplyDrivesTheSwitch(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.spend(appA, "premium", 9_990_000)
		r := w.b.submit(call(1)).is(http.StatusAccepted)
		assert.Equal(t, int64(10_006_500), r.number("spend_usd_micros"))
		assert.Equal(t, []any{"TIGHT", "EXCEEDED", "standard"}, []any{r.at("mode"), r.at("quota_status"), r.at("recommended_label")})
	})
}

func TestSelectionFailsWhenAllIsSpent(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for label, micros := range map[string]int64{"premium": 10_000_000, "standard": 5_000_000, "economy": 2_000_100} {
			w.spend(appA, label, micros)
		}
		w.clock.Set(fixtureNow)
		r := w.node(w.keeper()).get(pathA+"/model-selection").fails(http.StatusTooManyRequests, wire.QuotaExceeded)
		assert.Equal(t, "48555", r.header.Get("Retry-After"))
		assert.Equal(t, "2026-01-24T05:00:00Z", r.at("details.retry_after"))
		assert.Equal(t, int64(100), r.number("details.total_overage_usd_micros"))
		assert.Equal(t, "premium", r.at("details.labels.0.label"))
		assert.InDelta(t, 100.0, r.at("details.labels.0.quota_pct"), 0)
		submitted := w.a.submit(call(1)).is(http.StatusAccepted)
		assert.NotContains(t, submitted.body, "recommended_label", "no label has room")
	})
}

// A quota of 0 is never selectable, and divides nothing.
func TestQuotaOfZeroIsNeverSelected(t *testing.T) {
	w := newWorld(t)
	o := fixtureOrg()
	o.Quotas["premium"] = 0
	w.org(o)
	r := w.b.get(pathA + "/model-selection").is(http.StatusOK)
	assert.Equal(t, "standard", r.at("recommended_model.label"))
	assert.InDelta(t, 0.0, r.at("quota_status.0.quota_pct"), 0)
}

// Under scope ORG one total binds all apps; under scope APP each has its own.
func TestScopeDecidesWhoseSpendBinds(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.spend(appA, "premium", 6_000_000)
		w.spend(appB, "premium", 4_000_000)
		for _, path := range []string{pathA, pathB} {
			assert.Equal(t, "premium", w.b.get(path+"/model-selection").is(http.StatusOK).at("recommended_model.label"))
		}
		o := fixtureOrg()
		o.ID, o.Scope = orgOther, budget.ScopeOrg
		w.org(o)
		w.clock.Advance(12 * time.Hour) // a scope changes with the day: midnight has passed
		w.clock.Advance(12 * time.Hour)
		for app, micros := range map[string]int64{appA: 6_000_000, appB: 4_000_000} {
			_, err := w.a.keeper.Adjust(t.Context(), orgOther, app, budget.Adjustment{Label: "premium", DeltaMicros: micros, Reason: "test"})
			require.NoError(t, err)
		}
		w.clock.Advance(6 * time.Second)
		for _, app := range []string{appA, appB} {
			r := w.b.as("other").get("/api/v1/orgs/" + orgOther + "/apps/" + app + "/model-selection").is(http.StatusOK)
			assert.Equal(t, "standard", r.at("recommended_model.label"))
		}
	})
}

// A new day begins with nothing spent; what belongs to the old one still counts there.
func TestNewDayBeginsEmpty(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.spend(appA, "premium", 10_000_000)
		w.clock.Set(time.Date(2026, 1, 24, 4, 59, 59, 0, time.UTC))
		assert.Equal(t, "standard", w.b.get(pathA+"/model-selection").is(http.StatusOK).at("recommended_model.label"))
		w.clock.Set(time.Date(2026, 1, 24, 5, 0, 0, 0, time.UTC))
		r := w.b.get(pathA + "/model-selection").is(http.StatusOK)
		assert.Equal(t, []any{"premium", "NORMAL", "20260124"}, []any{r.at("recommended_model.label"), r.at("mode"), r.at("day")})
		assert.Equal(t, int64(0), r.number("quota_status.0.spend_usd_micros"))
		late := w.a.submit(call(1).but(example{"timestamp": "2026-01-24T04:59:59Z"})).is(http.StatusAccepted)
		assert.Equal(t, "20260123", late.at("day"))
		assert.Equal(t, int64(10_016_500), w.total("premium", "20260123").number("cost_usd_micros"))
	})
}
