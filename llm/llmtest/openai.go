package llmtest

import (
	"cmp"
	"net/http"
	"strconv"
)

// created is the creation time of every answer of OpenAI.
const created = 1_767_225_600

// chat is OpenAI's Chat Completions.
type chat struct{ *reply }

// header sets the request id and the processing time of an answer.
func (c chat) header(h http.Header) {
	h.Set("X-Request-Id", c.newID("req_"))
	h.Set("Openai-Processing-Ms", "1")
}

// frame returns the JSON object of a completion or of a chunk (kind), with the given choices and without a
// usage.
func (c chat) frame(kind string, choices ...any) object {
	if choices == nil {
		choices = []any{}
	}
	o := object{"id": c.newID("chatcmpl-"), "object": kind, "created": created, "model": c.Model, "choices": choices}
	if c.Tier != "" {
		o["service_tier"] = c.Tier
	}
	return o
}

// usageObject returns the usage: the prompt includes cached input, the reply the reasoning.
func (c chat) usageObject() object {
	return object{
		"prompt_tokens": c.u.prompt(), "completion_tokens": c.u.Output, "total_tokens": c.u.total(),
		"prompt_tokens_details":     c.cachedInput(),
		"completion_tokens_details": object{"reasoning_tokens": c.u.Reasoning, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
	}
}

// cachedInput returns the JSON details of the prompt: the tokens read from a cache and, if any, written to one.
func (a *reply) cachedInput() object {
	o := object{"cached_tokens": a.u.CacheRead}
	if written := a.u.CacheWrite + a.u.CacheWrite1h; written > 0 {
		o["cache_write_tokens"] = written
	}
	return o
}

// wholeBody returns the complete completion, with its usage unless NoUsage is set.
func (c chat) wholeBody() any {
	message := object{"role": "assistant", "content": c.Text, "refusal": nil, "annotations": []any{}}
	choice := object{"index": 0, "message": message, "logprobs": nil, "finish_reason": "stop"}
	return c.addUsage(c.frame("chat.completion", choice), "usage", c.usageObject())
}

// events returns the chunks of a stream: the role, the pieces of the text, the finish reason, the usage if
// requested, and [DONE].
func (c chat) events() []event {
	choice := func(delta object, finish any) object {
		return object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}
	}
	choices := []object{choice(object{"role": "assistant", "content": "", "refusal": nil}, nil)}
	for _, piece := range c.pieces() {
		choices = append(choices, choice(object{"content": piece}, nil))
	}
	return c.chunks("chat.completion.chunk", append(choices, choice(object{}, "stop")))
}

// chunks returns an event for each choice, one with the usage if the request asks for it and NoUsage is not
// set, and [DONE].
func (c chat) chunks(kind string, choices []object) []event {
	options, _ := c.asked["stream_options"].(map[string]any)
	include, _ := options["include_usage"].(bool)
	var events []event
	for _, choice := range choices {
		o := c.frame(kind, choice)
		o["obfuscation"] = "wQ3xZ7"
		if include {
			o["usage"] = nil
		}
		events = append(events, event{data: o})
	}
	if include && !c.NoUsage {
		events = append(events, event{data: c.addUsage(c.frame(kind), "usage", c.usageObject())})
	}
	return append(events, event{data: raw("[DONE]")})
}

// errorBody returns the error body for Status and Code, and sets the headers of RetryAfter in h. A 429 without
// a Code is rate_limit_exceeded, a 401 invalid_api_key.
func (c chat) errorBody(h http.Header) any {
	if c.RetryAfter > 0 {
		h.Set("Retry-After", seconds(c.RetryAfter))
		h.Set("Retry-After-Ms", strconv.FormatInt(c.RetryAfter.Milliseconds(), 10))
	}
	kind, code := "invalid_request_error", c.Code
	switch {
	case c.Status == http.StatusTooManyRequests:
		kind, code = "tokens", cmp.Or(code, "rate_limit_exceeded")
		if code == "insufficient_quota" {
			kind = code
		}
	case c.Status == http.StatusUnauthorized:
		code = cmp.Or(code, "invalid_api_key")
	case c.Status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	return c.errorOf(kind, code)
}

// errorOf returns an error body of the type kind, with the scripted error's message; its code is null if empty.
func (c chat) errorOf(kind, code string) object {
	o := object{"message": c.errorText(), "type": kind, "param": nil, "code": nil}
	if code != "" {
		o["code"] = code
	}
	return object{"error": o}
}

// brokenEvent returns the event that ends a stream with the scripted error.
func (c chat) brokenEvent() event { return event{data: c.errorOf("server_error", c.Error)} }

// completions is OpenAI's API of before the chat.
type completions struct{ chat }

// wholeBody returns the complete text completion, with its usage unless NoUsage is set.
func (c completions) wholeBody() any {
	return c.addUsage(c.frame("text_completion", c.choice(c.Text, "stop")), "usage", c.usageObject())
}

// events returns the chunks of a stream: the pieces of the text, the finish reason, the usage if requested, and
// [DONE].
func (c completions) events() []event {
	var choices []object
	for _, piece := range c.pieces() {
		choices = append(choices, c.choice(piece, nil))
	}
	return c.chunks("text_completion", append(choices, c.choice("", "stop")))
}

// choice returns a choice object with a text and a finish reason, which is nil before the end.
func (c completions) choice(text string, finish any) object {
	return object{"index": 0, "text": text, "logprobs": nil, "finish_reason": finish}
}

// embeddings returns the dialect that answers with a vector for each input, in one body. It sets the reply's
// output to 0; the usage has a prompt only.
func (a *reply) embeddings() dialect {
	a.u.Output, a.u.Reasoning, a.form = 0, 0, none
	inputs := 1
	if all, ok := a.asked["input"].([]any); ok && len(all) > 0 {
		if _, token := all[0].(float64); !token {
			inputs = len(all)
		}
	}
	vectors := make([]object, inputs)
	for i := range vectors {
		vectors[i] = object{"object": "embedding", "index": i, "embedding": []float64{0.6, 0.8}}
	}
	body := object{"object": "list", "model": a.Model, "data": vectors}
	return fixed{chat{a}, a.addUsage(body, "usage", object{"prompt_tokens": a.u.prompt(), "total_tokens": a.u.prompt()})}
}
