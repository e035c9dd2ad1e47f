package llmhttp_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// TestPlacesHaveTheirPrice charges a call by where and how fast it was served: at the standard rates of
// a dollar and five for a million tokens, and a tenth more in the US.
func TestPlacesHaveTheirPrice(t *testing.T) {
	prices := budget.PriceList{Calls: map[string]budget.CallPrice{"m": {
		Rates:    budget.Rates{Input: 1_000_000, Output: 5_000_000},
		Variants: []budget.CallRates{{Tier: "us", Rates: budget.Rates{Input: 1_100_000, Output: 5_500_000}}},
	}}}
	for _, c := range []struct {
		name, asks, tells string
		status            int
		micros            int64
	}{
		{"standard", `"service_tier":"standard_only"`, `"service_tier":"standard","inference_geo":"global","speed":"standard"`, 200, 6_000},
		{"asked and served in the US", `"service_tier":"standard_only","inference_geo":"us"`, `"service_tier":"standard","inference_geo":"us"`, 200, 6_600},
		{"served in the US", `"service_tier":"standard_only"`, `"service_tier":"standard","inference_geo":"us"`, 200, 6_600},
		{"nobody says", `"stop_sequences":[]`, `"x":1`, 200, 6_600},
		{"fast, which has no price", `"speed":"fast","inference_geo":"us"`, `"speed":"fast"`, 400, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			usd := dynalimit.DailyMoney("usd", 1_000_000, "UTC")
			usd.PerModel = true
			limiter := dynalimittest.New(t, usd)
			guard, err := llm.New(&llm.Options{Limiter: limiter, Limits: map[string]llm.Measure{"usd": llm.Cost(prices)}})
			require.NoError(t, err)
			base := canned{jsonType, `{"usage":{"input_tokens":1000,"output_tokens":1000,` + c.tells + `}}`}
			transport, err := llmhttp.NewTransport(base, guard, &llmhttp.Options{Models: models})
			require.NoError(t, err)
			w := &world{T: t, url: "http://provider"}
			res, err := transport.RoundTrip(w.request(t.Context(), claudePath, `{"model":"m","max_tokens":1000,`+c.asks+`}`))
			require.NoError(t, err)
			body := read(t, res)
			require.NoError(t, res.Body.Close())
			assert.Equal(t, c.status, res.StatusCode, body)
			require.NoError(t, transport.Close(t.Context()))
			limiter.AssertTaken("ana", "m", dynalimit.Amounts{"usd": c.micros})
		})
	}
}
