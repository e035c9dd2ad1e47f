package dialect

import "strings"

// findOpenAI returns the route of a call of OpenAI's API by the end of its path, also as Azure, Bedrock and
// Vertex serve it. The model is Azure's deployment, if the path has one. It returns false for other paths.
func findOpenAI(path string) (Route, bool) {
	deployment := ""
	if i := strings.LastIndex(lowerASCII(path), azure); i >= 0 { // it bills what the path names
		rest := path[i+len(azure):]
		deployment, _, _ = strings.Cut(rest, "/")
		deployment = unescapeSegment(deployment)
	}
	path = foldedPath(path)
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Route{Dialect: chat, Model: deployment, Injects: true}, true
	case strings.HasSuffix(path, "/responses"), strings.HasSuffix(path, "/responses/compact"):
		return Route{Dialect: responses, Model: deployment}, true
	case strings.HasSuffix(path, "/responses/input_tokens"):
		return Route{Dialect: responses, Free: true}, true
	case strings.HasSuffix(path, "/embeddings"):
		return Route{Dialect: embeddings, Model: deployment, Embeds: true}, true
	case strings.HasSuffix(path, "/completions"):
		return Route{Dialect: chat, Model: deployment, Injects: true}, true
	}
	return Route{}, false
}

const azure = "/openai/deployments/"

// openAITiers are names of a tier that have another one: its answers call "fast" priority.
var openAITiers = map[string]string{"fast": "priority"}

var chat = compileDialect(&Dialect{
	Request: []Ask{
		{"model", Model},
		{"max_tokens", MaxOutput},
		{"max_completion_tokens", MaxOutput},
		{"n", Choices},
		{"best_of", Choices},
		{"prompt[]", Prompt},
		{"stream", Stream},
		{"stream_options", Options},
		{"stream_options.include_usage", AsksUsage},
		{"service_tier", Tier},
		{"messages[].audio.id", Part},
		{"modalities[]", SoundOut},
		{"prompt_cache_options.ttl", CacheTTL},
		{"tools[]", Tool},
		{"tools[].type", ToolType},
		{"web_search_options", Search},
		{"search_parameters", Search}, // of xAI
		{"plugins[]", Search},         // of OpenRouter
		{"models[]", Fallback},        // of OpenRouter
		{"fallbacks[]", Fallback},     // of LiteLLM
	},
	Tools: openAITools,
	Tiers: openAITiers,
	Answer: []Tell{
		{Path: "service_tier", Said: ServedTier},
		{Path: "usage.service_tier", Said: ServedTier}, // of LiteLLM
		{Path: "usage.total_tokens", Said: Total},
		{Path: "usage.prompt_tokens", Said: Input},
		{Path: "usage.completion_tokens", Said: Output},
		{Path: "usage.prompt_tokens_details.cached_tokens", Said: CacheRead},
		{Path: "usage.prompt_tokens_details.cache_write_tokens", Said: CacheWrite},
		{Path: "usage.prompt_tokens_details.cache_write_tokens_details.ttl_12h_tokens", Said: CacheWriteHour},
		{Path: "usage.prompt_tokens_details.cache_creation_tokens", Said: CacheWrite},
		{Path: "usage.prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens", Said: CacheWriteHour},
		{Path: "usage.cache_creation_input_tokens", Said: CacheWrite},
		{Path: "usage.cache_read_input_tokens", Said: CacheRead},
		{Path: "usage.prompt_tokens_details.audio_tokens", Said: SoundInput},
		{Path: "choices[].delta.content", Said: Piece},
		{Path: "choices[].delta.reasoning_content", Said: Piece},
		{Path: "choices[].delta.refusal", Said: Piece},
		{Path: "choices[].delta.tool_calls[].function.arguments", Said: Piece},
		{Path: "choices[].delta.tool_calls[].custom.input", Said: Piece},
		{Path: "choices[].delta.function_call.arguments", Said: Piece},
		{Path: "choices[].text", Said: Piece},
		{Path: "choices[].finish_reason", Said: Ended},
		{Path: "error.code", Said: ErrorName},
		{Path: "error.type", Said: ErrorName},
		{Path: "error.message", Said: ErrorMessage},
	},
	Inclusive: true,
	Counts:    true,
	Shape:     openAIErrors,
})

var responses = compileDialect(&Dialect{
	Request: []Ask{
		{"model", Model},
		{"max_output_tokens", MaxOutput},
		{"stream", Stream},
		{"service_tier", Tier},
		{"previous_response_id", Part},
		{"conversation", Part},
		{"prompt.id", StoredPrompt},
		{"input[]", Item},
		{"input[].type", ItemType},
		{"input[].id", ItemID},
		{"input[].tools[].type", AddedTool},
		{"input[].outputs[].url", Link},
		{"prompt_cache_options.ttl", CacheTTL},
		{"tools[]", Tool},
		{"tools[].type", ToolType},
		{"max_tool_calls", AllUses},
		{"background", InBackground},
		{"multi_agent.enabled", Agents},
		{"reasoning.mode", Place},
		{"models[]", Fallback},    // of OpenRouter
		{"fallbacks[]", Fallback}, // of LiteLLM
	},
	Tools: openAITools,
	Tiers: openAITiers,
	Uses:  []string{searches, remote, "file_search", "code_interpreter", "image_generation", "shell"},
	Answer: append(responseTells(""), append(responseTells("response."),
		Tell{Path: "delta", Said: Piece},
		Tell{Path: "error.code", Said: ErrorName},
		Tell{Path: "error.type", Said: ErrorName},
		Tell{Path: "error.message", Said: ErrorMessage},
		Tell{Path: "type", Said: EventType},
		Tell{Path: "code", Said: EventCode},
		Tell{Path: "message", Said: ErrorMessage},
		Tell{Path: "response.error.code", Said: ErrorName},
		Tell{Path: "response.error.message", Said: ErrorMessage},
	)...),
	Inclusive: true,
	Counts:    true,
	Last:      "response.completed",
	Shape:     openAIErrors,
})

// responseTells returns the paths of values in a Response, with their meanings. They begin with prefix, the
// path of the Response in an answer or in the last event of a stream.
func responseTells(prefix string) []Tell {
	return []Tell{
		{Path: prefix + "service_tier", Said: ServedTier},
		{Path: prefix + "usage.service_tier", Said: ServedTier},
		{Path: prefix + "reasoning.mode", Said: ServedPlace},
		{Path: prefix + "usage.total_tokens", Said: Total},
		{Path: prefix + "usage.input_tokens", Said: Input},
		{Path: prefix + "usage.output_tokens", Said: Output, Final: true},
		{Path: prefix + "usage.input_tokens_details.cached_tokens", Said: CacheRead},
		{Path: prefix + "usage.input_tokens_details.cache_write_tokens", Said: CacheWrite},
		{Path: prefix + "usage.input_tokens_details.cache_write_tokens_details.ttl_12h_tokens", Said: CacheWriteHour},
		{Path: prefix + "tool_usage.web_search.num_requests", Said: Searches},
		{Path: prefix + "tool_usage.image_gen.input_tokens", Said: ToolInput},
		{Path: prefix + "tool_usage.image_gen.output_tokens", Said: ToolOutput},
		{Path: prefix + "output", Said: Use},
		{Path: prefix + "output[]", Said: Use},
		{Path: prefix + "output[].type", Said: UseType},
		{Path: prefix + "output[].action.type", Said: UseAction},
	}
}

var embeddings = compileDialect(&Dialect{
	Request:   []Ask{{"model", Model}},
	Answer:    []Tell{{Path: "usage.prompt_tokens", Said: Input}, {Path: "error.code", Said: ErrorName}, {Path: "error.type", Said: ErrorName}, {Path: "error.message", Said: ErrorMessage}},
	Inclusive: true,
	Counts:    true,
	Shape:     openAIErrors,
})

var openAIErrors = &Shape{
	names: map[int]string{
		400: "invalid_request", 401: "invalid_api_key", 403: "access_denied", 404: "model_not_found", 413: "request_too_large",
		415: "invalid_request", 429: "rate_limit_exceeded", 500: "internal_error", 503: "service_unavailable",
	},
	body: func(status int, name, message string) any {
		kind := "invalid_request_error"
		switch {
		case status == 429:
			kind = "rate_limit_error"
		case status >= 500:
			kind = "server_error"
		}
		return map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": name}}
	},
	Events: map[string]int{
		"rate_limit_exceeded": 429, "rate_limit_error": 429, "insufficient_quota": 429, "server_error": 500, "server_is_overloaded": 503, "slow_down": 503,
		"content_filter": 400, "invalid_request_error": 400,
	},
	Final: []string{
		"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded",
		"organization_usage_limit_exceeded", "billing_hard_limit_reached",
	},
	Processed: []string{"content_filter"}, // of Azure
	TooLarge:  []string{"Request too large"},
}
