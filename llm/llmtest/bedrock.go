package llmtest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
)

// amazon is the common part of Bedrock's dialects.
type amazon struct{ *reply }

// header sets the request id of an answer in h.
func (a amazon) header(h http.Header) { h.Set("X-Amzn-Requestid", a.newID("00000000-0000-4000-8000-")) }

// amazonErrors are the names of errors by their status.
var amazonErrors = map[int]string{
	400: "ValidationException", 403: "AccessDeniedException", 404: "ResourceNotFoundException", 408: "ModelTimeoutException",
	424: "ModelErrorException", 429: "ThrottlingException", 503: "ServiceUnavailableException",
}

// errorBody returns the error body, and sets the error's name, by Code or else Status, in the header h.
func (a amazon) errorBody(h http.Header) any {
	h.Set("X-Amzn-Errortype", cmp.Or(a.Code, amazonErrors[a.Status], "InternalServerException"))
	return object{"message": a.errorText()}
}

// brokenEvent returns the exception that ends a stream with the scripted error.
func (a amazon) brokenEvent() event {
	return event{name: a.Error, data: object{"message": a.errorText()}, exception: true}
}

// invoke is InvokeModel of an Anthropic model.
type invoke struct {
	messages
	amazon amazon
}

// header sets the headers of an answer in h. A single body's usage is in headers too, unless NoUsage is set or
// the status is 300 or more.
func (i invoke) header(h http.Header) {
	i.amazon.header(h)
	if i.form == aws {
		h.Set("X-Amzn-Bedrock-Content-Type", "application/json")
		return
	}
	if i.NoUsage || i.Status >= http.StatusMultipleChoices {
		return
	}
	h.Set("X-Amzn-Bedrock-Invocation-Latency", "1")
	for name, n := range map[string]int64{
		"Input": i.u.Input, "Output": i.u.Output, "Cache-Read-Input": i.u.CacheRead, "Cache-Write-Input": i.u.CacheWrite + i.u.CacheWrite1h,
	} {
		h.Set("X-Amzn-Bedrock-"+name+"-Token-Count", strconv.FormatInt(n, 10))
	}
}

// events returns Anthropic's events as chunks in base64. The last one also has Bedrock's invocation metrics,
// unless NoUsage is set.
func (i invoke) events() []event {
	events := i.messages.events()
	if !i.NoUsage {
		events[len(events)-1].data.(object)["amazon-bedrock-invocationMetrics"] = object{
			"inputTokenCount": i.u.Input, "outputTokenCount": i.u.Output, "invocationLatency": 1, "firstByteLatency": 1,
			"cacheReadInputTokenCount": i.u.CacheRead, "cacheWriteInputTokenCount": i.u.CacheWrite + i.u.CacheWrite1h,
		}
	}
	for n, e := range events {
		b, _ := json.Marshal(e.data) // objects of texts and numbers
		events[n] = event{name: "chunk", data: object{"bytes": base64.StdEncoding.EncodeToString(b), "p": "abcdefgh"}}
	}
	return events
}

// errorBody returns Bedrock's error, not Anthropic's.
func (i invoke) errorBody(h http.Header) any { return i.amazon.errorBody(h) }

// brokenEvent returns Bedrock's exception, not Anthropic's event.
func (i invoke) brokenEvent() event { return i.amazon.brokenEvent() }

// converse is Bedrock's Converse.
type converse struct{ amazon }

// usageObject returns the JSON usage in tokens, with the cache writes by lifetime. No count includes another,
// except for the total.
func (c converse) usageObject() object {
	o := object{
		"inputTokens": c.u.Input, "outputTokens": c.u.Output, "totalTokens": c.u.total(),
		"cacheReadInputTokens": c.u.CacheRead, "cacheWriteInputTokens": c.u.CacheWrite + c.u.CacheWrite1h,
	}
	var details []object
	if c.u.CacheWrite1h > 0 {
		details = append(details, object{"ttl": "1h", "inputTokens": c.u.CacheWrite1h})
	}
	if c.u.CacheWrite > 0 {
		details = append(details, object{"ttl": "5m", "inputTokens": c.u.CacheWrite})
	}
	if details != nil {
		o["cacheDetails"] = details
	}
	return o
}

// addMetrics adds latency, tier and, unless NoUsage is set, usage to the object o of an answer, in place, and
// returns o.
func (c converse) addMetrics(o object) object {
	o["metrics"] = object{"latencyMs": 1}
	if c.Tier != "" {
		o["serviceTier"] = object{"type": c.Tier}
	}
	return c.addUsage(o, "usage", c.usageObject())
}

// wholeBody returns the complete answer, with its latency, tier and, unless NoUsage is set, usage.
func (c converse) wholeBody() any {
	message := object{"role": "assistant", "content": []any{object{"text": c.Text}}}
	return c.addMetrics(object{"output": object{"message": message}, "stopReason": "end_turn"})
}

// events returns the events of a stream, from messageStart to metadata, which has the usage unless NoUsage is
// set.
func (c converse) events() []event {
	events := []event{{name: "messageStart", data: object{"role": "assistant", "p": "abcd"}}}
	for _, piece := range c.pieces() {
		events = append(events, event{name: "contentBlockDelta", data: object{"contentBlockIndex": 0, "delta": object{"text": piece}, "p": "abcdefgh"}})
	}
	return append(events,
		event{name: "contentBlockStop", data: object{"contentBlockIndex": 0, "p": "ab"}},
		event{name: "messageStop", data: object{"stopReason": "end_turn", "p": "abc"}},
		event{name: "metadata", data: c.addMetrics(object{"p": "abcde"})})
}
