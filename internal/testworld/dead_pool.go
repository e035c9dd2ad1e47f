package testworld

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// DeadPool is an HTTP client whose pooled connections do not answer; also for tests in a bubble
// of virtual time. Only requests of one operation get one of them.
type DeadPool struct {
	// Next sends requests on new connections.
	Next aws.HTTPClient
	// Operation is the operation that gets the dead connections.
	Operation string
	// Dead is how many there are.
	Dead atomic.Int32
}

// Do sends r with Next, unless Dead is positive and r is of Operation. It then subtracts one from Dead, reports
// a reused connection to r's httptrace, and hangs until r's context ends or that connection is closed. That is
// an error.
func (p *DeadPool) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+p.Operation) || p.Dead.Add(-1) < 0 {
		return p.Next.Do(r)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	httptrace.ContextClientTrace(ctx).GotConn(httptrace.GotConnInfo{Conn: Conn{CloseFunc: cancel}, Reused: true})
	<-ctx.Done()
	return nil, cmp.Or(r.Context().Err(), net.ErrClosed)
}

// Conn is a connection that does nothing but close.
type Conn struct {
	net.Conn
	// CloseFunc is called by Close.
	CloseFunc func()
}

// Close calls CloseFunc and returns nil.
func (c Conn) Close() error {
	c.CloseFunc()
	return nil
}
