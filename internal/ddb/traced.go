package ddb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// tracedRequest observes the SDK's tries of one request, as its HTTP client and as its retryer. The retryer
// decides as the request's own does, with one exception. A signature that was refused for its date is always
// sent again once, with the date of the answer, because nothing was applied.
type tracedRequest struct {
	client  *Client
	breaker *Breaker // may be nil
	ctx     context.Context
	// next and retryer are the request's own. next is nil unless the user's client is the SDK's.
	next    aws.HTTPClient
	retryer aws.RetryerV2
	// tries counts the HTTP requests. pending means that ctx ended before the last one had an outcome.
	// Otherwise last is its outcome.
	tries   int
	pending bool
	last    Diagnosis
	// answered means that DynamoDB answered a try. marked means that the last answer has a
	// mark of DynamoDB.
	answered, marked bool
	// pooled is the start of the last HTTP request if the header of its answer came on a pooled connection;
	// zero otherwise. dead means that its connection was dead.
	pooled time.Time
	dead   bool
	// waiting is the wait for the answer to an HTTP request.
	waiting waiting
	// refused means that the SDK's rate limit refused a try. redated means that a signature was refused for
	// its date, and redating that the request is being sent again for that reason.
	refused, redated, redating bool
	opts                       [3]func(*dynamodb.Options) // room for those of the request
}

// addTo makes t the HTTP client and the retryer in o, for one request of the SDK, and stores those that o had
// in t. The retryer's waits are then at most 400 ms. A client of Client.Once never retries.
func (t *tracedRequest) addTo(o *dynamodb.Options) {
	t.next, o.HTTPClient = o.HTTPClient, t
	own := o.Retryer
	if t.client.once {
		own = aws.NopRetryer{}
	} else if _, off := own.(aws.NopRetryer); !off {
		own = retry.AddWithMaxBackoffDelay(own, longestRetryDelay)
	}
	t.retryer = own.(aws.RetryerV2) // NopRetryer is one, and so are the SDK's wrappers
	o.Retryer = t
}

// Do sends one HTTP request, a try of the SDK's request, and counts it. It shows the answer's date to the
// clock, and records whether the answer has DynamoDB's marks. A failure returns the connection's error. If a
// pooled connection breaks, or answers nothing for half of the request's timeout, the breaker probes the table on
// a new connection. If the table answers there, the pooled connection is closed. The try then ends with
// errDeadConnection and does not count as silence.
func (t *tracedRequest) Do(r *http.Request) (*http.Response, error) {
	t.tries++
	t.pending = true
	t.dead, t.pooled = false, time.Time{}
	asked, ctx := t.client.clock.Source(), r.Context()
	var response *http.Response
	var err error
	if p, ok := ctx.Value(probeKey{}).(*probe); ok {
		p.closed.Do(func() { closeIdle(t.next) })
		response, err = t.next.Do(r)
	} else {
		began, fromPool := time.Now(), false
		response, fromPool, err = t.waiting.sendWatched(t.next, r, began)
		switch {
		case !fromPool || callerEnded(ctx):
		case err == nil: // the body has to be read yet
			t.pooled = began
		case t.answersAnew(ctx, began):
			t.dead, err = true, errors.Join(errDeadConnection, err)
		}
	}
	if err != nil {
		return response, err
	}
	t.client.clock.Observe(response.Header, asked)
	t.marked = slices.ContainsFunc(marks[:], func(name string) bool { return len(response.Header[name]) > 0 })
	return response, nil
}

// IsErrorRetryable reports whether to send the request again. The SDK calls it after each failed try. It also
// records the outcome of the try. If a pooled connection died, it waits until a probe of the table on a new
// connection has ended.
func (t *tracedRequest) IsErrorRetryable(err error) bool {
	t.pending = t.pending && t.ctx.Err() != nil
	t.checkBody(err)
	if t.last = Classify(err, t.ctx); t.dead {
		t.last.Silent = false
	}
	if t.last.Answered {
		t.answered = true
		t.breaker.recordTry()
	}
	tries := t.tries
	if t.redated {
		tries--
	}
	t.redating = !t.redated && isMisdated(err)
	t.redated = t.redated || t.redating
	most := t.retryer.MaxAttempts()
	return t.redating || (t.retryer.IsErrorRetryable(err) || isCut(err)) && (most <= 0 || tries < most)
}

// MaxAttempts implements aws.RetryerV2. It returns the bound of the request's own retryer plus one, for a
// signature that was refused for its date; 0 for no bound.
func (t *tracedRequest) MaxAttempts() int {
	if most := t.retryer.MaxAttempts(); most > 0 {
		return most + 1
	}
	return 0
}

// RetryDelay returns the request's own delay before the next try, and 0 to correct a signature's date.
func (t *tracedRequest) RetryDelay(attempt int, err error) (time.Duration, error) {
	if t.redating {
		return 0, nil
	}
	return t.retryer.RetryDelay(attempt, err)
}

// GetRetryToken returns the request's own token for a retry, and a free one to correct a signature's date.
func (t *tracedRequest) GetRetryToken(ctx context.Context, err error) (func(error) error, error) {
	if t.redating {
		return func(error) error { return nil }, nil
	}
	return t.retryer.GetRetryToken(ctx, err)
}

// GetInitialToken returns the token of the request's own retryer.
func (t *tracedRequest) GetInitialToken() func(error) error {
	return t.retryer.GetInitialToken() //nolint:staticcheck // part of the interface
}

// GetAttemptToken returns the request's own token for a try, and records whether it was refused. In the
// adaptive mode it waits.
func (t *tracedRequest) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	release, err := t.retryer.GetAttemptToken(ctx)
	t.refused = err != nil
	return release, err
}

// isMisdated reports whether a signature was refused because its date is far from the answer's. The SDK
// compares them, and corrects the next signature.
func isMisdated(err error) bool {
	var api smithy.APIError
	var marked interface{ RetryableError() bool }
	return errors.As(err, &api) && codes[api.ErrorCode()].setting && errors.As(err, &marked) && marked.RetryableError()
}

// correctDiagnosis returns d corrected by the outcomes of the tries. If the request ended between two tries,
// the SDK in this process held it back: the outcome of the last try counts or, without a try, nothing was sent.
// If a try was answered, or a pooled connection was dead, it is no silence.
func (t *tracedRequest) correctDiagnosis(d Diagnosis, timeout time.Duration) Diagnosis {
	switch held := !t.pending && (d.expired || t.refused); {
	case t.next == nil || d.Err == nil:
	case failedForCredentials(d.Err):
		if d.expired {
			d.Err = &slowCredentialsError{timeout, d.Err}
		}
	case held && t.tries > 0:
		cause := d.Err
		d = t.last
		d.Err = fmt.Errorf("%w: %w", d.Err, cause)
	case held:
		d = Diagnosis{Verdict: Throttled, Err: fmt.Errorf("%w: %w", errHeldBack, d.Err)}
	case t.tries == 0 && d.Verdict == Unconfirmed:
		d.Verdict = Unsent
	}
	if t.answered {
		d.Answered, d.Silent = true, false
	}
	if t.dead {
		d.Silent = false
	}
	return d
}

// marks are headers of DynamoDB: each answer has at least one of them. They matter for answers that may be
// empty, such as those of transactions.
var marks = [...]string{"X-Amzn-Requestid", "X-Amz-Crc32"}

// errDeadConnection ends an HTTP request on a dead pooled connection: the table answered a later request on a
// new connection.
var errDeadConnection = errors.New("the pooled connection is dead; the table answers on a new one")

// answersAnew closes the client's idle connections, so that the next try dials, and reports whether the table
// answers on a new connection. It waits for that answer until ctx ends.
func (t *tracedRequest) answersAnew(ctx context.Context, began time.Time) bool {
	closeIdle(t.next)
	return t.breaker.answersAnew(ctx, began)
}

// checkBody checks the table on a new connection if an answer on a pooled one broke off, and sets t.dead if the
// table answers there. It closes the client's idle connections for that.
func (t *tracedRequest) checkBody(err error) {
	if !t.pooled.IsZero() && isCut(err) && !callerEnded(t.ctx) {
		t.dead = t.answersAnew(t.ctx, t.pooled)
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

// watchConnections stores the breaker and the timeout in w, and returns a context in which net/http reports the
// connections of HTTP requests to w. It does nothing, and returns ctx itself, if the breaker is nil or has no
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

// sendWatched sends one HTTP request with a client, and returns the client's answer. fromPool means that the
// request's last connection came from the pool. gotConn schedules the check of such a connection, and sendWatched
// cancels it once the answer or an error is there. began is the present time.
func (w *waiting) sendWatched(client aws.HTTPClient, r *http.Request, began time.Time) (response *http.Response, fromPool bool, err error) {
	w.mu.Lock()
	w.turn++
	w.began, w.idled = began, false
	w.mu.Unlock()
	response, err = client.Do(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		w.endWatch()
	}
	return response, w.idled, err
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
		w.breaker.watchdog.schedule(&w.watched, w.turn, time.Now().Add(w.silenceAllowed()))
	}
}

// silenceAllowed returns the time for which a pooled connection may stay without an answer, until a check tests
// the table on a new one: half of the request's time, and at least half of the client's timeout.
func (w *waiting) silenceAllowed() time.Duration {
	timeout := w.timeout
	if deadline, ok := w.ctx.Deadline(); ok {
		timeout = max(timeout, deadline.Sub(w.began)) // a caller's own may be nearer
	}
	return timeout / 2
}

// abortIfDead closes the connection on which a request waits, if the table answers on a new one. It does
// nothing if the request waits on another connection by then; turn numbers the waits.
func (w *waiting) abortIfDead(turn int) {
	w.mu.Lock()
	began, conn, over := w.began, w.conn, w.turn != turn
	w.mu.Unlock()
	if conn == nil || over || !w.breaker.answersAnew(w.ctx, began) {
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

// endWatch ends the wait on w.conn, which is not nil: it forgets the connection, leaves it open, and cancels
// its scheduled check. w.mu must be held.
func (w *waiting) endWatch() {
	w.conn = nil
	w.breaker.watchdog.cancelWatch(&w.watched)
}
