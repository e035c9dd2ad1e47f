package llmhttp_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

func chunk(json string) string {
	return frame("event", "chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(json))+`","p":"abc"}`)
}

// recorded are answers as the providers document them, and what they say was used.
var recorded = []struct {
	name, path, request, kind, answer string
	header                            []string
	want                              llm.Usage
}{
	{
		name: "OpenAI chat", path: "/v1/chat/completions", request: `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"Hi"}]}`,
		kind:   jsonType,
		answer: `{"id":"c","model":"m","choices":[{"message":{"content":"Hello"}}],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":40,"audio_tokens":3}},"service_tier":"priority"}`,
		want:   llm.Usage{Tokens: tokens{Input: 60, CacheRead: 40, Output: 7}},
	},
	{
		name: "OpenAI chat, streamed", path: "/openai/deployments/m/chat/completions", request: `{"model":"other","stream":true,"stream_options":{"include_usage":true}}`,
		kind: sseType,
		answer: sse(`{"choices":[{"delta":{"content":"Hel"}}],"usage":null}`, `{"choices":[{"delta":{"content":"lo"}}],"usage":null}`,
			`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, "[DONE]"),
		want: llm.Usage{Tokens: tokens{Input: 9, Output: 2}},
	},
	{
		name: "OpenAI responses", path: "/v1/responses", request: `{"model":"m","input":"Hi"}`, kind: jsonType,
		answer: `{"object":"response","error":null,"model":"m","usage":{"input_tokens":30,"output_tokens":4,"input_tokens_details":{"cached_tokens":10,"cache_write_tokens":5}},"tool_usage":{"image_gen":{"input_tokens":2,"output_tokens":3},"web_search":{"num_requests":0}}}`,
		want:   llm.Usage{Tokens: tokens{Input: 17, CacheRead: 10, CacheWrite5m: 5, Output: 7}},
	},
	{
		name: "OpenAI responses, streamed", path: "/v1/responses", request: `{"model":"m","input":"Hi","stream":true}`, kind: sseType,
		answer: "event: response.created\n" + sse(`{"type":"response.created","response":{"usage":null}}`) +
			"event: response.output_text.delta\n" + sse(`{"type":"response.output_text.delta","delta":"Hello"}`) +
			"event: response.completed\n" + sse(`{"type":"response.completed","response":{"usage":{"input_tokens":8,"output_tokens":3}}}`),
		want: llm.Usage{Tokens: tokens{Input: 8, Output: 3}},
	},
	{
		name: "OpenAI embeddings", path: "/v1/embeddings", request: `{"model":"m","input":["a","b"]}`, kind: jsonType,
		answer: `{"object":"list","data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":5,"total_tokens":5}}`,
		want:   llm.Usage{Tokens: tokens{Input: 5}},
	},
	{
		name: "Anthropic", path: "/v1/messages", request: `{"model":"m","max_tokens":100,"messages":[]}`, kind: jsonType,
		answer: `{"type":"message","model":"m","usage":{"input_tokens":10,"output_tokens":20,"cache_read_input_tokens":3,"cache_creation_input_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":5},"iterations":[{"type":"compaction","input_tokens":100,"output_tokens":50},{"type":"message","input_tokens":10,"output_tokens":20}]}}`,
		want:   llm.Usage{Tokens: tokens{Input: 110, CacheRead: 3, CacheWrite5m: 2, CacheWrite1h: 5, Output: 70}},
	},
	{
		name: "Anthropic, streamed", path: "/v1/messages", request: `{"model":"m","max_tokens":100,"stream":true}`, kind: sseType,
		answer: "event: message_start\n" + sse(`{"type":"message_start","message":{"model":"m","usage":{"input_tokens":10,"output_tokens":1,"cache_creation_input_tokens":6,"cache_creation":{"ephemeral_1h_input_tokens":6}}}}`) +
			"event: ping\n" + sse(`{"type":"ping"}`) +
			"event: content_block_delta\n" + sse(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hello"}}`) +
			"event: message_delta\n" + sse(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":10,"output_tokens":12,"cache_creation_input_tokens":6}}`) +
			"event: message_stop\n" + sse(`{"type":"message_stop"}`),
		want: llm.Usage{Tokens: tokens{Input: 10, CacheWrite1h: 6, Output: 12}},
	},
	{
		name: "Anthropic on Vertex", path: "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", request: `{"anthropic_version":"vertex-2023-10-16","max_tokens":9}`,
		kind: jsonType, answer: `{"usage":{"input_tokens":1,"output_tokens":2}}`,
		want: llm.Usage{Tokens: tokens{Input: 1, Output: 2}},
	},
	{
		name: "Bedrock converse", path: "/model/arn%3Aaws%3Abedrock%3Am%2Fus.m/converse", request: `{"messages":[],"inferenceConfig":{"maxTokens":10}}`, kind: jsonType,
		answer: `{"output":{},"usage":{"inputTokens":11,"outputTokens":5,"totalTokens":16,"cacheReadInputTokens":2,"cacheWriteInputTokens":9,"cacheDetails":[{"ttl":"1h","inputTokens":4},{"ttl":"5m","inputTokens":5}]}}`,
		want:   llm.Usage{Tokens: tokens{Input: 11, CacheRead: 2, CacheWrite5m: 5, CacheWrite1h: 4, Output: 5}},
	},
	{
		name: "Bedrock converse, streamed", path: "/model/us.m:0/converse-stream", request: `{"messages":[]}`, kind: awsType,
		answer: frame("event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hello"}}`) + frame("event", "messageStop", `{"stopReason":"end_turn"}`) +
			frame("event", "metadata", `{"usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7},"metrics":{"latencyMs":1}}`),
		want: llm.Usage{Tokens: tokens{Input: 3, Output: 4}},
	},
	{
		name: "Bedrock invoke, counts in headers", path: "/model/us.m:0/invoke", request: `{"prompt":"x","max_gen_len":3}`, kind: jsonType,
		answer: `{"results":[]}`, header: []string{"X-Amzn-Bedrock-Input-Token-Count", "6", "X-Amzn-Bedrock-Output-Token-Count", "2"},
		want: llm.Usage{Tokens: tokens{Input: 6, Output: 2}},
	},
	{
		name: "Bedrock invoke, streamed", path: "/model/us.m:0/invoke-with-response-stream", request: `{"max_tokens":3}`, kind: awsType,
		answer: chunk(`{"type":"message_start","message":{"usage":{"input_tokens":4,"output_tokens":1}}}`) + chunk(`{"type":"content_block_delta","delta":{"text":"Hello there"}}`) +
			chunk(`{"type":"message_delta","usage":{"output_tokens":9}}`) +
			chunk(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":4,"outputTokenCount":9,"invocationLatency":1}}`),
		want: llm.Usage{Tokens: tokens{Input: 4, Output: 9}},
	},
	{
		name: "Gemini", path: "/v1beta/models/m:generateContent", request: `{"contents":[],"generation_config":{"max_output_tokens":8}}`, kind: jsonType,
		answer: `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":5,"thoughtsTokenCount":6,"toolUsePromptTokenCount":2,"cachedContentTokenCount":8,"totalTokenCount":33}}`,
		want:   llm.Usage{Tokens: tokens{Input: 14, CacheRead: 8, Output: 11}},
	},
	{
		name: "Gemini, streamed", path: "/v1beta1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse", request: `{"contents":[]}`, kind: sseType,
		answer: sse(`{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1,"totalTokenCount":6}}`,
			`{"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"totalTokenCount":8}}`),
		want: llm.Usage{Tokens: tokens{Input: 5, Output: 3}},
	},
	{
		name: "Gemini, streamed as an array", path: "/v1beta/models/m:streamGenerateContent", request: `{"contents":[]}`, kind: jsonType,
		answer: `[{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}},{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3}}]`,
		want:   llm.Usage{Tokens: tokens{Input: 5, Output: 3}},
	},
}

func TestWhatIsSettledIsWhatTheProviderSaid(t *testing.T) {
	for _, c := range recorded {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, llmhttp.Options{}, replies(c.kind, c.answer, c.header...))
			status, answer := w.call(c.path, c.request)
			require.Equal(t, 200, status, answer)
			assert.Equal(t, c.answer, answer, "the answer passes as it is")
			s := w.end()
			require.NoError(t, s.Err)
			assert.Equal(t, c.want.Tokens, s.Tokens)
			assert.Equal(t, llm.Reported, s.Source)
			sum, _ := llm.TotalTokens(c.want)
			w.limiter.AssertTaken("ana", "m", map[string]int64{"rpm": 1, "tpm": sum})
		})
	}
}

// TestEachDenialOfAStormIsFound has all of them answered before the first is looked for.
func TestEachDenialOfAStormIsFound(t *testing.T) {
	const calls = 5_000
	w := newWorld(t, llmhttp.Options{}, nil)
	w.limiter.Exhaust("ana", "m")
	texts := make([]string, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			res, err := w.transport.RoundTrip(w.request(t.Context(), chatPath, chatBody))
			if assert.NoError(t, err) {
				texts[i] = read(t, res)
				assert.NoError(t, res.Body.Close())
			}
		})
	}
	all.Wait()
	for _, text := range texts {
		denial, ok := llmhttp.DenialOf(errors.New(text))
		require.True(t, ok)
		exceeded, ok := errors.AsType[*dynalimit.LimitExceededError](denial)
		require.True(t, ok)
		require.Equal(t, "ana", exceeded.EntityID)
		require.Equal(t, "rpm", exceeded.Primary().Limit.Name)
		require.Positive(t, denial.RetryAfter)
	}
}

// TestAMarkHidesTheNamesOfOthers: a call is denied by the limit of its team, whose name the client of a
// gateway must not read.
func TestAMarkHidesTheNamesOfOthers(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil)
	settings := admin.New(w.limiter.Repo)
	require.NoError(t, settings.Entities.Create(t.Context(), admin.Entity{ID: "team-secret"}))
	require.NoError(t, settings.Entities.Create(t.Context(), admin.Entity{ID: "bob", ParentID: "team-secret", Cascade: true}))
	w.limiter.Exhaust("team-secret", "m")
	r := w.request(t.Context(), chatPath, chatBody)
	res, err := w.transport.RoundTrip(r.WithContext(llmhttp.WithCaller(t.Context(), llmhttp.Caller{Entity: "bob"})))
	require.NoError(t, err)
	body := read(t, res)
	require.NoError(t, res.Body.Close())
	told := fmt.Sprint(res.Header, body)
	assert.NotContains(t, told, "bob")
	assert.NotContains(t, told, "team-secret")
	denial, ok := llmhttp.DenialOf(errors.New(body))
	require.True(t, ok)
	exceeded, ok := errors.AsType[*dynalimit.LimitExceededError](denial)
	require.True(t, ok)
	assert.Equal(t, "team-secret", exceeded.Primary().EntityID)
}

// TestAnOpenStreamHoldsNoPrompt: a gateway has thousands of streams open, and long prompts.
func TestAnOpenStreamHoldsNoPrompt(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil, dynalimit.PerMinute("tpm", 1_000_000_000))
	transport, err := llmhttp.NewTransport(canned{sseType, sse("[DONE]")}, w.guard, &llmhttp.Options{Models: models})
	require.NoError(t, err)
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // fits
	}
	body := strings.Replace(chatBody, "{", `{"stream":true,"user":"`+strings.Repeat("x", 1<<20)+`",`, 1)
	var open [8]*http.Response
	before := live()
	for i := range open {
		r := w.request(t.Context(), chatPath, body)
		r.GetBody = nil                       // as a server's
		open[i], err = transport.RoundTrip(r) //nolint:bodyclose // below
		require.NoError(t, err)
		require.Equal(t, 200, open[i].StatusCode)
	}
	assert.Less(t, live()-before, int64(1<<20))
	for _, res := range open {
		require.NoError(t, res.Body.Close())
	}
}

// TestARequestThatMayHaveRunIsSentOnce: the provider takes a request from a kept connection, and breaks it.
// net/http sends a POST with an idempotency key again, of one lease. Without one it does not.
func TestARequestThatMayHaveRunIsSentOnce(t *testing.T) {
	for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
		t.Run(key, func(t *testing.T) {
			breaks := false
			w := newWorld(t, llmhttp.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				if breaks {
					panic(http.ErrAbortHandler)
				}
				breaks = true
				replies(jsonType, `{"usage":{"prompt_tokens":1000,"completion_tokens":10}}`)(rw, r)
			})
			status, _ := w.call(chatPath, chatBody)
			require.Equal(t, 200, status)
			r := w.request(t.Context(), chatPath, chatBody)
			if key != "" {
				r.Header.Set(key, "k-1")
			}
			res, err := w.client.Do(r)
			if err == nil {
				require.NoError(t, res.Body.Close())
			}
			require.Error(t, err)
			assert.Equal(t, 2, w.arrived())
			assert.Equal(t, r.Header.Get(key), w.headers[1].Get(key), "the provider has the key all the same")
			ends := w.ends()
			require.Len(t, ends, 2)
			assert.Equal(t, llm.StatusError, ends[1].Status)
			assert.Equal(t, ends[1].Request.Estimate.InputTokens, ends[1].Tokens.Input, "it may be billed")
		})
	}
}

// bank is a transport whose calls are limited in money, a million dollars a day of "ana" on "m".
type bank struct {
	*world
	limiter *dynalimittest.Limiter
	settled llm.Settled // the last call
	passed  int         // how many requests the provider has seen
	answer  http.RoundTripper
}

func newBank(t *testing.T, prices llm.Prices, o llmhttp.Options, answer http.RoundTripper) *bank {
	t.Helper()
	usd := dynalimit.DailyMoneyQuota("usd", 1_000_000_000_000, "UTC")
	usd.PerModel = true
	b := &bank{limiter: dynalimittest.New(t, usd), answer: answer}
	guard, err := llm.New(&llm.Options{
		Limiter: b.limiter, Limits: map[string]llm.Measure{"usd": llm.Cost(prices)}, OnSettled: func(s llm.Settled) { b.settled = s },
	})
	require.NoError(t, err)
	if o.Models == nil {
		o.Models = models
	}
	transport, err := llmhttp.NewTransport(b, guard, &o)
	require.NoError(t, err)
	b.world = &world{T: t, url: "http://provider", guard: guard, transport: transport, client: &http.Client{Transport: transport}}
	return b
}

// RoundTrip is the provider's.
func (b *bank) RoundTrip(r *http.Request) (*http.Response, error) {
	b.passed++
	return b.answer.RoundTrip(r)
}

// pay makes a call, and returns what was charged, in micro-dollars.
func (b *bank) pay(path, body string, header ...string) (status int, micros int64) {
	b.Helper()
	b.settled = llm.Settled{}
	status, _ = b.call(path, body, header...)
	require.NoError(b, b.transport.Close(b.Context()))
	return status, b.settled.CostMicros
}

// holding answers with an empty value once it has looked at what is held.
type holding struct {
	*bank
	held int64
}

func (h *holding) RoundTrip(r *http.Request) (*http.Response, error) {
	h.held = h.limiter.Taken("ana", "m")["usd"]
	return canned{jsonType, "{}"}.RoundTrip(r)
}

// heldFor is how much money is held for a request, in micro-dollars.
func heldFor(t *testing.T, prices llm.Prices, o llmhttp.Options, path, body string) int64 {
	t.Helper()
	h := &holding{}
	h.bank = newBank(t, prices, o, h)
	status, answer := h.call(path, body)
	require.Equal(t, 200, status, answer)
	return h.held
}
