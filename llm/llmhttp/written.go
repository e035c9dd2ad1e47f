package llmhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// written records whether a request was sent. A transport with httptrace reports it; with any
// other one, a request counts as sent after its body was read.
type written struct {
	connected, wrote, read atomic.Bool
	all                    atomic.Pointer[[]byte] // the body; nil once it was answered
}

// trace returns a context for the request. A transport with httptrace then sets in w that there was a
// connection and that the request was written.
func (w *written) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { w.connected.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				w.wrote.Store(true)
			}
		},
	})
}

// wasSent reports whether the request may have reached the provider: it was written, or, without httptrace,
// its body was read.
func (w *written) wasSent() bool {
	if w.connected.Load() {
		return w.wrote.Load()
	}
	return w.read.Load()
}

// body returns a new reader of the request's body; its first read sets w.read. It fails after releaseBody.
func (w *written) body() (io.ReadCloser, error) {
	b := w.all.Load()
	if b == nil {
		return nil, errAnswered
	}
	return &noted{Reader: bytes.NewReader(*b), read: &w.read}, nil
}

// releaseBody frees the body's memory after the answer has come: an answer refers to its request until it is
// read.
func (w *written) releaseBody() { w.all.Store(nil) }

var errAnswered = errors.New("llmhttp: the request was answered, its body is gone")

type noted struct {
	io.Reader
	read *atomic.Bool
}

// Read reads the body and sets that it was read. At the end or an error it drops its reference to the body,
// which frees the memory.
func (n *noted) Read(p []byte) (int, error) {
	n.read.Store(true)
	read, err := n.Reader.Read(p)
	if err != nil {
		n.Reader = http.NoBody
	}
	return read, err
}

// Close does nothing and returns nil.
func (n *noted) Close() error { return nil }
