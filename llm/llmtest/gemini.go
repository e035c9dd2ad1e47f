package llmtest

import (
	"cmp"
	"net/http"
	"strconv"
)

// gemini is Google's generateContent, of Gemini and of Vertex.
type gemini struct{ *reply }

// header sets nothing: Gemini's answers have no header of their own.
func (g gemini) header(http.Header) {}

// response returns a whole reply or a piece of one, with the usage so far unless NoUsage is set. The prompt
// includes cached input, and output excludes thoughts. A finish of "" leaves out the finish reason.
func (g gemini) response(text, finish string, output int64) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": []any{object{"text": text}}}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	counts := object{
		"promptTokenCount": g.u.prompt(), "candidatesTokenCount": output, "totalTokenCount": g.u.prompt() + output + g.u.Reasoning,
		"promptTokensDetails": []any{object{"modality": "TEXT", "tokenCount": g.u.prompt()}},
	}
	if g.u.CacheRead > 0 {
		counts["cachedContentTokenCount"] = g.u.CacheRead
	}
	if g.u.Reasoning > 0 {
		counts["thoughtsTokenCount"] = g.u.Reasoning
	}
	if g.Tier != "" {
		counts["trafficType"] = g.Tier
	}
	return g.addUsage(object{
		"candidates": []any{candidate}, "modelVersion": g.Model, "responseId": g.newID("r"),
	}, "usageMetadata", counts)
}

// wholeBody returns the complete response, with its usage unless NoUsage is set.
func (g gemini) wholeBody() any { return g.response(g.Text, "STOP", g.u.Output-g.u.Reasoning) }

// events returns the pieces of a stream. Each has the usage so far, unless NoUsage is set, and the last the
// finish reason.
func (g gemini) events() []event {
	events := make([]event, g.Events)
	for i, piece := range g.pieces() {
		finish := ""
		if i == len(events)-1 {
			finish = "STOP"
		}
		events[i] = event{data: g.response(piece, finish, (g.u.Output-g.u.Reasoning)*int64(i+1)/int64(len(events)))}
	}
	return events
}

// statuses are Google's names of statuses.
var statuses = map[int]string{
	400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
	500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}

// errorBody returns the error for Status and Code. RetryAfter is among its details.
func (g gemini) errorBody(http.Header) any {
	o := object{"code": g.Status, "message": g.errorText(), "status": cmp.Or(g.Code, statuses[g.Status], "UNKNOWN")}
	if g.RetryAfter > 0 {
		delay := strconv.FormatFloat(g.RetryAfter.Seconds(), 'f', -1, 64) + "s"
		o["details"] = []any{object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}}
	}
	return object{"error": o}
}

// brokenEvent returns the event of an error with the status name Error and its code, 500 for an unknown name.
func (g gemini) brokenEvent() event {
	code := http.StatusInternalServerError
	for status, name := range statuses {
		if name == g.Error {
			code = status
		}
	}
	return event{data: object{"error": object{"code": code, "message": g.errorText(), "status": g.Error}}}
}

// geminiEmbeddings returns the dialect that answers an embedding method with a vector for each text. It sets
// the reply's output to 0. Only predict reports a usage.
func (a *reply) geminiEmbeddings(method string) dialect {
	a.u.Output, a.u.Reasoning = 0, 0
	vectors := func(key string) []object {
		all, _ := a.asked[key].([]any)
		vectors := make([]object, max(len(all), 1))
		for i := range vectors {
			vectors[i] = object{"values": []float64{0.6, 0.8}}
		}
		return vectors
	}
	switch method {
	case "batchEmbedContents":
		return fixed{gemini{a}, object{"embeddings": vectors("requests")}}
	case "predict":
		predictions := vectors("instances")
		for i, v := range predictions {
			var tokens int64
			if i == 0 { // the others report 0, so that the sum is right
				tokens = a.u.prompt()
			}
			predictions[i] = object{"embeddings": a.addUsage(v, "statistics", object{"token_count": tokens, "truncated": false})}
		}
		return fixed{gemini{a}, object{"predictions": predictions}}
	}
	return fixed{gemini{a}, object{"embedding": vectors("")[0]}}
}
