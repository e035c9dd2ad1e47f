package sdks

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"
)

const (
	embedPath = "/v1/embeddings"
	askAll    = `{"model":"m","max_tokens":100000,"max_output_tokens":100000,"generationConfig":{"maxOutputTokens":100000},"inferenceConfig":{"maxTokens":100000}}`
)

// usages are the SDKs' types of what was used, and where an answer has one.
var usages = []struct {
	name, path, in string
	of             reflect.Type
	free           map[string]string // what changes no price, with the reason
}{
	{"chat", chatPath, `{"usage":%}`, reflect.TypeFor[openai.CompletionUsage](), chatParts},
	{"Responses", respondPath, `{"usage":%}`, reflect.TypeFor[responses.ResponseUsage](), responsesParts},
	{"Responses beta", respondPath, `{"usage":%}`, reflect.TypeFor[openai.BetaResponseUsage](), responsesParts},
	{"Responses tools", respondPath, `{"usage":{"input_tokens":1000,"output_tokens":1000},"tool_usage":%}`, reflect.TypeFor[responses.ResponseToolUsage](), imageParts},
	{"embeddings", embedPath, `{"usage":%}`, reflect.TypeFor[openai.CreateEmbeddingResponseUsage](), map[string]string{"total_tokens": "prompt_tokens again: there is no reply"}},
	{"Claude", claudePath, `{"usage":%}`, reflect.TypeFor[anthropic.Usage](), claudeParts("cache_creation.ephemeral_5m_input_tokens")},
	{"Claude stream", claudePath, claudeStream, reflect.TypeFor[anthropic.MessageDeltaUsage](), claudeParts()},
	{"Claude beta", claudePath, `{"usage":%}`, reflect.TypeFor[anthropic.BetaUsage](), claudeParts("cache_creation.ephemeral_5m_input_tokens", "iterations.cache_creation.ephemeral_5m_input_tokens", "fallback_credit.status.reason", "fallback_credit.status.remove_to_redeem", "fallback_credit.status.type")},
	{"Claude beta stream", claudePath, claudeStream, reflect.TypeFor[anthropic.BetaMessageDeltaUsage](), claudeParts("iterations.cache_creation.ephemeral_5m_input_tokens", "fallback_credit.status.reason", "fallback_credit.status.remove_to_redeem", "fallback_credit.status.type")},
	{"Gemini", geminiPath, `{"usageMetadata":%}`, reflect.TypeFor[genai.GenerateContentResponseUsageMetadata](), geminiParts},
	{"Converse", bedrockPath, `{"usage":%}`, reflect.TypeFor[types.TokenUsage](), nil},
	{"Converse tier", bedrockPath, `{"usage":{"inputTokens":1000,"outputTokens":1000},"serviceTier":%}`, reflect.TypeFor[types.ServiceTier](), nil},
}

// The parts of a usage that have no price of their own, by the providers' pages of prices (2026-11).
const (
	ofOutput  = "a part of the output, at its price"
	ofWrites  = "what is left of the cache's writes, which are read"
	noReplies = "models that reply in sound or pictures have no price (docs/prices.md)"
	ofPicture = "a part of the picture's tokens, all of which are charged; a cached one costs less (OpenAI's page of prices, Image generation, 2026-11)"
)

var (
	chatParts = map[string]string{
		"completion_tokens_details.accepted_prediction_tokens": ofOutput, "completion_tokens_details.rejected_prediction_tokens": ofOutput + ", as OpenAI's Predicted Outputs says",
		"completion_tokens_details.reasoning_tokens": ofOutput, "completion_tokens_details.text_tokens": ofOutput, "completion_tokens_details.audio_tokens": noReplies,
		"prompt_tokens_details.image_tokens": "a part of the input, at its price", "prompt_tokens_details.text_tokens": "a part of the input, at its price",
	}
	responsesParts = map[string]string{"input_tokens_details.cache_write_tokens_details.ttl_30m_tokens": ofWrites, "output_tokens_details.reasoning_tokens": ofOutput}
	imageParts     = map[string]string{
		"image_gen.cached_tokens": ofPicture, "image_gen.cached_tokens_details.cached_image_tokens": ofPicture, "image_gen.cached_tokens_details.cached_text_tokens": ofPicture,
		"image_gen.input_tokens_details.image_tokens": ofPicture, "image_gen.input_tokens_details.text_tokens": ofPicture, "image_gen.total_tokens": "the sum of the two that are read",
		"image_gen.output_tokens_details.image_tokens": ofPicture, "image_gen.output_tokens_details.text_tokens": ofPicture,
	}
	geminiParts = map[string]string{
		"cacheTokensDetails.modality": "a part of promptTokensDetails, which has the sound", "cacheTokensDetails.tokenCount": "a part of cachedContentTokenCount",
		"candidatesTokensDetails.modality": noReplies, "candidatesTokensDetails.tokenCount": "a part of candidatesTokenCount",
		"toolUsePromptTokensDetails.modality": "results of tools are text, pictures and documents (Google's page of the URL context, 2026-11)", "toolUsePromptTokensDetails.tokenCount": "a part of toolUsePromptTokenCount",
	}
)

// claudeParts are what each usage of Anthropic has, and others.
func claudeParts(others ...string) map[string]string {
	all := map[string]string{
		"output_tokens_details.thinking_tokens": ofOutput,
		"server_tool_use.web_fetch_requests":    "free beside its tokens (Anthropic's page of the web fetch tool, 2026-11); an operator's own price counts the blocks",
	}
	for _, other := range others {
		all[other] = ofWrites
		if strings.HasPrefix(other, "fallback_credit") {
			all[other] = "makes a retry cheaper, never dearer (Anthropic's refusals and fallback guide, 2026-11)"
		}
	}
	return all
}

const claudeStream = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":%}\n\n"

// words are what a field that is no number says, first and then.
var words = map[string][2]string{
	"inference_geo": {"global", "us"}, "service_tier": {"standard", "priority"}, "speed": {"standard", "fast"}, "type": {"default", "priority"},
	"iterations.type": {"compaction", "message"}, "iterations.model": {"m", "other"},
	"trafficType": {"ON_DEMAND", "ON_DEMAND_PRIORITY"}, "modality": {"AUDIO", "TEXT"}, "ttl": {"1h", "5m"},
}

// members are the fields of a struct by their names in JSON, each with its own members.
func members(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = strings.ToLower(f.Name[:1]) + f.Name[1:]
		}
		if f.IsExported() && !f.Anonymous && name != "-" {
			all[name] = f.Type
		}
	}
	return all
}

// leavesOf are the paths of the numbers and words of a usage.
func leavesOf(t reflect.Type, path string) (all []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return leavesOf(t.Elem(), path)
	case reflect.Struct:
		for name, of := range members(t) {
			all = append(all, leavesOf(of, strings.TrimPrefix(path+"."+name, "."))...)
		}
		return all
	}
	return []string{path}
}

// usageOf is a usage in which all fields are told, and one of them is another than first.
func usageOf(t reflect.Type, path, other string) any {
	switch t.Kind() {
	case reflect.Pointer:
		return usageOf(t.Elem(), path, other)
	case reflect.Slice:
		return []any{usageOf(t.Elem(), path, other)}
	case reflect.Struct:
		all := map[string]any{}
		for name, of := range members(t) {
			all[name] = usageOf(of, strings.TrimPrefix(path+"."+name, "."), other)
		}
		return all
	}
	name := path[strings.LastIndex(path, ".")+1:]
	switch t.Kind() {
	case reflect.String:
		word, ok := words[path]
		if !ok {
			word = words[name]
		}
		if path == other {
			return word[1]
		}
		return word[0]
	case reflect.Bool:
		return path == other
	}
	n := 1_000
	switch {
	case strings.HasPrefix(strings.ToLower(name), "total"):
		n = 0 // which tells nothing
	case slices.Contains([]string{"input_tokens", "prompt_tokens", "promptTokenCount", "inputTokens"}, path):
		n = 1_000_000 // with the parts in it
	}
	if path == other {
		n += 5_000_000
	}
	return n
}

// TestNetOfUsages: each number and word of a usage that the SDKs know changes what a call is charged if it
// alone is another, or is known to change nothing.
func TestNetOfUsages(t *testing.T) {
	for _, u := range usages {
		t.Run(u.name, func(t *testing.T) {
			w, model := newTill(t), "m"
			if u.path == embedPath {
				model = "embeds"
			}
			if strings.HasPrefix(u.in, "data:") {
				w.kind = "text/event-stream"
			}
			charged := func(usage any) string {
				said, err := json.Marshal(usage)
				require.NoError(t, err)
				s, ok := w.call(u.path, strings.Replace(askAll, `"m"`, `"`+model+`"`, 1), strings.Replace(u.in, "%", string(said), 1))
				require.True(t, ok)
				return fmt.Sprint(s.Tokens, s.CostMicros)
			}
			var free []string
			first := charged(usageOf(u.of, "", ""))
			for _, leaf := range leavesOf(u.of, "") {
				if charged(usageOf(u.of, "", leaf)) == first {
					free = append(free, leaf)
				}
			}
			assertExcused(t, u.free, free)
		})
	}
}
