package ddb

import (
	"context"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// A pooled connection may be dead although DynamoDB answers: a NAT or a firewall has dropped it, or this
// machine slept. A failure on a pooled connection is therefore no sign of an outage. A probe on a new
// connection decides.

// probe is one check of the table on a new connection, by one or several requests.
type probe struct {
	closed sync.Once // the idle connections, before the first request
}

// probeKey is the key of a *probe in the context of its requests.
type probeKey struct{}

// mostBeside bounds the requests of one check.
const mostBeside = 512

// probeAnew asks whether the table answers on a new connection, and returns the diagnosis of the deciding
// request. It closes the idle connections first. If a client cannot close them, it repeats the request at once
// until one is answered or fails on a new connection.
func probeAnew(ctx context.Context, request func(context.Context) error) Diagnosis {
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

// isWhole reports whether DynamoDB answered, and the answer came complete.
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

// answersAnew reports whether the table answers a check on a connection that was opened after began, the start
// of an HTTP request. It waits for a check that began since, or starts one, at most until ctx ends. It is false
// without a Probe, and if no check may start: during an outage, or within ten seconds of the last.
func (b *Breaker) answersAnew(ctx context.Context, began time.Time) bool {
	if b == nil || b.opts.Probe == nil {
		return false
	}
	b.mu.Lock()
	asks := !b.outage.open && !b.stopped
	b.mu.Unlock()
	k := b.checks.findCheck(began)
	if k == nil && asks {
		k = b.checks.startProbe(b.opts.Probe)
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

// findCheck returns the last check if it began after an HTTP request did, so that its result counts for that
// request too; else nil.
func (c *checks) findCheck(request time.Time) *check {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && !request.After(c.last.began) {
		return c.last
	}
	return nil
}

// noteProbe starts a check in the background, which sends request on a new connection to see whether the table
// still answers, and returns it. It returns nil if the last check began within ten seconds: a connection that
// new is not the cause of the silence.
func (c *checks) startProbe(request func(context.Context) error) *check {
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
		k.answered = probeAnew(ctx, request).isWhole()
	}()
	return k
}

// cancelCheck cancels the last check, if it is in flight; it then ends without an answer.
func (c *checks) cancelCheck() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		c.last.end()
	}
}
