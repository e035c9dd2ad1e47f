package ddb

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// A pooled connection may be dead although DynamoDB answers: a NAT or a firewall has dropped it, or this
// machine slept. A failure on a pooled connection is therefore no sign of an outage. A probe on a new
// connection decides.

// errDeadConnection ends an HTTP request on a dead pooled connection: the table answered a later request on a
// new connection.
var errDeadConnection = errors.New("the pooled connection is dead; the table answers on a new one")

// exchange sends one HTTP request. If its pooled connection breaks, or answers nothing for half of the
// request's timeout, the breaker probes the table on a new connection. If the table answers there, the pooled
// connection is closed. The request then ends with errDeadConnection and is not silent.
func (t *tracedRequest) exchange(r *http.Request) (*http.Response, error) {
	t.dead, t.pooled = false, time.Time{}
	if p, ok := r.Context().Value(probeKey{}).(*probe); ok {
		p.closed.Do(func() { closeIdle(t.next) })
		return t.next.Do(r)
	}
	began := time.Now()
	t.waiting.recordStart(began)
	response, err := t.next.Do(r)
	switch fromPool := t.waiting.stop(); {
	case !fromPool || callerEnded(r.Context()):
	case err == nil: // the body has to be read yet
		t.pooled = began
	case t.replaced(r.Context(), began):
		t.dead, err = true, errors.Join(errDeadConnection, err)
	}
	return response, err
}

// replaced closes the client's idle connections, so that the next try dials, and reports whether the table
// answers on a new connection. It waits for that answer until ctx ends.
func (t *tracedRequest) replaced(ctx context.Context, began time.Time) bool {
	closeIdle(t.next)
	return t.breaker.outlives(ctx, began)
}

// checkBody checks the table on a new connection if an answer on a pooled one broke off. It sets t.dead if
// the table answers there.
func (t *tracedRequest) checkBody(err error) {
	if !t.pooled.IsZero() && isCut(err) && !callerEnded(t.ctx) {
		t.dead = t.replaced(t.ctx, t.pooled)
	}
}

// closeIdle closes the idle connections of an HTTP client, if the client supports that.
func closeIdle(c aws.HTTPClient) {
	if c, ok := c.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// waiting is an HTTP request that waits for its answer. If a pooled connection answers nothing
// for half of the request's timeout although the table answers on a new one, it is closed.
type waiting struct {
	ctx     context.Context
	breaker *Breaker
	timeout time.Duration
	trace   httptrace.ClientTrace

	mu    sync.Mutex
	began time.Time
	// conn is the pooled connection of the request. It is nil for a new connection, and after the answer.
	// turn counts the requests and their connections.
	conn net.Conn
	turn int
	// idled means that the last connection came from the pool.
	idled bool
	// watched is the wait on conn.
	watched watch
}

// watchConnections returns a context in which net/http reports the connections of HTTP requests, if the breaker has a
// probe.
func (w *waiting) watchConnections(ctx context.Context, b *Breaker, timeout time.Duration) context.Context {
	if b == nil || b.opts.Probe == nil {
		return ctx
	}
	w.breaker, w.timeout, w.watched.of = b, timeout, w
	w.trace.GotConn = w.gotConn
	w.ctx = httptrace.WithClientTrace(ctx, &w.trace)
	return w.ctx
}

// recordStart records the beginning of one HTTP request at the time began; gotConn then starts its check.
func (w *waiting) recordStart(began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	w.began, w.idled = began, false
}

// isPooled reports whether a connection waited in the pool before. It may be unused, dialled for another
// request.
func isPooled(c httptrace.GotConnInfo) bool { return c.Reused || c.WasIdle }

// gotConn records the connection of a request and, if it is pooled, schedules its check. net/http may call it
// several times.
func (w *waiting) gotConn(c httptrace.GotConnInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	if w.conn != nil {
		w.endWatch()
	}
	if w.idled = isPooled(c); w.idled {
		w.conn = c.Conn
		w.breaker.watchdog.add(&w.watched, w.turn, time.Now().Add(w.patience()))
	}
}

// patience returns the time for which a pooled connection may answer nothing.
func (w *waiting) patience() time.Duration {
	timeout := w.timeout
	if deadline, ok := w.ctx.Deadline(); ok {
		timeout = max(timeout, deadline.Sub(w.began)) // a caller's own may be nearer
	}
	return timeout / 2
}

// check closes the connection on which a request waits if the table answers on a new one. It does nothing if
// the request has another turn by then.
func (w *waiting) check(turn int) {
	w.mu.Lock()
	began, conn, over := w.began, w.conn, w.turn != turn
	w.mu.Unlock()
	if conn == nil || over || !w.breaker.outlives(w.ctx, began) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil && w.turn == turn {
		w.conn = nil
		guard.Call(func() { abortConn(conn) }, func(*guard.Ended) {}) // a dialer may wrap it
	}
}

// abortConn closes a connection at once. A TLS close would first send a goodbye, and may wait up to 5 s for it.
func abortConn(conn net.Conn) {
	if c, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = c.NetConn()
	}
	_ = conn.Close()
}

// stop ends the wait and its check. It reports whether the last connection came from the pool.
func (w *waiting) stop() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		w.endWatch()
	}
	return w.idled
}

// endWatch ends the wait on w.conn, which is not nil. w.mu must be held.
func (w *waiting) endWatch() {
	w.conn = nil
	w.breaker.watchdog.remove(&w.watched)
}

// probe is one check of the table on a new connection, by one or several requests.
type probe struct {
	closed sync.Once // the idle connections, before the first request
}

// probeKey is the key of a *probe in the context of its requests.
type probeKey struct{}

// mostBeside bounds the requests of one check.
const mostBeside = 512

// askAnew checks the table on a new connection. It closes the idle connections first. Some clients cannot
// close them: the SDK's BuildableClient, and wrappers. A request may then get a pooled connection, which may
// be dead. So it sends the next request at once, until one is answered or fails on a new connection.
func askAnew(ctx context.Context, request func(context.Context) error) Diagnosis {
	type outcome struct {
		Diagnosis
		pooled bool
	}
	outcomes, more := make(chan outcome, mostBeside), make(chan struct{}, mostBeside)
	ctx, end := context.WithCancel(context.WithValue(ctx, probeKey{}, &probe{}))
	defer end() // of requests that wait on dead connections
	ask := func() {
		var pooled atomic.Bool
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if pooled.Store(isPooled(c)); isPooled(c) {
				select {
				case more <- struct{}{}:
				default: // there are enough
				}
			}
		}})
		d := Classify(guard.Apart(func() error { return request(traced) }), traced)
		outcomes <- outcome{d, pooled.Load()}
	}
	go ask()
	for sent, ended := 1, 0; ; {
		select {
		case <-more:
			if sent < mostBeside {
				sent++
				go ask()
			}
		case o := <-outcomes:
			if ended++; o.isWhole() || !o.pooled || ended == sent && len(more) == 0 || ended == mostBeside {
				return o.Diagnosis
			}
		}
	}
}

// isWhole reports whether the answer came complete.
func (d Diagnosis) isWhole() bool { return d.Answered && d.Verdict != Unconfirmed }

// checks are the checks for requests that wait on pooled connections.
type checks struct {
	mu   sync.Mutex
	last *check
}

// check is a check of the table on a new connection.
type check struct {
	began time.Time
	end   context.CancelFunc
	// done is closed at the end of the check, after answered is set.
	done     chan struct{}
	answered bool
}

// outlives reports whether the table answers on a connection that is younger than an HTTP request. The
// request's own connection is then dead. It waits for that answer until ctx ends.
func (b *Breaker) outlives(ctx context.Context, began time.Time) bool {
	if b == nil || b.opts.Probe == nil {
		return false
	}
	b.mu.Lock()
	asks := !b.outage.open && !b.stopped
	b.mu.Unlock()
	k := b.checks.findCheck(began)
	if k == nil && asks {
		k = b.checks.startCheck(b.opts.Probe)
	}
	if k == nil {
		return false
	}
	select {
	case <-k.done:
		return k.answered
	case <-ctx.Done():
		return false
	}
}

// findCheck returns the check that began after an HTTP request, or nil.
func (c *checks) findCheck(request time.Time) *check {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && !request.After(c.last.began) {
		return c.last
	}
	return nil
}

// startCheck starts a check. It returns nil if the last one began within flapWithin. Younger connections do not
// count as dead: their silence is due to the bucket or the table.
func (c *checks) startCheck(request func(context.Context) error) *check {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.last != nil && now.Sub(c.last.began) < flapWithin {
		return nil
	}
	ctx, end := context.WithCancel(context.Background())
	k := &check{began: now, end: end, done: make(chan struct{})}
	c.last = k
	go func() {
		defer end()
		defer close(k.done)
		k.answered = askAnew(ctx, request).isWhole()
	}()
	return k
}

// cancelCheck cancels the check in flight.
func (c *checks) cancelCheck() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		c.last.end()
	}
}
