package llmtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
)

// Transport returns a transport that sends requests to the provider without a socket, so that it works in a
// bubble of testing/synctest. A cancelled request fails; a body closed early has ended for the provider when
// Close returns. Like net/http it reports to an httptrace.ClientTrace; it decompresses nothing.
func (p *Provider) Transport() http.RoundTripper { return transport{p} }

type transport struct{ p *Provider }

var errEnded = errors.New("llmtest: the test of this provider has ended")

// RoundTrip serves the request on a goroutine and returns as soon as the header is written. The body arrives as
// the provider writes it. It fails if the provider cuts the answer before its header, or if the request or the
// test ends.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	in, err := readSent(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	read, write := io.Pipe()
	w := &writer{header: http.Header{}, body: write, ready: make(chan struct{})}
	done := make(chan struct{})
	ended := context.AfterFunc(t.p.t.Context(), func() { cancel(errEnded) })
	cut := context.AfterFunc(ctx, func() { write.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer close(done)
		write.CloseWithError(cmp.Or(t.p.serveCall(w, in.WithContext(ctx)), context.Cause(ctx)))
		cut()
		ended()
		cancel(nil)
	}()
	select {
	case <-w.ready:
	case <-done:
	case <-ctx.Done():
		<-done
	}
	trace := httptrace.ContextClientTrace(r.Context())
	select {
	case <-w.ready:
		if trace != nil && trace.GotFirstResponseByte != nil {
			trace.GotFirstResponseByte()
		}
		return w.response(r, &answerBody{read, func() { cancel(nil); <-done }}), nil
	default:
		_, err := read.Read(nil)
		return nil, err
	}
}

// readSent reads and closes the body of r and returns the request as a server receives it. It reports it as
// written to an httptrace.ClientTrace. It fails if the body does or if r's context has ended.
func readSent(r *http.Request) (*http.Request, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	in := r.Clone(r.Context())
	in.RequestURI, in.Body, in.ContentLength = r.URL.RequestURI(), io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
	return in, nil
}

// serveCall serves a request by ServeHTTP. It returns nil after a complete answer, and io.ErrUnexpectedEOF
// after one that the script cut. Other panics continue.
func (p *Provider) serveCall(w *writer, r *http.Request) (err error) {
	defer func() {
		switch broken := recover(); broken {
		case nil:
		case http.ErrAbortHandler:
			err = io.ErrUnexpectedEOF
		default:
			panic(broken)
		}
	}()
	p.ServeHTTP(w, r)
	return nil
}

// writer is an http.ResponseWriter whose reader is in the process.
type writer struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	ready  chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
}

// Header returns the header to set before WriteHeader; changes after it have no effect.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader stores the first status with a copy of the header and lets RoundTrip return. Further calls do
// nothing.
func (w *writer) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.ready)
	})
}

// Write sends b to the reader of the body and waits until it is read. It fails once the body is closed. It
// writes the status 200 if WriteHeader was not called.
func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(b) == 0 {
		return 0, nil // a pipe would wait for a reader
	}
	return w.body.Write(b)
}

// Flush does nothing, because Write holds nothing back.
func (w *writer) Flush() {}

// response returns the response to r with body, and with the status and header that the handler has written.
// Its length is -1, unknown, without a Content-Length.
func (w *writer) response(r *http.Request, body io.ReadCloser) *http.Response {
	size, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64)
	if err != nil {
		size = -1
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: size, Request: r,
	}
}

// answerBody is a response's body.
type answerBody struct {
	*io.PipeReader
	leave func()
}

// Close ends the call for the provider, which sees that the reader has left, and waits until the provider has
// returned.
func (a *answerBody) Close() error {
	err := a.PipeReader.Close()
	a.leave()
	return err
}
