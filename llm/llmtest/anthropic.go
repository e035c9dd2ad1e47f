package llmtest

import (
	"cmp"
	"net/http"
	"strings"
)

// messages is Anthropic's Messages.
type messages struct{ *reply }

// header sets the request id of an answer in h.
func (m messages) header(h http.Header) { h.Set("Request-Id", m.newID("req_")) }

// wholeBody returns the complete message, with its usage unless NoUsage is set.
func (m messages) wholeBody() any {
	return m.message([]any{object{"type": "text", "text": m.Text}}, "end_turn", m.usageObject(m.u.Output))
}

// message returns a message object with the given content, stop reason and usage so far, which it leaves out
// under NoUsage. It adds the cache and tier to usage in place.
func (m messages) message(content []any, stop any, usage object) object {
	usage["cache_creation"] = object{"ephemeral_5m_input_tokens": m.u.CacheWrite, "ephemeral_1h_input_tokens": m.u.CacheWrite1h}
	usage["service_tier"] = cmp.Or(m.Tier, "standard")
	return m.addUsage(object{
		"id": m.newID("msg_"), "type": "message", "role": "assistant", "model": m.Model,
		"content": content, "stop_reason": stop, "stop_sequence": nil,
	}, "usage", usage)
}

// usageObject returns the JSON usage with the given number of output tokens. No count includes another, except
// that thinking is part of the output.
func (m messages) usageObject(output int64) object {
	o := object{
		"input_tokens": m.u.Input, "output_tokens": output,
		"cache_read_input_tokens": m.u.CacheRead, "cache_creation_input_tokens": m.u.CacheWrite + m.u.CacheWrite1h,
	}
	if m.u.Reasoning > 0 {
		o["output_tokens_details"] = object{"thinking_tokens": min(m.u.Reasoning, output)}
	}
	return o
}

// events returns the events of a stream, from message_start to message_stop. Two message_delta events have the
// cumulative usage, first with half of the output.
func (m messages) events() []event {
	var events []event
	add := func(name string, o object) {
		o["type"] = name
		events = append(events, event{name: name, data: o})
	}
	delta := func(stop any, output int64) object {
		return m.addUsage(object{"delta": object{"stop_reason": stop, "stop_sequence": nil}}, "usage", m.usageObject(output))
	}
	add("message_start", object{"message": m.message([]any{}, nil, m.usageObject(min(m.u.Output, 1)))})
	add("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
	add("ping", object{})
	for _, piece := range m.pieces() {
		add("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": piece}})
	}
	add("content_block_stop", object{"index": 0})
	add("message_delta", delta(nil, m.u.Output/2)) // the counts are sums so far: the last one is right
	add("message_delta", delta("end_turn", m.u.Output))
	add("message_stop", object{})
	return events
}

// anthropicErrors are the types of errors by their status.
var anthropicErrors = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
}

// errorBody returns the error body for Status and Code, and sets the Retry-After header in h if the script has
// one. A Code of another form than an error type goes into the details.
func (m messages) errorBody(h http.Header) any {
	if m.RetryAfter > 0 {
		h.Set("Retry-After", seconds(m.RetryAfter))
	}
	kind := cmp.Or(anthropicErrors[m.Status], "api_error")
	if m.Code == "" || strings.HasSuffix(m.Code, "_error") || m.Code == "request_too_large" {
		return m.errorOf(cmp.Or(m.Code, kind))
	}
	o := m.errorOf(kind) // such as enforced_spend_limit_reached
	o["error"].(object)["details"] = object{"error_code": m.Code}
	return o
}

// errorOf returns an error body of the type kind, with the scripted error's message.
func (m messages) errorOf(kind string) object {
	return object{"type": "error", "error": object{"type": kind, "message": m.errorText()}, "request_id": m.newID("req_")}
}

// brokenEvent returns the event that ends a stream with the scripted error.
func (m messages) brokenEvent() event { return event{name: "error", data: m.errorOf(m.Error)} }
