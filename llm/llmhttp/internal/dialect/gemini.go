package dialect

import (
	"net/http"
	"strings"
)

// gemini finds calls of Gemini, of its own interface and of Vertex. The path names the model.
func gemini(path string) (Route, bool) {
	rest, ok := after(path, "odels/") // models/ and tunedModels/
	if !ok {
		return Route{}, false
	}
	model, verb, ok := cutVerb(rest)
	if !ok {
		return Route{}, false
	}
	route := Route{Dialect: generate, Model: model, OneSearch: strings.HasPrefix(model, "gemini-1") || strings.HasPrefix(model, "gemini-2")}
	switch verb {
	case "generateContent", "streamGenerateContent":
	case "embedContent", "batchEmbedContents":
		route.Embeds = true
	case "countTokens":
		route.Free = true
	default:
		return Route{}, false
	}
	return route, true
}

var generate = compiled(&Dialect{
	Request: alone([]Ask{
		{"generationConfig|generation_config.maxOutputTokens|max_output_tokens", MaxOutput},
		{"generationConfig|generation_config.candidateCount|candidate_count", Choices},
		{"contents[].parts[].inlineData|inline_data.data", Data},
		{"contents[].parts[].inlineData|inline_data.mimeType|mime_type", MediaType},
		{"contents[].parts[].fileData|file_data.fileUri|file_uri", Part},
		{"contents[].parts[].fileData|file_data.mimeType|mime_type", MediaType},
		{"cachedContent|cached_content", Part},
		{"tools[].googleSearch|google_search", Search},
		{"tools[].urlContext|url_context", Part},
	}),
	Answer: []Tell{
		{Path: "usageMetadata.promptTokenCount", Said: Input},
		{Path: "usageMetadata.candidatesTokenCount", Said: Output},
		{Path: "usageMetadata.thoughtsTokenCount", Said: MoreOutput},
		{Path: "usageMetadata.toolUsePromptTokenCount", Said: MoreInput},
		{Path: "usageMetadata.cachedContentTokenCount", Said: CacheRead},
		{Path: "usageMetadata.totalTokenCount", Said: Total},
		{Path: "usageMetadata.promptTokensDetails", Said: Detail},
		{Path: "usageMetadata.promptTokensDetails[]", Said: Detail},
		{Path: "usageMetadata.promptTokensDetails[].modality", Said: DetailKind},
		{Path: "usageMetadata.promptTokensDetails[].tokenCount", Said: DetailTokens},
		{Path: "candidates[].groundingMetadata.webSearchQueries[]", Said: Query},
		{Path: "candidates[].content.parts[].text", Said: Piece},
		{Path: "candidates[].finishReason", Said: Ended, Final: true},
		{Path: "error.code", Said: ErrorStatus},
		{Path: "error.status", Said: ErrorName},
		{Path: "error.details[].retryDelay", Said: RetryDelay},
	},
	Inclusive: true,
	Counts:    true,
	Array:     true,
	Masks:     true,
	Shape: &Shape{
		names: map[int]string{
			400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 413: "INVALID_ARGUMENT",
			415: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
		},
		body: func(status int, name, message string) any {
			return map[string]any{"error": map[string]any{"code": status, "message": message, "status": name}}
		},
		Events: map[string]int{
			"RESOURCE_EXHAUSTED": http.StatusTooManyRequests, "UNAVAILABLE": 503, "INTERNAL": 500, "DEADLINE_EXCEEDED": 504, "INVALID_ARGUMENT": 400,
		},
	},
})

// alone has the lists of paths also as Google takes those of one element: without brackets.
func alone(asks []Ask) []Ask {
	for _, list := range []string{"contents[]", "parts[]", "tools[]"} {
		for _, a := range asks[:len(asks):len(asks)] {
			if one := strings.Replace(a.Path, list, strings.TrimSuffix(list, "[]"), 1); one != a.Path {
				asks = append(asks, Ask{one, a.Asked})
			}
		}
	}
	return asks
}
