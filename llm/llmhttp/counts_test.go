package llmhttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/prices"
)

const responsesPath, flashPath, titanPath = "/v1/responses", "/v1beta/models/m:generateContent", "/model/titan-embed/invoke"

// TestCountsAreHeldAgainstEachOther has usages in which one count says what another leaves out, or says
// it again.
func TestCountsAreHeldAgainstEachOther(t *testing.T) {
	claude := func(usage ...string) canned {
		events := []string{`{"type":"message_start","message":{"usage":{"input_tokens":5000,"cache_read_input_tokens":3000,"output_tokens":1}}}`}
		for _, u := range usage {
			events = append(events, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{`+u+`}}`)
		}
		return canned{sseType, sse(append(events, `{"type":"message_stop"}`)...)}
	}
	chat := func(usage string) canned { return canned{jsonType, `{"usage":{` + usage + `}}`} }
	gemini := func(usage string) canned { return canned{jsonType, `{"usageMetadata":{` + usage + `}}`} }
	converse := func(usage string) canned {
		return canned{jsonType, `{"usage":{"inputTokens":10,"outputTokens":5,` + usage + `}}`}
	}
	for _, c := range []struct {
		name, path string
		answer     canned
		want       tokens
	}{
		{"a total has reasoning", chatPath, chat(`"prompt_tokens":1000,"completion_tokens":100,"total_tokens":4100`), tokens{Input: 1000, Output: 3100}},
		{"a total of the sum", chatPath, chat(`"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100`), tokens{Input: 1000, Output: 100}},
		{"a total below the sum", chatPath, chat(`"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1099`), tokens{Input: 1000, Output: 100}},
		{"a total of 0", chatPath, chat(`"prompt_tokens":1000,"completion_tokens":100,"total_tokens":0`), tokens{Input: 1000, Output: 100}},
		{"a total, and no reply", chatPath, chat(`"prompt_tokens":1000,"total_tokens":1100`), tokens{Input: 1000, Output: 100}},
		{
			"a total of a Response, and a tool's own tokens", responsesPath,
			canned{jsonType, `{"tool_usage":{"image_gen":{"input_tokens":7,"output_tokens":30}},"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":20}}`},
			tokens{Input: 17, Output: 40},
		},
		{"thoughts beside the reply", flashPath, gemini(`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":3,"totalTokenCount":18`), tokens{Input: 10, Output: 8}},
		{"thoughts in the reply", flashPath, gemini(`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":3,"totalTokenCount":15`), tokens{Input: 10, Output: 5}},
		{"thoughts without a total", flashPath, gemini(`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":3`), tokens{Input: 10, Output: 8}},
		{"thoughts that only the total has", flashPath, gemini(`"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":99`), tokens{Input: 10, Output: 89}},
		{
			"thoughts, a tool's results and a total without those", flashPath,
			gemini(`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":3,"toolUsePromptTokenCount":100,"totalTokenCount":18`),
			tokens{Input: 110, Output: 8},
		},
		{"a total that has the cache", conversePath, converse(`"cacheReadInputTokens":100,"totalTokens":115`), tokens{Input: 10, CacheRead: 100, Output: 5}},
		{"a total without the cache", conversePath, converse(`"cacheReadInputTokens":100,"totalTokens":15`), tokens{Input: 10, CacheRead: 100, Output: 5}},
		{"counts that fall to 0", claudePath, claude(`"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":100`), tokens{Input: 5000, CacheRead: 3000, Output: 100}},
		{"counts that rise", claudePath, claude(`"output_tokens":40`, `"input_tokens":5010,"cache_read_input_tokens":3700,"output_tokens":100`), tokens{Input: 5010, CacheRead: 3700, Output: 100}},
		{
			"an empty list of iterations behind one", claudePath,
			claude(`"iterations":[{"type":"compaction","input_tokens":7,"output_tokens":2}],"output_tokens":100`, `"iterations":[],"output_tokens":100`),
			tokens{Input: 5007, CacheRead: 3000, Output: 102},
		},
		{
			"an empty list of writes behind one", "/model/us.m:0/converse-stream",
			canned{awsType, frame("event", "metadata", `{"usage":{"inputTokens":1,"outputTokens":2,"cacheWriteInputTokens":9,"cacheDetails":[{"ttl":"1h","inputTokens":4},{"ttl":"1h","inputTokens":3}]}}`) +
				frame("event", "metadata", `{"usage":{"cacheDetails":[]}}`)},
			tokens{Input: 1, Output: 2, CacheWrite5m: 2, CacheWrite1h: 7},
		},
		{
			"an hour's writes, as LiteLLM tells them", chatPath,
			chat(`"prompt_tokens":100,"completion_tokens":1,"total_tokens":101,"prompt_tokens_details":{"cached_tokens":10,"cache_creation_tokens":50,"cache_creation_token_details":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30}}`),
			tokens{Input: 40, CacheRead: 10, CacheWrite5m: 20, CacheWrite1h: 30, Output: 1},
		},
		{
			"twelve hours' writes", chatPath,
			chat(`"prompt_tokens":100,"completion_tokens":1,"total_tokens":101,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":50,"cache_write_tokens_details":{"ttl_30m_tokens":20,"ttl_12h_tokens":30}}`),
			tokens{Input: 40, CacheRead: 10, CacheWrite5m: 20, CacheWrite1h: 30, Output: 1},
		},
		{"no usage but zeros", chatPath, chat(`"prompt_tokens":0,"completion_tokens":0,"total_tokens":0`), tokens{Input: 11, Output: 50}},
		{"embeddings, whose input Bedrock tells", titanPath, canned{jsonType, `{"embedding":[0.1],"inputTextTokenCount":4000}`}, tokens{Input: 4000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, llmhttp.Options{}, nil)
			transport, err := llmhttp.NewTransport(c.answer, w.guard, &llmhttp.Options{Models: llmhttp.Models{"m": {}, "us.m:0": {}, "titan-embed": {}}})
			require.NoError(t, err)
			res, err := transport.RoundTrip(w.request(t.Context(), c.path, `{"model":"m","max_tokens":50}`))
			require.NoError(t, err)
			assert.Equal(t, 200, res.StatusCode, read(t, res))
			require.NoError(t, res.Body.Close())
			assert.Equal(t, c.want, w.end().Tokens)
		})
	}
}

// TestPartsAreCountedAtAnyDepth: what a body does not show is estimated wherever it may stand.
func TestPartsAreCountedAtAnyDepth(t *testing.T) {
	const each = 7_777
	responses := func(input string) string { return `{"model":"m","max_output_tokens":1,"input":[` + input + `]}` }
	claude := func(content string) string {
		return `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[` + content + `]}]}`
	}
	gemini := func(rest string) string { return `{"generationConfig":{"maxOutputTokens":1},` + rest + `}` }
	converse := func(content string) string {
		return `{"inferenceConfig":{"maxTokens":1},"messages":[{"content":[` + content + `]}]}`
	}
	base64 := strings.Repeat("QUJD", 10)
	for _, c := range []struct {
		name, path, body string
		parts            int64
	}{
		{"no part", chatPath, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"file_id image_url"}]}`, 0},
		{"a schema with such names", chatPath, `{"model":"m","max_tokens":1,"tools":[{"type":"function","function":{"parameters":{"properties":{"file_id":{"type":"string"},"image_url":{"type":"string"}}}}}]}`, 0},
		{"a picture", chatPath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"image_url":{"url":"https://x"}}]}]}`, 1},
		{"a picture in a tool's result", chatPath, `{"model":"m","max_tokens":1,"messages":[{"role":"tool","content":[{"type":"image_url","image_url":{"url":"https://x"}},{"image_url":"https://y"}]}]}`, 2},
		{"a file", chatPath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"file":{"file_id":"f"}},{"file":{"file_data":"data:x;base64,` + base64 + `"}}]}]}`, 2},
		{"an answer's sound", chatPath, `{"model":"m","max_tokens":1,"messages":[{"audio":{"id":"a"}}]}`, 1},
		{"a picture in a function's output", responsesPath, responses(`{"type":"function_call_output","output":[{"image_url":"https://x"},{"file_id":"f"},{"file_url":"https://x"}]}`), 3},
		{"a screenshot", responsesPath, responses(`{"type":"computer_call_output","output":{"type":"computer_screenshot","file_id":"f"}}`), 1},
		{"items by their ids", responsesPath, responses(`{"type":"item_reference","id":"i"},{"id":"j"},{"type":"message","id":"k","content":"x"}`), 2},
		{"an earlier response", responsesPath, `{"model":"m","max_output_tokens":1,"previous_response_id":"r","input":"x"}`, 1},
		{"a file in a document", claudePath, claude(`{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}}`), 1},
		{"a container's file", claudePath, claude(`{"type":"container_upload","file_id":"f"}`), 1},
		{"a picture in a result", claudePath, claude(`{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","data":"` + base64 + `"}},{"source":{"file_id":"f"}}]}`), 2},
		{"a picture in a tool's result at Bedrock", conversePath, converse(`{"toolResult":{"content":[{"image":{"source":{"s3Location":{"uri":"s3://b/k"}}}},{"document":{"source":{"bytes":"` + base64 + `"}}}]}}`), 2},
		{"a video", conversePath, converse(`{"video":{"source":{"s3Location":{"uri":"s3://b/k"}}}}`), 1},
		{"a file in the system's instruction", geminiPath, gemini(`"systemInstruction":{"parts":[{"fileData":{"fileUri":"gs://x"}}]},"contents":[]`), 1},
		{"a file in a function's response", geminiPath, gemini(`"contents":[{"parts":[{"functionResponse":{"parts":[{"file_data":{"file_uri":"gs://x"}},{"inline_data":{"data":"` + base64 + `"}}]}}]}]`), 2},
		{"a cached content", geminiPath, gemini(`"cached_content":"cachedContents/x","contents":[]`), 1},
		{"a page of the web", geminiPath, gemini(`"tools":{"urlContext":{}},"contents":[]`), 20},
		{"five searches", claudePath, `{"model":"m","max_tokens":1,"messages":[],"tools":[{"type":"web_search_20250305","max_uses":5}]}`, 5},
		{"five pages", claudePath, `{"model":"m","max_tokens":1,"messages":[],"tools":[{"type":"web_fetch_20250910","max_uses":2},{"type":"web_fetch_20260209","max_uses":3}]}`, 5},
		{"five uses of all tools", responsesPath, `{"model":"m","max_output_tokens":1,"max_tool_calls":5,"input":"x","tools":[{"type":"web_search"}]}`, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e llm.Estimate
			heldFor(t, searchFor(0), llmhttp.Options{Unmetered: each, Estimate: func(_ *http.Request, r llm.Request) llm.Estimate {
				e = r.Estimate
				return e
			}}, c.path, c.body)
			assert.Equal(t, c.parts*each, e.AddedTokens)
		})
	}
}

// TestAnHourInTheCacheIsHeldAtAnyDepth: writes for an hour cost two micro-dollars, others 1.25.
func TestAnHourInTheCacheIsHeldAtAnyDepth(t *testing.T) {
	for _, c := range []struct {
		path, body string
		hour       bool
	}{
		{claudePath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"content":[{"cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}]}`, true},
		{claudePath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"content":[{"cache_control":{"type":"ephemeral","ttl":"5m"}}]}]}]}`, false},
		{conversePath, `{"inferenceConfig":{"maxTokens":1},"messages":[{"content":[{"toolResult":{"content":[{"cachePoint":{"ttl":"1h"}}]}}]}]}`, true},
		{responsesPath, `{"model":"m","max_output_tokens":1,"prompt_cache_options":{"ttl":"12h"},"input":"a long text"}`, true},
		{responsesPath, `{"model":"m","max_output_tokens":1,"prompt_cache_options":{"ttl":"30m"},"input":"a long text"}`, false},
		{chatPath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"text":"x","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}]}]}`, true},
		{chatPath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"text":"x","prompt_cache_breakpoint":{"mode":"explicit","ttl":"30m"}}]}]}`, false},
	} {
		held := heldFor(t, searchFor(0), llmhttp.Options{}, c.path, c.body)
		assert.Equal(t, c.hour, held >= 2*1_000, c.body)
	}
}

// searchFor has a model m of a micro-dollar a token, and of so many for a search.
func searchFor(micros int64) prices.List {
	rates := prices.Rates{Input: 1_000_000, Output: 1_000_000, CacheRead: 100_000, CacheWrite5m: 1_250_000, CacheWrite1h: 2_000_000}
	price := prices.CallPrice{Rates: rates, Tools: map[string]int64{"web_search": micros}}
	return prices.List{Calls: map[string]prices.CallPrice{"m": price, "us.m:0": price}}
}

// tiered has a model m that costs a micro-dollar a token, two with priority and half as much as flex.
func tiered() prices.List {
	rates := func(input int64) prices.Rates {
		return prices.Rates{Input: input, Output: input, CacheRead: prices.FreeRate, CacheWrite5m: prices.FreeRate}
	}
	price := prices.CallPrice{Rates: rates(1_000_000), Variants: []prices.CallRates{
		{Tier: "priority", Rates: rates(2_000_000)}, {Tier: "flex", Rates: rates(500_000)},
	}}
	return prices.List{Calls: map[string]prices.CallPrice{"m": price, "us.m:0": price}}
}

// TestTheTierIsTheOneThatServed: else the one that was asked for, else the model's, else the standard one.
// Each answer has a thousand tokens.
func TestTheTierIsTheOneThatServed(t *testing.T) {
	chat := func(rest string) canned {
		return canned{jsonType, `{` + rest + `"usage":{"prompt_tokens":900,"completion_tokens":100}}`}
	}
	gemini := func(rest string) canned {
		return canned{jsonType, `{"usageMetadata":{` + rest + `"promptTokenCount":900,"candidatesTokenCount":100}}`}
	}
	aws := func(rest string) canned {
		return canned{jsonType, `{` + rest + `"usage":{"inputTokens":900,"outputTokens":100}}`}
	}
	const header, vertex = "X-Amzn-Bedrock-Service-Tier", "X-Vertex-AI-LLM-Shared-Request-Type"
	for _, c := range []struct {
		name, path, asks string
		header           []string
		answer           http.RoundTripper
		ofModel          string
		micros           int64
	}{
		{"nobody says", chatPath, ``, nil, chat(``), "", 1_000},
		{"auto", chatPath, `,"service_tier":"auto"`, nil, chat(`"service_tier":"auto",`), "", 1_000},
		{"the model's", chatPath, ``, nil, chat(``), "priority", 2_000},
		{"the model's, by auto", chatPath, `,"service_tier":"auto"`, nil, chat(``), "priority", 2_000},
		{"another is asked for", chatPath, `,"service_tier":"default"`, nil, chat(``), "priority", 1_000},
		{"another served than the model's", chatPath, ``, nil, chat(`"service_tier":"default",`), "priority", 1_000},
		{"a dearer one served unasked", chatPath, ``, nil, chat(`"service_tier":"priority",`), "", 2_000},
		{"one that has no price", chatPath, ``, nil, chat(`"service_tier":"scale",`), "", 2_000},
		{"asked for, and not told", chatPath, `,"service_tier":"flex"`, nil, chat(``), "", 500},
		{"LiteLLM's", chatPath, ``, nil, canned{jsonType, `{"usage":{"prompt_tokens":900,"completion_tokens":100,"service_tier":"priority"}}`}, "", 2_000},
		{"the standard mode of reasoning", responsesPath, `,"reasoning":{"mode":"standard"},"multi_agent":{"enabled":false}`, nil, canned{jsonType, `{"service_tier":"default","reasoning":{"mode":"standard"},"usage":{"input_tokens":900,"output_tokens":100}}`}, "", 1_000},
		{"a mode of reasoning without a price", responsesPath, ``, nil, canned{jsonType, `{"service_tier":"default","reasoning":{"mode":"pro"},"usage":{"input_tokens":900,"output_tokens":100}}`}, "", 2_000},
		{"Gemini says nothing", geminiPath, ``, nil, gemini(``), "", 1_000},
		{"Gemini is asked", geminiPath, `,"serviceTier":"flex"`, nil, gemini(``), "", 500},
		{"Gemini is asked, spelled otherwise", geminiPath, `,"service_tier":"PRIORITY"`, nil, gemini(``), "", 2_000},
		{"Gemini tells", geminiPath, ``, nil, gemini(`"serviceTier":"priority","trafficType":"ON_DEMAND",`), "", 2_000},
		{"Gemini tells the standard one", geminiPath, ``, nil, gemini(`"serviceTier":"standard",`), "priority", 1_000},
		{"Gemini does not know", geminiPath, ``, nil, gemini(`"serviceTier":"unspecified","trafficType":"TRAFFIC_TYPE_UNSPECIFIED",`), "", 1_000},
		{"Gemini tells in a header", geminiPath, ``, nil, headed{"X-Gemini-Service-Tier", "flex", gemini(``)}, "", 500},
		{"Vertex is asked", geminiPath, ``, []string{vertex, "priority"}, gemini(``), "", 2_000},
		{"Vertex tells", geminiPath, ``, nil, gemini(`"trafficType":"ON_DEMAND_PRIORITY",`), "", 2_000},
		{"Vertex tells of flex", geminiPath, ``, []string{vertex, "flex"}, gemini(`"trafficType":"ON_DEMAND_FLEX",`), "", 500},
		{"Vertex tells of what is paid for", geminiPath, ``, nil, gemini(`"trafficType":"PROVISIONED_THROUGHPUT",`), "priority", 1_000},
		{"Vertex tells of what has no price", geminiPath, ``, nil, gemini(`"trafficType":"ON_DEMAND_OFFPEAK",`), "", 2_000},
		{"Converse says nothing", conversePath, ``, nil, aws(``), "", 1_000},
		{"Converse is asked", conversePath, `,"serviceTier":{"type":"flex"}`, nil, aws(``), "", 500},
		{"Converse tells", conversePath, ``, nil, aws(`"serviceTier":{"type":"priority"},`), "", 2_000},
		{"a model of Bedrock says nothing", invokePath, ``, nil, aws(``), "", 1_000},
		{"a model of Bedrock is asked", invokePath, ``, []string{header, "flex"}, aws(``), "", 500},
		{"a model of Bedrock tells", invokePath, ``, nil, headed{header, "priority", aws(``)}, "", 2_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := llmhttp.Models{"m": {Tier: c.ofModel}, "us.m:0": {Resource: "m", Tier: c.ofModel}}
			b := newBank(t, tiered(), llmhttp.Options{Models: list}, c.answer)
			status, micros := b.pay(c.path, bounded(c.path, "m", c.asks), c.header...)
			assert.Equal(t, 200, status)
			assert.Equal(t, c.micros, micros)
		})
	}
}

// bounded is a request of a reply of 5,000 tokens, in the dialect of a path.
func bounded(path, model, asks string) string {
	switch {
	case strings.HasPrefix(path, "/v1beta"):
		return `{"contents":[],"generationConfig":{"maxOutputTokens":5000}` + asks + `}`
	case strings.HasSuffix(path, "/converse"):
		return `{"messages":[],"inferenceConfig":{"maxTokens":5000}` + asks + `}`
	case strings.HasPrefix(path, responsesPath):
		return `{"model":"` + model + `","max_output_tokens":5000,"input":"x"` + asks + `}`
	case strings.HasPrefix(path, "/model/"):
		return `{"max_tokens":5000,"messages":[]` + asks + `}`
	}
	return `{"model":"` + model + `","max_tokens":5000,"messages":[]` + asks + `}`
}

// headed answers with a header more.
type headed struct {
	name, value string
	canned
}

func (h headed) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := h.canned.RoundTrip(r)
	res.Header.Set(h.name, h.value)
	return res, err
}

// TestEachVariantOfTheCatalogCanBeTold: by the dialect of its model an answer tells each tier and place
// that the catalog has a price for, and a request asks for it, and it is charged.
func TestEachVariantOfTheCatalogCanBeTold(t *testing.T) {
	list := prices.CatalogList()
	now := time.Now()
	seen := 0
	for model, call := range list.Calls {
		price, err := list.Price(model, now)
		require.NoError(t, err, model)
		for _, v := range call.Variants {
			if v.Tier == "" {
				continue
			}
			seen++
			for _, way := range waysToTell(model, v.Tier) {
				b := newBank(t, list, llmhttp.Options{Models: llmhttp.Models{model: {Resource: "m"}}}, way.answer)
				status, micros := b.pay(way.path, way.ask)
				require.Equal(t, 200, status, "%s %s", model, v.Tier)
				rates, _ := price.For(900, v.Tier)
				assert.Equal(t, (900*rates.Input+100*rates.Output+999_999)/1_000_000, micros, "%s %s %s", model, v.Tier, way.path)
			}
		}
	}
	assert.Positive(t, seen)
}

// told is a call whose answer tells a tier, or whose request asks for it.
type told struct {
	path, ask string
	answer    http.RoundTripper
}

// waysToTell are the calls of a model in which a tier can be told, of a thousand tokens.
func waysToTell(model, tier string) []told {
	const openAIUsage, claudeUsage = `"prompt_tokens":900,"completion_tokens":100`, `"input_tokens":900,"output_tokens":100`
	both := func(path, ask, tell, rest string) []told {
		return []told{
			{path, bounded(path, model, ask), canned{jsonType, fmt.Sprintf(rest, "")}},
			{path, bounded(path, model, ""), canned{jsonType, fmt.Sprintf(rest, tell)}},
		}
	}
	named := `"service_tier":"` + tier + `"`
	switch {
	case strings.HasPrefix(model, "gemini-"):
		return both("/v1beta/models/"+model+":generateContent", `,"serviceTier":"`+tier+`"`, `"serviceTier":"`+tier+`",`,
			`{"usageMetadata":{%s"promptTokenCount":900,"candidatesTokenCount":100}}`)
	case strings.HasPrefix(model, "claude-"):
		if tier != "priority" { // a place, or fast
			named = `"inference_geo":"` + tier + `"`
		}
		return both(claudePath, `,`+named, named+`,`, `{"usage":{%s`+claudeUsage+`}}`)
	case !strings.HasPrefix(model, "gpt-") && !strings.HasPrefix(model, "o"), strings.HasPrefix(model, "openai."):
		path := "/model/" + url.PathEscape(model)
		return append(both(path+"/converse", `,"serviceTier":{"type":"`+tier+`"}`, `"serviceTier":{"type":"`+tier+`"},`, `{%s"usage":{"inputTokens":900,"outputTokens":100}}`),
			told{path + "/invoke", bounded(path+"/invoke", model, ""), headed{"X-Amzn-Bedrock-Service-Tier", tier, canned{jsonType, `{"usage":{"inputTokens":900,"outputTokens":100}}`}}})
	}
	return append(both(chatPath, `,`+named, named+`,`, `{%s"usage":{`+openAIUsage+`}}`), both(responsesPath, `,`+named, named+`,`, `{%s"usage":{`+claudeUsage+`}}`)...)
}
