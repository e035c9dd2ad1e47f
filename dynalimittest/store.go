package dynalimittest

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// FailStore cuts the limiter off from its store: connections fail, so that its outage policy decides. The
// function restore connects it again, and waits until the outage's calls are written to the counters; after 30
// s it fails the test. For lost answers, throttling and latency use DB.SetFaults.
func (l *Limiter) FailStore() (restore func()) {
	l.wire.cut.Store(true)
	return func() {
		l.t.Helper()
		if !l.wire.cut.Swap(false) {
			return
		}
		_, err := admin.New(l.Repo).Limits.GetConfig(l.endlessContext(), admin.Scope{Everyone: true}) // any answer ends the outage
		l.requireNoError("reach the store again", err)
		for range mostLooks {
			if h := l.Health(); !h.Open && h.SilentBuckets == 0 && h.WaitingBuckets == 0 {
				return
			}
			<-time.After(betweenLooks)
		}
		l.t.Errorf("dynalimittest: the limiter does not find back to its store: %+v", l.Health())
	}
}

// mostLooks and betweenLooks bound how long an outage may take to end, to 30 s.
const (
	mostLooks    = 3000
	betweenLooks = 10 * time.Millisecond
)

// wire is the way to the store.
type wire struct {
	next *ddbmem.DB
	cut  atomic.Bool
}

var errCut = errors.New("connection refused by dynalimittest.Limiter.FailStore")

// Do sends a request to the store in memory, as an aws.HTTPClient. It fails with a network error while the
// store is cut off.
func (w *wire) Do(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errCut}
	}
	return w.next.Do(r)
}
