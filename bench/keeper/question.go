package keeper

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// question is a request of the API.
type question struct {
	method, path, token string
	body                []byte
}

// loginOf asks for the tokens of a target.
func loginOf(t target) question {
	return question{method: http.MethodPost, path: "/api/v1/auth/token", body: fmt.Appendf(nil, `{"client_id":%q,"client_secret":%q}`, t.id, t.secret)}
}

// questionOf is the request of an arrival of a run. Runs have ids of their own, so that no
// record is a duplicate.
func questionOf(run uint32, a arrival, t target, now time.Time) question {
	if a.kind == selection {
		return question{method: http.MethodGet, path: t.path() + "/model-selection", token: t.token}
	}
	return question{method: http.MethodPost, path: t.path() + "/usage", token: t.token, body: fmt.Appendf(nil,
		`{"request_id":"%08x-0000-4000-8000-%012x","model_label":%q,"model_id":%q,"tokens":{"input":1500,"output":800},"status":"OK","timestamp":%q}`,
		run, a.number, label, model, now.UTC().Format(time.RFC3339Nano))}
}

// append is the request as HTTP/1.1 sends it.
func (q question) append(b []byte, host string) []byte {
	b = fmt.Appendf(b, "%s %s HTTP/1.1\r\nHost: %s\r\n", q.method, q.path, host)
	if q.token != "" {
		b = append(append(append(b, "Authorization: Bearer "...), q.token...), "\r\n"...)
	}
	if q.body != nil {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(q.body)), 10), "\r\n"...)
	}
	return append(append(b, "\r\n"...), q.body...)
}

// request is the request as a handler gets it.
func (q question) request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, "http://keeper"+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = "127.0.0.1:1"
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}
