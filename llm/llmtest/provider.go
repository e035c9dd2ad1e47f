// Package llmtest is for the tests of services that call models: a provider that answers by
// script, in the dialects of OpenAI, Anthropic, Bedrock and Gemini, whole and streamed. Nothing
// leaves the process.
//
//	provider := llmtest.New(t)
//	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: provider.Transport()}))
//	provider.Next(llmtest.Answer{Input: 700, Output: 50}, llmtest.Answer{Status: 429, RetryAfter: time.Second})
//	… // the first call is answered, the second one denied
//	provider.Calls()[0].Billed // the usage that the service should have counted
//
// The provider recognises a request by its path, under any host and prefix, so it also knows the routes of
// Azure, of Vertex, and of Bedrock in OpenAI's dialect. It answers an unknown request with
// 404, unless the script has a Status or a Body for it.
package llmtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Provider is a provider for one test. It is an http.Handler, and safe for concurrent use.
type Provider struct {
	t testing.TB

	mu     sync.Mutex
	script []Answer
	calls  []Call
	server *httptest.Server
}

// Call is a request that arrived.
type Call struct {
	// Method is the HTTP method.
	Method string
	// Path is the path on the wire, escaped, with the query.
	Path string
	// Header is the request's header.
	Header http.Header
	// Body is the request's whole body.
	Body []byte
	// Billed is the usage that the answer reported, or would have reported: also of a stream that broke
	// or ended in an error. It is zero for a status of 300 or more and for counting tokens.
	Billed Usage
	// Left is true if the client went away before the answer's end. Over a socket the provider notices it
	// a little later, and not at all once the rest is sent.
	Left bool
}

// New makes a provider that answers every call with Answer{} until Next scripts another answer. Its server and
// open calls end with the test.
func New(t testing.TB) *Provider { return &Provider{t: t} }

// Next scripts the answers to the next calls, in their order, after the earlier scripted ones; each answers one
// call. Further calls get Answer{} again.
func (p *Provider) Next(answers ...Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = append(p.script, answers...)
}

// Calls returns a copy of the list of the requests that arrived so far, in their order, with their bodies and
// billed usage.
func (p *Provider) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// URL returns the address of a server on this machine, without a slash at its end. The first call starts the
// server; it ends with the test. It needs sockets, which a bubble of testing/synctest does not support: see
// Transport.
func (p *Provider) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		p.server = httptest.NewServer(p)
		p.t.Cleanup(func() {
			p.server.CloseClientConnections() // ends what waits for a Delay or a Hold
			p.server.Close()
		})
	}
	return p.server.URL
}

// ServeHTTP records a request and answers it by the script. It panics with http.ErrAbortHandler, as net/http
// requires, if the script cuts the answer. A client that leaves early is marked in its Call.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away before it had asked
	}
	call, a := p.recordCall(r, body)
	if err := a.serve(w, r); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls[call].Left = true
	}
}

// recordCall records a call with its billed usage, takes its scripted answer off the script, and returns that
// with the call's index in p.calls.
func (p *Provider) recordCall(r *http.Request, body []byte) (call int, a served) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var answer Answer
	if len(p.script) > 0 {
		answer, p.script = p.script[0], p.script[1:]
	}
	a = newServed(answer, r, body, len(p.calls)+1)
	p.calls = append(p.calls, Call{r.Method, r.URL.RequestURI(), r.Header.Clone(), body, a.billed(), false})
	return len(p.calls) - 1, a
}
