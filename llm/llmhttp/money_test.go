package llmhttp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/prices"
)

// TestPlacesHaveTheirPrice charges a call by where and how fast it was served: at the standard rates of
// a dollar and five for a million tokens, and a tenth more in the US.
func TestPlacesHaveTheirPrice(t *testing.T) {
	prices := prices.List{Calls: map[string]prices.CallPrice{"m": {
		Rates:    prices.Rates{Input: 1_000_000, Output: 5_000_000},
		Variants: []prices.CallRates{{Tier: "us", Rates: prices.Rates{Input: 1_100_000, Output: 5_500_000}}},
	}}}
	for _, c := range []struct {
		name, asks, tells string
		status            int
		tokens, micros    int64
	}{
		{"standard", `"service_tier":"standard_only"`, `"service_tier":"standard","inference_geo":"global","speed":"standard"`, 200, 2_000, 6_000},
		{"asked and served in the US", `"service_tier":"standard_only","inference_geo":"us"`, `"service_tier":"standard","inference_geo":"us"`, 200, 2_000, 6_600},
		{"served in the US", `"service_tier":"standard_only"`, `"service_tier":"standard","inference_geo":"us"`, 200, 2_000, 6_600},
		{"nobody says", `"stop_sequences":[]`, `"x":1`, 200, 2_000, 6_000},
		{"asked in the US, and the answer does not say", `"inference_geo":"us"`, `"x":1`, 200, 2_000, 6_600},
		{"fast, which has no price", `"speed":"fast","inference_geo":"us"`, `"speed":"fast"`, 400, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := canned{jsonType, `{"usage":{"input_tokens":1000,"output_tokens":1000,` + c.tells + `}}`}
			assert.Equal(t, c.status, paid(t, prices, answer, claudePath, `{"model":"m","max_tokens":1000,`+c.asks+`}`, dynalimit.Amounts{"usd": c.micros, "tpm": c.tokens}))
		})
	}
}

// paid makes a call, which takes so much money and so many tokens.
func paid(t *testing.T, prices llm.Prices, answer canned, path, body string, want dynalimit.Amounts) (status int) {
	t.Helper()
	usd := dynalimit.DailyMoneyQuota("usd", 1_000_000, "UTC")
	usd.PerModel = true
	limiter := dynalimittest.New(t, usd, dynalimit.PerMinute("tpm", 1_000_000))
	guard, err := llm.New(&llm.Options{Limiter: limiter, Limits: map[string]llm.Measure{"usd": llm.Cost(prices), "tpm": llm.TotalTokens}})
	require.NoError(t, err)
	transport, err := llmhttp.NewTransport(answer, guard, &llmhttp.Options{Models: models})
	require.NoError(t, err)
	w := &world{T: t, url: "http://provider"}
	res, err := transport.RoundTrip(w.request(t.Context(), path, body))
	require.NoError(t, err)
	_ = read(t, res)
	require.NoError(t, res.Body.Close())
	require.NoError(t, transport.Close(t.Context()))
	limiter.AssertTaken("ana", "m", want)
	return res.StatusCode
}

// TestEachModelOfAnAnswerHasItsPrice, whole and streamed: m costs a dollar and five for a million
// tokens, twice as much in the US and four times with more than 2,000 tokens of input, big ten times
// as much, and nobody knows what the stranger does.
func TestEachModelOfAnAnswerHasItsPrice(t *testing.T) {
	rates := func(input int64) prices.Rates {
		return prices.Rates{Input: input, Output: 5 * input, CacheRead: input / 10, CacheWrite1h: 2 * input}
	}
	prices := prices.List{Calls: map[string]prices.CallPrice{
		"m":   {Rates: rates(1_000_000), Variants: []prices.CallRates{{Tier: "us", Rates: rates(2_000_000)}, {Above: 2_000, Rates: rates(4_000_000)}}},
		"big": {Rates: rates(10_000_000)},
	}}
	const own = `{"type":"message","model":"m","input_tokens":1000,"output_tokens":100},`
	for _, c := range []struct {
		name, place, iterations string
		tokens, micros          int64
	}{
		{"a loop of tools", "global", own + `{"type":"message","model":"m","input_tokens":1000,"output_tokens":100}`, 1_100, 1_500},
		{"a compaction", "global", own + `{"type":"compaction","input_tokens":1500,"output_tokens":200}`, 2_800, 1_500 + 2_500},
		{"a cached compaction", "global", own + `{"type":"compaction","output_tokens":0,"cache_read_input_tokens":100,"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_1h_input_tokens":300}}`, 1_500, 1_500 + 10 + 600},
		{"two advisors' advice", "global", own + `{"type":"advisor_message","model":"big","input_tokens":100,"output_tokens":10},{"type":"advisor_message","model":"big","input_tokens":7,"output_tokens":1}`, 1_218, 1_500 + 1_500 + 120},
		{"an advisor by the operator's name", "global", own + `{"type":"advisor_message","model":"wire-big","input_tokens":100,"output_tokens":10}`, 1_210, 1_500 + 1_500},
		{"an advisor without a price", "global", own + `{"type":"advisor_message","model":"stranger","input_tokens":100,"output_tokens":10}`, 1_210, 1_500 + 150},
		{"an advisor without a price in the US", "us", own + `{"type":"advisor_message","model":"big","input_tokens":100,"output_tokens":10}`, 1_210, 3_000 + 1_500},
		{"declined before a token", "global", `{"type":"message","model":"m","input_tokens":1200,"output_tokens":0},{"type":"fallback_message","model":"big","input_tokens":1000,"output_tokens":100}`, 1_100, 15_000},
		{"declined in the middle", "global", `{"type":"message","model":"m","input_tokens":1200,"output_tokens":10},{"type":"message","model":"big","input_tokens":500,"output_tokens":50},{"type":"fallback_message","model":"big","input_tokens":500,"output_tokens":50}`, 2_310, 15_000 + 1_250},
		{"more models than an answer has", "global", own + strangers(20), 1_100 + 20*110, 1_500 + 20*150},
		{"declined before", "global", `{"type":"fallback_message","model":"big","input_tokens":1000,"output_tokens":100}`, 1_100, 15_000},
	} {
		start := `"input_tokens":1000,"service_tier":"standard","inference_geo":"` + c.place + `"`
		body := `{"model":"m","max_tokens":1000,"service_tier":"standard_only","inference_geo":"` + c.place + `"}`
		end := `"output_tokens":100,"iterations":[` + c.iterations + `]`
		for name, answer := range map[string]canned{
			"whole": {jsonType, `{"usage":{` + start + `,` + end + `}}`},
			"streamed": {sseType, sse(`{"type":"message_start","message":{"usage":{`+start+`,"output_tokens":1}}}`,
				`{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":1,"iterations":[`+own+`{"type":"compaction","input_tokens":9,"output_tokens":9}]}}`,
				`{"type":"message_delta","usage":{"iterations":[{"type":"compaction","input_tokens":8`, // breaks off
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{`+end+`}}`, `{"type":"message_stop"}`)},
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				assert.Equal(t, 200, paid(t, prices, answer, claudePath, body, dynalimit.Amounts{"usd": c.micros, "tpm": c.tokens}))
			})
		}
	}
}

// TestGeminisSearchesAreBilled: each query once, and empty ones not; until Gemini 2.5 one for the call.
func TestGeminisSearchesAreBilled(t *testing.T) {
	prices := prices.List{Calls: map[string]prices.CallPrice{"m": {
		Rates: prices.Rates{Input: 1_000_000, Output: 1_000_000}, Tools: map[string]int64{"web_search": 14_000},
	}}}
	const first, rest = `"groundingMetadata":{"webSearchQueries":["a",""]}`, `"groundingMetadata":{"webSearchQueries":["a","b"]}`
	const usage = `"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":10}`
	for model, micros := range map[string]int64{"gemini-3.5-flash": 28_020, "gemini-2.5-flash": 14_020} {
		for method, answer := range map[string]canned{
			"generateContent":               {jsonType, `{"candidates":[{` + rest + `}],` + usage + `}`},
			"streamGenerateContent?alt=sse": {sseType, sse(`{"candidates":[{`+first+`}]}`, `{"candidates":[{`+rest+`,"finishReason":"STOP"}],`+usage+`}`)},
		} {
			t.Run(model+" "+method, func(t *testing.T) {
				path, body := "/v1beta/models/"+model+":"+method, `{"contents":[],"generationConfig":{"maxOutputTokens":100}}`
				assert.Equal(t, 200, paid(t, prices, answer, path, body, dynalimit.Amounts{"usd": micros, "tpm": 20}))
			})
		}
	}
}

// strangers are advisors of which none has a price.
func strangers(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"type":"advisor_message","model":"stranger-%d","input_tokens":100,"output_tokens":10}`, i)
	}
	return strings.Join(all, ",")
}
