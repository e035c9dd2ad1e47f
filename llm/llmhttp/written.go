package llmhttp

import (
	"bytes"
	"context"
	"io"
	"net/http/httptrace"
	"sync/atomic"
)

// written knows whether a request was sent. A transport that tells its steps says so itself; of
// another one, a request whose body was read was sent.
type written struct{ connected, wrote, read atomic.Bool }

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

func (w *written) sent() bool {
	if w.connected.Load() {
		return w.wrote.Load()
	}
	return w.read.Load()
}

// body is a request's body that notes its first read.
func (w *written) body(b []byte) io.ReadCloser {
	return &noted{Reader: bytes.NewReader(b), read: &w.read}
}

type noted struct {
	io.Reader
	read *atomic.Bool
}

// Read notes that the body is read.
func (n *noted) Read(p []byte) (int, error) {
	n.read.Store(true)
	return n.Reader.Read(p)
}

// Close does nothing.
func (n *noted) Close() error { return nil }
