package testworld

import (
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// DeadPool is an HTTP client whose pooled connections do not answer; also for tests in a bubble
// of virtual time. Only requests of one operation get one of them.
type DeadPool struct {
	// Next sends what goes out on new connections.
	Next aws.HTTPClient
	// Operation is the operation that gets the dead connections.
	Operation string
	// Dead is how many there are.
	Dead atomic.Int32
}

// Do implements aws.HTTPClient.
func (p *DeadPool) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+p.Operation) || p.Dead.Add(-1) < 0 {
		return p.Next.Do(r)
	}
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Reused: true})
	<-r.Context().Done()
	return nil, r.Context().Err()
}
