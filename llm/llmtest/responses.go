package llmtest

import "net/http"

// responses is OpenAI's Responses.
type responses struct{ *reply }

// header sets the same header as Chat Completions do.
func (r responses) header(h http.Header) { chat(r).header(h) }

// errorBody returns the same error as Chat Completions do.
func (r responses) errorBody(h http.Header) any { return chat(r).errorBody(h) }

// wholeBody returns the completed Response, with its usage unless NoUsage is set.
func (r responses) wholeBody() any { return r.response("completed", r.item("completed", r.Text)) }

// response returns a Response object with a status and output items. It has the usage unless it is in progress
// or NoUsage is set.
func (r responses) response(status string, items ...any) object {
	if items == nil {
		items = []any{}
	}
	o := object{
		"id": r.newID("resp_"), "object": "response", "created_at": created, "status": status, "model": r.Model, "output": items,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{}, "parallel_tool_calls": true,
		"temperature": 1, "tool_choice": "auto", "tools": []any{}, "top_p": 1,
	}
	if status == "in_progress" {
		o["usage"] = nil
		return o
	}
	if r.Tier != "" {
		o["service_tier"] = r.Tier
	}
	return r.addUsage(o, "usage", object{
		"input_tokens": r.u.prompt(), "output_tokens": r.u.Output, "total_tokens": r.u.total(),
		"input_tokens_details": r.cachedInput(), "output_tokens_details": object{"reasoning_tokens": r.u.Reasoning},
	})
}

// item returns the message as an output item, without content if text is empty.
func (r responses) item(status, text string) object {
	o := object{"type": "message", "id": r.newID("msg_"), "status": status, "role": "assistant", "content": []any{}}
	if text != "" {
		o["content"] = []any{r.part(text)}
	}
	return o
}

// part returns the content of a message with that text.
func (r responses) part(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// events returns the events of a stream, from response.created to response.completed, which has the usage
// unless NoUsage is set.
func (r responses) events() []event {
	var events []event
	add := func(name string, o object) {
		o["type"], o["sequence_number"] = name, len(events)
		events = append(events, event{name: name, data: o})
	}
	content := func(key string, value any) object {
		return object{"item_id": r.newID("msg_"), "output_index": 0, "content_index": 0, key: value}
	}
	add("response.created", object{"response": r.response("in_progress")})
	add("response.in_progress", object{"response": r.response("in_progress")})
	add("response.output_item.added", object{"output_index": 0, "item": r.item("in_progress", "")})
	add("response.content_part.added", content("part", r.part("")))
	for _, piece := range r.pieces() {
		add("response.output_text.delta", content("delta", piece))
	}
	add("response.output_text.done", content("text", r.Text))
	add("response.content_part.done", content("part", r.part(r.Text)))
	add("response.output_item.done", object{"output_index": 0, "item": r.item("completed", r.Text)})
	add("response.completed", object{"response": r.wholeBody()})
	return events
}

// brokenEvent returns the event that ends a stream with the error: response.failed with the usage, or error
// if NoUsage is set.
func (r responses) brokenEvent() event {
	if r.NoUsage {
		return event{name: "error", data: object{
			"type": "error", "code": r.Error, "message": r.errorText(), "param": nil, "sequence_number": r.ErrorAfter,
		}}
	}
	failed := r.response("failed")
	failed["error"] = object{"code": r.Error, "message": r.errorText()}
	return event{name: "response.failed", data: object{"type": "response.failed", "sequence_number": r.ErrorAfter, "response": failed}}
}
