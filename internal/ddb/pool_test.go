package ddb

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/testworld"
)

// pool is an HTTP client with idle connections, which are all dead. later answers on new ones.
type pool struct {
	mu         sync.Mutex
	idle, sent int
	dies       wire
	later      wire
}

func (p *pool) Do(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.sent++
	fromPool := p.idle > 0
	if fromPool {
		p.idle--
	}
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	httptrace.ContextClientTrace(ctx).GotConn(httptrace.GotConnInfo{Conn: testworld.Conn{CloseFunc: cancel}, Reused: fromPool})
	if fromPool {
		return p.dies(r.WithContext(ctx))
	}
	return p.later(r)
}

// closable is a pool that can close its idle connections.
type closable struct{ *pool }

func (p closable) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = 0
}

// probed is a client on an HTTP client, with a breaker that asks by itself.
func probed(t *testing.T, on aws.HTTPClient) *Client {
	t.Helper()
	var c *Client
	b := NewBreaker(BreakerOptions{Probe: func(ctx context.Context) error { return write(ctx, c) }})
	t.Cleanup(b.Stop)
	c = Watch(clientOn(nil, func(o *dynamodb.Options) { o.HTTPClient = on }), b, NewClock(time.Now, false), time.Second)
	return c
}

var failed = refuses(400, "ConditionalCheckFailedException")

// A failure on a dead connection says nothing of the table, and the next try is answered.
func TestDeadConnectionSaysNothingOfTheTable(t *testing.T) {
	for how, dies := range map[string]wire{"silent": hangs, "reset": breaks(syscall.ECONNRESET)} {
		for _, closes := range []bool{true, false} {
			for _, idle := range []int{1, 10, 100} {
				t.Run(fmt.Sprint(how, closes, idle), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := &pool{idle: idle, dies: dies, later: failed}
						on := aws.HTTPClient(p)
						if closes {
							on = closable{p}
						}
						c, began := probed(t, on), time.Now()
						d := Classify(write(t.Context(), c), t.Context())
						assert.Equal(t, Unconfirmed.String(), d.Verdict.String(), "it may have landed")
						assert.False(t, d.Silent)
						if how == "silent" {
							assert.Equal(t, 500*time.Millisecond, time.Since(began))
						}
						d = Classify(write(t.Context(), c), t.Context())
						assert.Equal(t, Refused.String(), d.Verdict.String())
						assert.False(t, c.breaker.State().Open)
						if closes {
							assert.Equal(t, 3, p.sent, "the two writes, and one probe")
						} else {
							assert.LessOrEqual(t, p.sent, idle+3, "one for each dead connection, and two or three that were answered")
						}
					})
				})
			}
		}
	}
}

// A table that answers on no connection opens as soon as it would without a pool.
func TestSilentTableOpensOnPooledConnections(t *testing.T) {
	for _, idle := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			p := &pool{idle: idle, dies: hangs, later: hangs}
			c, began := probed(t, closable{p}), time.Now()
			assert.True(t, Classify(write(t.Context(), c), t.Context()).Silent)
			assert.Equal(t, time.Second, time.Since(began))
			assert.True(t, c.breaker.State().Open)
			p.mu.Lock()
			p.idle, p.later = idle, failed // dead ones that another user of the client left
			p.mu.Unlock()
			<-c.breaker.Closed()
			assert.Less(t, time.Since(began), 3*time.Second)
		})
	}
}

// Connections that are younger than ten seconds are not thought to be dead: a bucket that
// stays silent on them is silent.
func TestSilenceOnYoungConnectionsIsTheBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{idle: 1, dies: hangs, later: failed}
		c := probed(t, p)
		assert.False(t, Classify(write(t.Context(), c), t.Context()).Silent)
		for _, after := range []time.Duration{time.Second, flapWithin} {
			<-time.After(after)
			p.mu.Lock()
			p.idle = 1
			p.mu.Unlock()
			assert.Equal(t, after < flapWithin, Classify(write(t.Context(), c), t.Context()).Silent, "%v", after)
		}
	})
}

// A connection that answers while the table is asked stays open, and so does that of the next try.
func TestConnectionThatAnswersLateStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBreaker(BreakerOptions{Probe: func(context.Context) error {
			<-time.After(200 * time.Millisecond)
			return nil
		}})
		var w waiting
		w.watch(t.Context(), b, time.Second)
		for range 2 {
			w.start(time.Now())
			w.gotConn(httptrace.GotConnInfo{Reused: true, Conn: testworld.Conn{CloseFunc: func() { t.Error("closed") }}})
			<-time.After(600 * time.Millisecond)
		}
		assert.True(t, w.stop())
		synctest.Wait()
	})
}

// A caller's own end says nothing, and closes no connection.
func TestCallersEndLeavesThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{idle: 10, dies: hangs, later: failed}
		c := probed(t, closable{p})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		require.Error(t, write(ctx, c))
		assert.Equal(t, 9, p.idle)
		assert.Equal(t, 1, p.sent)
	})
}

// After an outage eight requests go first. The others follow the first answer, or wait for a
// quarter of a second.
func TestEightRequestsGoFirstAfterAnOutage(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			wait := make(chan struct{})
			p := &pool{later: hangs}
			c := probed(t, p)
			require.Error(t, write(t.Context(), c))
			require.True(t, c.breaker.State().Open)
			p.mu.Lock()
			p.later = failed
			p.mu.Unlock()
			<-c.breaker.Closed()
			p.mu.Lock()
			p.sent, p.later = 0, func(r *http.Request) (*http.Response, error) {
				<-wait
				return failed(r)
			}
			p.mu.Unlock()
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() { assert.Equal(t, Refused, Classify(write(t.Context(), c), t.Context()).Verdict) })
			}
			synctest.Wait()
			assert.Equal(t, trialRequests, p.sent)
			if answers {
				wait <- struct{}{}
			} else {
				<-time.After(trialTime)
			}
			synctest.Wait()
			assert.Equal(t, 30, p.sent)
			close(wait)
			all.Wait()
		})
	}
}
