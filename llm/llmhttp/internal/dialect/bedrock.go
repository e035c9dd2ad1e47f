package dialect

import "strings"

// findBedrock returns the route of a call of Bedrock's own API, with the unescaped model from the path;
// counting tokens is free. It returns false for other paths.
func findBedrock(path string) (Route, bool) {
	rest, ok := afterLast(path, "/model/")
	if !ok {
		return Route{}, false
	}
	id, verb, _ := strings.Cut(rest, "/")
	route := Route{Dialect: converse, Model: unescapeSegment(id)}
	switch verb {
	case "converse", "converse-stream":
	case "invoke", "invoke-with-response-stream":
		route.Dialect, route.Embeds = invoke, strings.Contains(lowerASCII(route.Model), "embed")
	case "count-tokens":
		route.Free = true
	default:
		return Route{}, false
	}
	return route, true
}

var converse = compileDialect(&Dialect{
	Request: []Ask{
		{"inferenceConfig.maxTokens", MaxOutput},
		{"serviceTier.type", Tier},
		{"performanceConfig.latency", Place},
		{"guardrailConfig", Guardrail},
		{"toolConfig.tools[].*", ToolKey},
		{"toolConfig.tools[].cachePoint.ttl", CacheTTL},
		{"additionalModelRequestFields.max_tokens", MaxOutput},
		{"additionalModelRequestFields.max_completion_tokens", MaxOutput},
		{"additionalModelRequestFields.max_gen_len", MaxOutput},
		{"additionalModelRequestFields.inferenceConfig.maxTokens|max_new_tokens", MaxOutput},
		{"additionalModelRequestFields.service_tier", Tier},
		{"additionalModelRequestFields.speed", Place},
		{"additionalModelRequestFields.mcp_servers[]", RemoteTools},
		{"additionalModelRequestFields.tools[]", Tool},
		{"additionalModelRequestFields.tools[].type", ToolType},
		{"additionalModelRequestFields.tools[].max_uses", ToolUses},
		{"additionalModelRequestFields.fallbacks", Fallback},
		{"additionalModelRequestFields.fallbacks[]", Fallback},
	},
	Tools: bedrockTools,
	Answer: []Tell{
		{Path: "usage.inputTokens", Said: Input},
		{Path: "usage.outputTokens", Said: Output, Final: true},
		{Path: "usage.totalTokens", Said: Total},
		{Path: "usage.cacheReadInputTokens", Said: CacheRead},
		{Path: "usage.cacheWriteInputTokens", Said: CacheWrite},
		{Path: "usage.cacheDetails", Said: Detail},
		{Path: "usage.cacheDetails[]", Said: Detail},
		{Path: "usage.cacheDetails[].ttl", Said: DetailKind},
		{Path: "usage.cacheDetails[].inputTokens", Said: DetailTokens},
		{Path: "serviceTier.type", Said: ServedTier},
		{Path: "performanceConfig.latency", Said: ServedPlace},
		{Path: "stopReason", Said: Ended, Final: true},
		{Path: "delta.text", Said: Piece},
		{Path: "delta.reasoningContent.text", Said: Piece},
		{Path: "delta.toolUse.input", Said: Piece},
	},
	Shape: awsErrors,
})

// invoke has the bodies of the models: Anthropic's, Nova's, Titan's, Llama's and those like them.
var invoke = compileDialect(&Dialect{
	Request: append(anthropicAsks[1:len(anthropicAsks):len(anthropicAsks)], // without the model, which the path names
		Ask{"toolConfig.tools[].*", ToolKey},
		Ask{"toolConfig.tools[].cachePoint.ttl", CacheTTL},
		Ask{"images[]", Data},
		Ask{"inputImage", Data},
		Ask{"max_gen_len", MaxOutput},
		Ask{"max_completion_tokens", MaxOutput},
		Ask{"textGenerationConfig.maxTokenCount", MaxOutput},
		Ask{"inferenceConfig.maxTokens|max_new_tokens", MaxOutput},
	),
	Answer: append(anthropicTells[:len(anthropicTells):len(anthropicTells)],
		Tell{Path: "usage.inputTokens|prompt_tokens", Said: Input},
		Tell{Path: "usage.outputTokens|completion_tokens", Said: Output, Final: true},
		Tell{Path: "usage.totalTokens|total_tokens", Said: Total},
		Tell{Path: "usage.cacheReadInputTokenCount|cacheReadInputTokens", Said: CacheRead},
		Tell{Path: "usage.cacheWriteInputTokenCount|cacheWriteInputTokens", Said: CacheWrite},
		Tell{Path: "prompt_token_count", Said: Input},
		Tell{Path: "inputTextTokenCount", Said: Input}, // of Titan
		Tell{Path: "generation_token_count", Said: Output},
		Tell{Path: "amazon-bedrock-invocationMetrics.inputTokenCount", Said: Input},
		Tell{Path: "amazon-bedrock-invocationMetrics.outputTokenCount", Said: Output, Final: true},
		Tell{Path: "amazon-bedrock-invocationMetrics.cacheReadInputTokenCount", Said: CacheRead},
		Tell{Path: "amazon-bedrock-invocationMetrics.cacheWriteInputTokenCount", Said: CacheWrite},
		Tell{Path: "contentBlockDelta.delta.text", Said: Piece},
		Tell{Path: "generation", Said: Piece},
		Tell{Path: "outputText", Said: Piece},
	),
	Asks: map[string]Asked{
		"X-Amzn-Bedrock-Service-Tier":              Tier,
		"X-Amzn-Bedrock-Performanceconfig-Latency": Place,
		"X-Amzn-Bedrock-Guardrailidentifier":       Guardrail,
	},
	Tools: bedrockTools,
	Uses:  anthropicUses,
	Headers: map[string]Said{
		"X-Amzn-Bedrock-Service-Tier":                  ServedTier,
		"X-Amzn-Bedrock-Performanceconfig-Latency":     ServedPlace,
		"X-Amzn-Bedrock-Input-Token-Count":             Input,
		"X-Amzn-Bedrock-Output-Token-Count":            Output,
		"X-Amzn-Bedrock-Cache-Read-Input-Token-Count":  CacheRead,
		"X-Amzn-Bedrock-Cache-Write-Input-Token-Count": CacheWrite,
	},
	Enveloped: true,
	Shape:     awsErrors,
})

var awsErrors = &Shape{
	names: map[int]string{
		400: "ValidationException", 401: "AccessDeniedException", 403: "AccessDeniedException", 404: "ResourceNotFoundException",
		413: "ValidationException", 415: "ValidationException", 429: "ServiceQuotaExceededException", 500: "InternalFailure",
		503: "ServiceUnavailableException",
	},
	// AWS's SDK for Go decides by the name: it retries after a ThrottlingException, and not after a
	// ServiceQuotaExceededException. Those for Python and JavaScript also decide by the status: they retry
	// after 429 and 5xx. Anthropic's SDK on Bedrock knows a denial by 429.
	status: map[int]int{401: 403, 413: 400, 415: 400, 500: 400},
	again:  map[int]string{429: "ThrottlingException"},
	final:  map[int]int{429: 400, 503: 400},
	body:   func(_ int, _, message string) any { return map[string]any{"message": message} },
	header: "X-Amzn-Errortype",
	Events: map[string]int{
		"throttlingException": 429, "modelStreamErrorException": 424, "serviceUnavailableException": 503, "internalServerException": 500,
		"ThrottlingException": 429, "validationException": 400, "modelTimeoutException": 408, "overloaded_error": 529, "rate_limit_error": 429, "api_error": 500,
	},
	Processed: []string{"ModelErrorException", "ModelTimeoutException", "ModelStreamErrorException"},
}
