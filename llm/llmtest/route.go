package llmtest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// served is a reply with its form.
type served struct {
	*reply
	dialect
}

// newServed returns the reply to a request with the answer's defaults and the dialect of its path. An unknown
// path costs nothing and gets 404, unless the script has a Body or Status. id is the number of the call.
func newServed(a Answer, r *http.Request, body []byte, id int) served {
	reply := &reply{Answer: a, id: id, u: a.reportedUsage()}
	_ = json.Unmarshal(body, &reply.asked) // a body that is not an object requests nothing
	reply.Text = cmp.Or(a.Text, "Hello.")
	reply.Events = cmp.Or(max(a.Events, 0), 3)
	s := served{reply, reply.findDialect(r.URL)}
	if s.dialect == nil {
		s.dialect, s.u = chat{reply}, Usage{}
		if a.Body == "" {
			s.Status = cmp.Or(a.Status, http.StatusNotFound)
		}
	}
	return s
}

// findDialect returns the dialect of a path, nil if it is unknown. It also sets the reply's model and the form
// of its stream, by path and body.
func (a *reply) findDialect(u *url.URL) dialect {
	path := u.EscapedPath()
	last := path[strings.LastIndexByte(path, '/')+1:]
	before := strings.TrimSuffix(path, "/"+last)
	if strings.Contains(path, "/model/") {
		a.setModel(partAfter(before, "/model/"))
		return a.bedrockDialect(last)
	}
	if model, method, ok := strings.Cut(last, ":"); ok {
		a.setModel(model)
		return a.googleDialect(model, method, u.Query().Get("alt") == "sse")
	}
	if model, ok := a.asked["model"].(string); ok {
		a.setModel(model)
	}
	a.setModel(partAfter(before, "/deployments/"))
	if stream, _ := a.asked["stream"].(bool); stream {
		a.form = sse
	}
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return chat{a}
	case last == "completions":
		return completions{chat{a}}
	case last == "responses":
		return responses{a}
	case last == "embeddings":
		return a.embeddings()
	case last == "input_tokens":
		return a.newCountDialect(chat{a}, object{"object": "response.input_tokens", "input_tokens": a.u.prompt()})
	case last == "messages":
		return messages{a}
	case last == "count_tokens":
		return a.newCountDialect(messages{a}, object{"input_tokens": a.u.prompt()})
	}
	return nil
}

// setModel sets the answering model to the unescaped one, unless the script or an earlier call has set it.
func (a *reply) setModel(model string) {
	if m, err := url.PathUnescape(model); err == nil {
		model = m
	}
	a.Model = cmp.Or(a.Model, model)
}

// bedrockDialect returns the dialect of a method of Bedrock, nil if it is unknown. It also sets the reply's
// form to an AWS stream for a streaming method.
func (a *reply) bedrockDialect(method string) dialect {
	if strings.HasSuffix(method, "-stream") {
		a.form = aws
	}
	switch method {
	case "invoke", "invoke-with-response-stream":
		return invoke{messages{a}, amazon{a}}
	case "converse", "converse-stream":
		return converse{amazon{a}}
	case "count-tokens":
		return a.newCountDialect(converse{amazon{a}}, object{"inputTokens": a.u.prompt()})
	}
	return nil
}

// googleDialect returns the dialect of a method of Gemini or Vertex, nil if it is unknown. It also sets the
// reply's form for a stream: SSE if alt is true or the model is Anthropic's, else an array.
func (a *reply) googleDialect(model, method string, alt bool) dialect {
	switch method {
	case "rawPredict":
		if model == "count-tokens" {
			return a.newCountDialect(messages{a}, object{"input_tokens": a.u.prompt()})
		}
		return messages{a}
	case "streamRawPredict":
		a.form = sse
		return messages{a}
	case "generateContent":
		return gemini{a}
	case "streamGenerateContent":
		a.form = array
		if alt {
			a.form = sse
		}
		return gemini{a}
	case "countTokens":
		return a.newCountDialect(gemini{a}, object{"totalTokens": a.u.prompt()})
	case "embedContent", "batchEmbedContents", "predict":
		return a.geminiEmbeddings(method)
	}
	return nil
}

// partAfter returns the path segment behind the first prefix in path, and "" without the prefix.
func partAfter(path, prefix string) string {
	_, rest, _ := strings.Cut(path, prefix)
	part, _, _ := strings.Cut(rest, "/")
	return part
}
