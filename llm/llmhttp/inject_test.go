package llmhttp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// TestTheUsageOfAStreamIsAskedFor and is taken out of what the caller reads.
func TestTheUsageOfAStreamIsAskedFor(t *testing.T) {
	text := []string{`{"choices":[{"delta":{"content":"Hel"}}],"usage":null}`, `{"choices":[{"delta":{"content":"lo"}}],"usage":null}`}
	usage := `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`
	for name, c := range map[string]struct {
		body    string
		header  []string
		count   bool
		injects bool
	}{
		"no options":    {body: `{"model":"m","stream":true}`, injects: true},
		"other options": {body: `{"stream_options": { "include_obfuscation":false},"model":"m","stream":true}`, injects: true},
		"empty options": {body: `{"stream_options":{},"model":"m","stream":true}`, injects: true},
		"null options":  {body: `{"model":"m","stream":true,"stream_options":null}`, injects: true},
		"asked":         {body: `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"asked not to":  {body: `{"model":"m","stream":true,"stream_options":{"include_usage":false}}`, injects: true},
		"asked nothing": {body: `{"model":"m","stream":true,"stream_options":{"include_usage" : null }}`, injects: true},
		"signed":        {body: `{"model":"m","stream":true}`, header: []string{"Authorization", "AWS4-HMAC-SHA256 x"}},
		"counted":       {body: `{"model":"m","stream":true}`, count: true},
		"not streamed":  {body: `{"model":"m"}`},
	} {
		t.Run(name, func(t *testing.T) {
			all := sse(text[0], text[1], usage, "[DONE]")
			w := newWorld(t, llmhttp.Options{Count: c.count}, replies(sseType, all))
			_, answer := w.call(chatPath, c.body, c.header...)
			if !c.injects {
				assert.Equal(t, c.body, w.bodies[0])
				assert.Equal(t, all, answer)
				return
			}
			assert.Equal(t, sse(text[0], text[1], "[DONE]"), answer)
			var sent struct {
				Model   string          `json:"model"`
				Options map[string]bool `json:"stream_options"`
			}
			require.NoError(t, json.Unmarshal([]byte(w.bodies[0]), &sent))
			assert.Equal(t, "m", sent.Model)
			assert.True(t, sent.Options["include_usage"])
			assert.Equal(t, tokens{Input: 9, Output: 2}, w.end().Tokens)
		})
	}
}

// choice is an event of a usage with a choice.
func choice(c string) string {
	return `data: {"choices":[` + c + `],"usage":{"prompt_tokens":9}}` + "\n\n"
}

// TestWhatIsTakenOutIsTheUsageAlone reads streams in pieces of all kinds.
func TestWhatIsTakenOutIsTheUsageAlone(t *testing.T) {
	usage := `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`
	for in, out := range map[string]string{
		usage + "\n\n":                        "",
		usage + "\r\n\r\ndata: x\r\n\r\n":     "data: x\r\n\r\n",
		"data: a\n\n" + usage + "\n\n: c\n\n": "data: a\n\n: c\n\n",
		usage + "\n":                          usage + "\n", // never whole
		choice(`{"index":0,"delta":{}}`):      "",           // of LiteLLM
		choice(`{"index":0,"delta":{"content":null},"finish_reason":null}`): "",
		choice(`{"index":0,"delta":{"content":"x"}}`):                       choice(`{"index":0,"delta":{"content":"x"}}`),
		choice(`{"index":0,"delta":{},"finish_reason":"stop"}`):             choice(`{"index":0,"delta":{},"finish_reason":"stop"}`),
		choice(`1`): choice(`1`),
		"data: " + strings.Repeat("x", 200<<10) + "\n\n" + usage + "\n\n": "data: " + strings.Repeat("x", 200<<10) + "\n\n",
		`data: {"error":{"code":"x"},"usage":{}}` + "\n\n":                `data: {"error":{"code":"x"},"usage":{}}` + "\n\n",
		"": "",
	} {
		w := newWorld(t, llmhttp.Options{}, nil)
		transport, err := llmhttp.NewTransport(canned{sseType, in}, w.guard, &llmhttp.Options{Models: models})
		require.NoError(t, err)
		res, err := transport.RoundTrip(w.request(t.Context(), chatPath, `{"model":"m","stream":true}`))
		require.NoError(t, err)
		require.NoError(t, iotest.TestReader(res.Body, []byte(out)))
		require.NoError(t, res.Body.Close())
	}
}

func TestHeadersAreTheCallersOwn(t *testing.T) {
	w := newWorld(t, llmhttp.Options{Headers: true}, replies(jsonType, `{}`, "X-Ratelimit-Limit-Tokens", "2000000", "X-Request-Id", "r"))
	res := w.do(chatPath, chatBody)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, "100", res.Header.Get("X-Ratelimit-Limit"))
	assert.Equal(t, "99", res.Header.Get("X-Ratelimit-Remaining"))
	assert.Equal(t, "r", res.Header.Get("X-Request-Id"))
	assert.Empty(t, res.Header.Get("X-Ratelimit-Limit-Tokens"))
}

// TestWhatIsTakenForARequest has the estimates of what bodies hold.
func TestWhatIsTakenForARequest(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		tpm              int64
	}{
		{"a bound and two replies", chatPath, `{"model":"m","n":2,"max_tokens":10,"max_completion_tokens":100}`, 23 + 200},
		{"two prompts, two replies to each", "/v1/completions", `{"model":"m","max_tokens":10,"n":2,"prompt":["a","b"]}`, 26 + 40},
		{"a prompt of tokens", "/v1/completions", `{"model":"m","max_tokens":10,"prompt":[1,2,3]}`, 22 + 10},
		{"no bound of two replies", chatPath, `{"model":"m","n":2}`, 8 + 2*4096},
		{"no bound", chatPath, `{"model":"m"}`, 6 + 4096},
		{"the model's bound", chatPath, `{"model":"m-1"}`, 6 + 77},
		{"a picture", chatPath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,` + strings.Repeat("QUJD", 10_000) + `"}}]}]}`, 2000 + 1 + 21},
		{"a picture elsewhere", claudePath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"source":{"type":"url","url":"https://x"}}]}]}`, 2000 + 1 + 40},
		{"one part that is no list", geminiPath, `{"contents":{"parts":{"fileData":{"fileUri":"gs://x"}}},"generationConfig":{"maxOutputTokens":1}}`, 2000 + 1 + 37},
		{"embeddings", "/v1/embeddings", `{"model":"m","input":"Hello"}`, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			hold, held := make(chan struct{}), make(chan struct{})
			w := newWorld(t, llmhttp.Options{Models: llmhttp.Models{"m": {}, "m-1": {Resource: "m", MaxOutput: 77}}}, func(http.ResponseWriter, *http.Request) {
				close(held)
				<-hold
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.call(c.path, c.body)
			}()
			<-held
			taken := w.limiter.Taken("ana", "m")
			close(hold)
			<-done
			assert.InDelta(t, c.tpm, taken["tpm"], 8)
			assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": taken["tpm"]}, taken)
		})
	}
}

// askWith is a request with tools, in the dialect of a path, that bounds its reply.
func askWith(path, tools string) string {
	switch path {
	case chatPath:
		return `{"model":"m","max_tokens":1,"messages":[],"tools":[` + tools + `]}`
	case responsesPath:
		return `{"model":"m","max_output_tokens":1,"max_tool_calls":3,"input":"x","tools":[` + tools + `]}`
	case geminiPath:
		return `{"contents":[],"generationConfig":{"maxOutputTokens":1},"tools":[` + tools + `]}`
	case conversePath:
		return `{"messages":[],"inferenceConfig":{"maxTokens":1},"toolConfig":{"tools":[` + tools + `]}}`
	case invokePath:
		return `{"max_tokens":1,"messages":[],"tools":[` + tools + `]}`
	}
	return `{"model":"m","max_tokens":1,"messages":[],"tools":[` + tools + `]}`
}

const invokePath = "/model/us.m:0/invoke"

// TestToolsAreFreePricedOrRefused beside a limit on money: of each tool that the SDKs of a provider have,
// and of one that nobody knows. A search has a price here, and nothing else.
func TestToolsAreFreePricedOrRefused(t *testing.T) {
	const free, priced, refused = 1, 2, 3
	for _, c := range []struct {
		path  string
		tools map[string]int
	}{
		{responsesPath, map[string]int{
			`{"type":"function","name":"f"}`: free, `{"type":"custom","name":"f"}`: free, `{"type":"namespace","tools":[]}`: free,
			`{"type":"local_shell"}`: free, `{"type":"apply_patch"}`: free, `{"type":"computer"}`: free, `{"type":"computer_use_preview"}`: free,
			`{"type":"web_search"}`: priced, `{"type":"web_search_2025_08_26"}`: priced, `{"type":"web_search_preview"}`: priced, `{"type":"web_search_preview_2025_03_11"}`: priced,
			`{"type":"mcp","server_url":"https://x"}`: priced,
			`{"type":"file_search"}`:                  refused, `{"type":"code_interpreter"}`: refused, `{"type":"image_generation"}`: refused, `{"type":"shell"}`: refused,
			`{"type":"tool_search"}`: refused, `{"type":"programmatic_tool_calling"}`: refused, `{"type":"invented"}`: refused, `{"type":7}`: refused,
		}},
		{chatPath, map[string]int{
			`{"type":"function","function":{}}`: free, `{"type":"custom","custom":{}}`: free, `{"type":"web_search"}`: refused, `{"type":"invented"}`: refused,
		}},
		{claudePath, map[string]int{
			`{"name":"f","input_schema":{}}`: free, `{"type":"custom","name":"f"}`: free, `{"type":"bash_20250124"}`: free, `{"type":"text_editor_20250728"}`: free,
			`{"type":"computer_20251124"}`: free, `{"type":"computer_toolset_20260801"}`: free, `{"type":"memory_20250818"}`: free,
			`{"type":"web_search_20260318","max_uses":2}`: priced, `{"type":"web_fetch_20260318","max_uses":2}`: priced,
			`{"type":"web_search_20250305"}`: refused, `{"type":"web_search_20250305","max_uses":2},{"type":"web_search_20260209"}`: refused, `{"type":"web_fetch_20250910"}`: refused,
			`{"type":"code_execution_20260521"}`: refused, `{"type":"browser_toolset_20260801"}`: refused, `{"type":"tool_search_tool_bm25_20251119"}`: refused,
			`{"type":"tool_search_tool_regex_20251119"}`: refused, `{"type":"advisor_20260301","max_uses":1}`: refused, `{"type":"mcp_toolset"}`: refused, `{"type":"invented_20260101"}`: refused,
			`null`: free, `[]`: refused, `[{"type":"code_execution_20250825"}]`: refused, `"code_execution_20250825"`: refused, `{"type":["code_execution_20250825"]}`: refused, `{"type":{}}`: refused, `{"type":null,"name":"f"}`: free,
			`{"type":"code\u005fexecution_20250825"}`: refused,
		}},
		{geminiPath, map[string]int{
			`{"functionDeclarations":[]}`: free, `{"computerUse":{}}`: free, `{"urlContext":{}}`: priced, `{"url_context":{}}`: priced,
			`{"googleSearch":{}}`: refused, `{"googleSearchRetrieval":{}}`: refused, `{"enterpriseWebSearch":{}}`: refused, `{"googleMaps":{}}`: refused, `{"google_maps":{}}`: refused,
			`{"fileSearch":{}}`: refused, `{"retrieval":{}}`: refused, `{"codeExecution":{}}`: refused, `{"parallelAiSearch":{}}`: refused, `{"exaAiSearch":{}}`: refused,
			`{"mcpServers":[]}`: refused, `{"invented":{}}`: refused, `{"functionDeclarations":[],"invented":{}}`: refused, `{"googleMaps":null}`: free,
		}},
		{conversePath, map[string]int{
			`{"toolSpec":{}}`: free, `{"cachePoint":{"type":"default"}}`: free, `{"systemTool":{"name":"nova_grounding"}}`: refused, `{"invented":{}}`: refused,
		}},
		{invokePath, map[string]int{
			`{"name":"f","input_schema":{}}`: free, `{"type":"web_search_20250305","max_uses":2}`: priced, `{"type":"code_execution_20250825"}`: refused,
		}},
	} {
		for tools, want := range c.tools {
			b := newBank(t, searchFor(10_000), llmhttp.Options{}, canned{jsonType, `{}`})
			status, answer := b.call(c.path, askWith(c.path, tools))
			require.NoError(t, b.transport.Close(t.Context()))
			if want == refused {
				assert.Equal(t, 400, status, "%s %s", c.path, tools)
				assert.Zero(t, b.passed, tools)
				assert.Contains(t, answer, "estimate.Tools[", tools)
			} else {
				assert.Equal(t, 200, status, "%s %s: %s", c.path, tools, answer)
				assert.Equal(t, want == priced, len(b.settled.Request.Estimate.Tools) > 0, tools)
			}
			w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
			status, _ = w.call(c.path, askWith(c.path, tools))
			assert.Equal(t, 200, status, "without a limit on money: %s", tools)
		}
	}
}

// TestOtherFeesAreRefused: what else has a price beside tokens that nobody here knows.
func TestOtherFeesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		header           []string
	}{
		{"a search in Chat Completions", chatPath, `{"model":"m","max_tokens":1,"web_search_options":{}}`, nil},
		{"a model that searches unasked", chatPath, `{"model":"m-search-preview","max_tokens":1}`, nil},
		{"a stored prompt", responsesPath, `{"model":"m","max_output_tokens":1,"prompt":{"id":"p"}}`, nil},
		{"servers of tools", claudePath, `{"model":"m","max_tokens":1,"mcp_servers":[{"type":"url","url":"https://x"}]}`, nil},
		{"one tool that is no list", geminiPath, `{"contents":[],"generationConfig":{"maxOutputTokens":1},"tools":{"googleMaps":{}}}`, nil},
		{"a guardrail", conversePath, `{"inferenceConfig":{"maxTokens":1},"guardrailConfig":{"guardrailIdentifier":"g"}}`, nil},
		{"a guardrail in a header", invokePath, `{"max_tokens":1}`, []string{"X-Amzn-Bedrock-GuardrailIdentifier", "g"}},
		{"tools among a model's own fields", conversePath, `{"inferenceConfig":{"maxTokens":1},"additionalModelRequestFields":{"tools":[{"type":"code_execution_20250825"}]}}`, nil},
		{"low latency", conversePath, `{"inferenceConfig":{"maxTokens":1},"performanceConfig":{"latency":"optimized"}}`, nil},
		{"low latency in a header", invokePath, `{"max_tokens":1}`, []string{"X-Amzn-Bedrock-PerformanceConfig-Latency", "optimized"}},
		{"tools that an item adds", responsesPath, `{"model":"m","max_output_tokens":1,"input":[{"tools":[{"type":"function"},{"type":"code_interpreter"}],"type":"additional_tools"}]}`, nil},
		{"a search that an item adds", responsesPath, `{"model":"m","max_output_tokens":1,"input":[{"type":"additional_tools","tools":[{"type":"web_search"}]}]}`, nil},
		{"another model, if the called one declines", claudePath, `{"model":"m","max_tokens":1,"fallbacks":[{"model":"big","max_tokens":64000}]}`, nil},
		{"any other model", claudePath, `{"model":"m","max_tokens":1,"fallbacks":"default"}`, nil},
		{"another model of Bedrock", conversePath, `{"inferenceConfig":{"maxTokens":1},"additionalModelRequestFields":{"fallbacks":[{"model":"big"}]}}`, nil},
		{"another model of LiteLLM", chatPath, `{"model":"m","max_tokens":1,"fallbacks":["big"]}`, nil},
		{"another model of OpenRouter", chatPath, `{"model":"m","max_tokens":1,"models":["big"]}`, nil},
		{"a plugin of OpenRouter", chatPath, `{"model":"m","max_tokens":1,"plugins":[{"id":"web"}]}`, nil},
		{"a search of xAI", chatPath, `{"model":"m","max_tokens":1,"search_parameters":{"mode":"on"}}`, nil},
		{"agents beside the call", responsesPath, `{"model":"m","max_output_tokens":1,"max_tool_calls":1,"input":"x","multi_agent":{"enabled":true}}`, nil},
		{"a mode of reasoning", responsesPath, `{"model":"m","max_output_tokens":1,"input":"x","reasoning":{"mode":"pro"}}`, nil},
		{"another model of Vertex", geminiPath, `{"contents":[],"generationConfig":{"maxOutputTokens":1,"routingConfig":{"autoMode":{}}}}`, nil},
		{"a guardrail of Vertex", geminiPath, `{"contents":[],"generationConfig":{"maxOutputTokens":1},"modelArmorConfig":{"promptTemplateName":"t"}}`, nil},
		{"spoken replies", chatPath, `{"model":"m","max_tokens":1,"modalities":["text","audio"]}`, nil},
		{"spoken replies of Gemini", geminiPath, `{"contents":[],"generationConfig":{"maxOutputTokens":1,"responseModalities":["AUDIO"]}}`, nil},
		{"an unknown tier", chatPath, `{"model":"m","max_tokens":1,"service_tier":"scale"}`, nil},
		{"a tier in a header", geminiPath, `{"contents":[],"generationConfig":{"maxOutputTokens":1}}`, []string{"X-Vertex-AI-LLM-Shared-Request-Type", "priority"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBank(t, searchFor(10_000), llmhttp.Options{Models: llmhttp.Models{"m": {}, "us.m:0": {Resource: "m"}, "m-search-preview": {Resource: "m", Priced: "m"}}}, canned{jsonType, "{}"})
			status, answer := b.call(c.path, c.body, c.header...)
			assert.Equal(t, 400, status)
			assert.Contains(t, answer, "the call cannot be bounded: estimate.")
			assert.Zero(t, b.passed)
		})
	}
}

// TestUsesOfToolsAreCharged: those that an answer tells, else its items, else those that were held. A
// search costs 10,000 micro-dollars, another tool 500.
func TestUsesOfToolsAreCharged(t *testing.T) {
	prices := searchFor(10_000)
	for model, p := range prices.Calls {
		p.Tools = map[string]int64{"web_search": 10_000, "enterprise_web_search": 20_000, "file_search": 500, "google_maps": 500, "stored_prompt": 500, "code_execution": 500}
		prices.Calls[model] = p
	}
	const usage = `"usage":{"input_tokens":9,"output_tokens":1}`
	const items = `"output":[{"type":"web_search_call","action":{"type":"search"}},{"type":"web_search_call","action":{"type":"open_page"}},` +
		`{"type":"web_search_call"},{"type":"file_search_call"},{"type":"function_call"},{"type":"custom_tool_call"},{"type":"message"}]`
	const blocks = `"content":[{"type":"server_tool_use","name":"web_search"},{"type":"server_tool_use","name":"web_fetch"},{"type":"server_tool_use","name":"code_execution"},{"type":"tool_use","name":"web_search"}]`
	const grounded = `{"candidates":[{"groundingMetadata":{"webSearchQueries":["a","b"],"imageSearchQueries":["c"]}}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":1}}`
	search, maps := askWith(responsesPath, `{"type":"web_search"},{"type":"file_search"}`), map[string]int64{"google_maps": 2}
	claude := askWith(claudePath, `{"type":"web_search_20250305","max_uses":5}`)
	for _, c := range []struct {
		name, path, body string
		answer           canned
		tools            map[string]int64 // what is held instead, by Options.Estimate
		micros           int64
	}{
		{"searches that are told", responsesPath, search, canned{jsonType, `{` + items + `,"tool_usage":{"web_search":{"num_requests":1}},` + usage + `}`}, nil, 10_500},
		{"searches that are shown", responsesPath, search, canned{jsonType, `{` + items + `,` + usage + `}`}, nil, 20_500},
		{
			"searches that a stream shows", responsesPath, search,
			canned{sseType, "event: response.created\n" + sse(`{"response":{"output":[]}}`) + "event: response.completed\n" + sse(`{"response":{`+items+`,`+usage+`}}`)},
			nil, 20_500,
		},
		{"no searches", responsesPath, search, canned{jsonType, `{"output":[],` + usage + `}`}, nil, 0},
		{"a stored prompt", responsesPath, `{"model":"m","max_output_tokens":1,"prompt":{"id":"p"}}`, canned{jsonType, `{` + items + `,` + usage + `}`}, nil, 21_000},
		{"blocks of Anthropic", claudePath, claude, canned{jsonType, `{` + blocks + `,` + usage + `}`}, nil, 10_500},
		{"a number of Anthropic", claudePath, claude, canned{jsonType, `{` + blocks + `,"usage":{"input_tokens":9,"output_tokens":1,"server_tool_use":{"web_search_requests":3}}}`}, nil, 30_500},
		{
			"blocks of a stream", claudePath, claude,
			canned{sseType, sse(`{"message":{"usage":{"input_tokens":9}}}`, `{"content_block":{"type":"server_tool_use","name":"web_search"}}`, `{"content_block":{"type":"server_tool_use","name":"web_search"}}`, `{"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`)},
			nil, 20_000,
		},
		{"searches of enterprises", geminiPath, askWith(geminiPath, `{"enterpriseWebSearch":{}}`), canned{jsonType, grounded}, map[string]int64{"enterprise_web_search": 5}, 60_000},
		{"maps, of which an answer tells nothing", geminiPath, askWith(geminiPath, `{"googleMaps":{}}`), canned{jsonType, grounded}, maps, 31_000},
		{"searches of a chat, of which an answer tells nothing", chatPath, `{"model":"m","max_tokens":1,"web_search_options":{}}`, canned{jsonType, `{"usage":{"prompt_tokens":9,"completion_tokens":1}}`}, map[string]int64{"web_search": 2}, 20_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBank(t, prices, llmhttp.Options{Estimate: withTools(c.tools)}, c.answer)
			status, micros := b.pay(c.path, c.body)
			assert.Equal(t, 200, status)
			assert.Equal(t, c.micros+10, micros)
		})
	}
}

// withTools holds other uses of tools than the body says; nil: those.
func withTools(tools map[string]int64) func(*http.Request, llm.Request) llm.Estimate {
	return func(_ *http.Request, r llm.Request) llm.Estimate {
		if tools != nil {
			r.Estimate.Tools = tools
		}
		return r.Estimate
	}
}
