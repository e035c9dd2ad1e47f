package dialect

import "strings"

// findAnthropic returns the route of Anthropic's messages, direct and on Vertex, and of counting their tokens,
// which is free. It returns false for other paths; findBedrock finds those of Bedrock.
func findAnthropic(path string) (Route, bool) {
	switch whole := foldedPath(path); {
	case strings.HasSuffix(whole, "/v1/messages"):
		return Route{Dialect: messages}, true
	case strings.HasSuffix(whole, "/v1/messages/count_tokens"):
		return Route{Dialect: messages, Free: true}, true
	}
	rest, ok := afterLast(path, "/publishers/anthropic/models/")
	if !ok {
		return Route{}, false
	}
	model, verb, _ := cutVerb(rest)
	switch {
	case model == "count-tokens":
		return Route{Dialect: messages, Free: true}, true
	case verb == "rawPredict", verb == "streamRawPredict":
		return Route{Dialect: messages, Model: model}, true
	}
	return Route{}, false
}

var messages = compileDialect(&Dialect{
	Request: anthropicAsks,
	Answer:  anthropicTells,
	Tools:   anthropicTools,
	Uses:    anthropicUses,
	Shape: &Shape{
		names: map[int]string{
			400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
			415: "invalid_request_error", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error",
		},
		body: func(_ int, name, message string) any {
			return map[string]any{"type": "error", "error": map[string]any{"type": name, "message": message}}
		},
		Events:   anthropicEvents,
		Final:    []string{"enforced_spend_limit_reached"},
		TooLarge: []string{"long context", "Extra usage is required"},
	},
})

var anthropicAsks = []Ask{
	{"model", Model},
	{"max_tokens", MaxOutput},
	{"stream", Stream},
	{"service_tier", Tier},
	{"inference_geo", Place},
	{"speed", Place},
	{"container", Part},
	{"mcp_servers[]", RemoteTools},
	{"tools[]", Tool},
	{"tools[].type", ToolType},
	{"tools[].max_uses", ToolUses},
	{"messages[].content[].tool.definition", Tool},
	{"messages[].content[].tool.definition.type", ToolType},
	{"messages[].content[].tool.definition.max_uses", ToolUses},
	{"messages[].content[].tool_changes[].tool.definition", Tool},
	{"messages[].content[].tool_changes[].tool.definition.type", ToolType},
	{"messages[].content[].tool_changes[].tool.definition.max_uses", ToolUses},
	{"fallbacks", Fallback},
	{"fallbacks[]", Fallback},
}

var anthropicTells = []Tell{
	{Path: "usage.input_tokens", Said: Input},
	{Path: "usage.output_tokens", Said: Output},
	{Path: "usage.cache_read_input_tokens", Said: CacheRead},
	{Path: "usage.cache_creation_input_tokens", Said: CacheWrite},
	{Path: "usage.cache_creation.ephemeral_1h_input_tokens", Said: CacheWriteHour},
	{Path: "usage.server_tool_use.web_search_requests", Said: Searches},
	{Path: "content", Said: Use},
	{Path: "content[]", Said: Use},
	{Path: "content[].type", Said: UseType},
	{Path: "content[].name", Said: UseName},
	{Path: "content_block", Said: Use},
	{Path: "content_block.type", Said: UseType},
	{Path: "content_block.name", Said: UseName},
	{Path: "usage.service_tier", Said: ServedTier},
	{Path: "usage.inference_geo", Said: ServedPlace},
	{Path: "usage.speed", Said: ServedPlace},
	{Path: "usage.iterations", Said: Iteration},
	{Path: "usage.iterations[]", Said: Iteration},
	{Path: "usage.iterations[].type", Said: IterationType},
	{Path: "usage.iterations[].model", Said: IterationModel},
	{Path: "usage.iterations[].input_tokens", Said: Input},
	{Path: "usage.iterations[].output_tokens", Said: Output},
	{Path: "usage.iterations[].cache_read_input_tokens", Said: CacheRead},
	{Path: "usage.iterations[].cache_creation_input_tokens", Said: CacheWrite},
	{Path: "usage.iterations[].cache_creation.ephemeral_1h_input_tokens", Said: CacheWriteHour},
	{Path: "message.usage.input_tokens", Said: Input},
	{Path: "message.usage.output_tokens", Said: OutputSoFar},
	{Path: "message.usage.cache_read_input_tokens", Said: CacheRead},
	{Path: "message.usage.cache_creation_input_tokens", Said: CacheWrite},
	{Path: "message.usage.cache_creation.ephemeral_1h_input_tokens", Said: CacheWriteHour},
	{Path: "message.usage.service_tier", Said: ServedTier},
	{Path: "message.usage.inference_geo", Said: ServedPlace},
	{Path: "message.usage.speed", Said: ServedPlace},
	{Path: "delta.stop_reason", Said: Ended, Final: true},
	{Path: "delta.text", Said: Piece},
	{Path: "delta.thinking", Said: Piece},
	{Path: "delta.partial_json", Said: Piece},
	{Path: "error.type", Said: ErrorName},
	{Path: "error.message", Said: ErrorMessage},
	{Path: "error.details.error_code", Said: ErrorName},
}

var anthropicUses = []string{searches, remote, "web_fetch", "code_execution"}

var anthropicEvents = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
	"request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
}
