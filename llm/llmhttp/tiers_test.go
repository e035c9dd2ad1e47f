package llmhttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/prices"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
