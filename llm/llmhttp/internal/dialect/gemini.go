package dialect

import (
	"net/http"
	"strings"
)

// findGemini returns the route of a call of Gemini's API, its own or Vertex's, with the model from the path;
// counting tokens is free. It returns false for other paths.
func findGemini(path string) (Route, bool) {
	rest, ok := afterLast(path, "odels/") // models/ and tunedModels/
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

var generate = compileDialect(&Dialect{
	Request: []Ask{
		{"generationConfig|generation_config.maxOutputTokens|max_output_tokens", MaxOutput},
		{"generationConfig|generation_config.candidateCount|candidate_count", Choices},
		{"generationConfig|generation_config.responseModalities|response_modalities", SoundOut},
		{"generationConfig|generation_config.responseModalities|response_modalities[]", SoundOut},
		{"generationConfig|generation_config.routingConfig|routing_config", Fallback},
		{"modelArmorConfig|model_armor_config", Guardrail},
		{"serviceTier|service_tier", Tier},
		{"tools[].*", ToolKey},
		{"tools.*", ToolKey}, // Google takes a list of one without its brackets
	},
	Asks:    map[string]Asked{"X-Vertex-Ai-Llm-Shared-Request-Type": Tier},
	Headers: map[string]Said{"X-Gemini-Service-Tier": ServedTier},
	Tools:   geminiTools,
	Uses:    []string{searches, searchesOfEnterprises},
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
		{Path: "usageMetadata.serviceTier", Said: ServedTier},
		{Path: "usageMetadata.trafficType", Said: Traffic},
		{Path: "candidates[].groundingMetadata.webSearchQueries[]", Said: Query},
		{Path: "candidates[].groundingMetadata.imageSearchQueries[]", Said: Query},
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
