package ddb

import (
	"context"
	"errors"
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
	"pgregory.net/rapid"

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
	fromPool, answer := p.idle > 0, p.later
	if fromPool {
		p.idle--
		answer = p.dies
	}
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	httptrace.ContextClientTrace(ctx).GotConn(httptrace.GotConnInfo{Conn: testworld.Conn{CloseFunc: cancel}, Reused: fromPool})
	return answer(r.WithContext(ctx))
}

// counts returns the idle connections and the requests that were sent.
func (p *pool) counts() (idle, sent int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle, p.sent
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
						_, sent := p.counts()
						if closes {
							assert.Equal(t, 3, sent, "the two writes, and one probe")
						} else {
							assert.LessOrEqual(t, sent, idle+3, "one for each dead connection, and two or three that were answered")
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
		w.watchConnections(t.Context(), b, time.Second)
		for range 2 {
			_, fromPool, err := w.sendWatched(wire(func(*http.Request) (*http.Response, error) { //nolint:bodyclose // there is no response
				w.gotConn(httptrace.GotConnInfo{Reused: true, Conn: testworld.Conn{CloseFunc: func() { t.Error("closed") }}})
				<-time.After(600 * time.Millisecond)
				return nil, nil
			}), nil, time.Now())
			require.NoError(t, err)
			assert.True(t, fromPool)
		}
		synctest.Wait()
	})
}

// The connection of a request that was answered is the next one's: nobody watches it.
func TestConnectionOfAnAnsweredRequestStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBreaker(BreakerOptions{Probe: func(context.Context) error {
			t.Error("asked")
			return nil
		}})
		var w waiting
		w.watchConnections(t.Context(), b, time.Second)
		_, fromPool, err := w.sendWatched(wire(func(*http.Request) (*http.Response, error) { //nolint:bodyclose // there is no response
			for range 2 { // net/http may try several
				w.gotConn(httptrace.GotConnInfo{Reused: true, Conn: testworld.Conn{CloseFunc: func() { t.Error("closed") }}})
			}
			w.abortIfDead(w.turn - 1) // of the first, late
			return nil, nil
		}), nil, time.Now())
		require.NoError(t, err)
		assert.True(t, fromPool)
		assert.Empty(t, b.watchdog.waits)
		<-time.After(time.Second)
		synctest.Wait()
	})
}

// checkTimes notes when a watchdog checks it.
type checkTimes struct {
	began  time.Time
	checks chan time.Duration
}

func (w checkTimes) abortIfDead(int) { w.checks <- time.Since(w.began) }

// A wait is checked once, when it is due, whichever began first; one that ended is not.
func TestWatchdogChecksEachWaitOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d watchdog
		w := checkTimes{time.Now(), make(chan time.Duration, 10)}
		ended := &watch{of: w}
		for _, due := range []time.Duration{3 * time.Second, time.Second, 2 * time.Second} {
			d.schedule(&watch{of: w}, 1, w.began.Add(due))
		}
		d.schedule(ended, 1, w.began.Add(time.Second))
		d.cancelWatch(ended)
		for _, due := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
			assert.Equal(t, due, <-w.checks)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Empty(t, w.checks)
		assert.Empty(t, d.waits)
	})
}

// Requests that began one after another end so too, each after half of its own time.
func TestEachRequestWaitsForHalfOfItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{idle: 3, dies: hangs, later: failed}
		c := probed(t, closable{p})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				began := time.Now()
				assert.False(t, Classify(write(t.Context(), c), t.Context()).Silent)
				assert.Equal(t, 500*time.Millisecond, time.Since(began))
			})
			<-time.After(100 * time.Millisecond)
		}
		all.Wait()
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
		idle, sent := p.counts()
		assert.Equal(t, 9, idle)
		assert.Equal(t, 1, sent)
	})
}

// After an outage eight requests go first. The others follow the first answer, or wait for a
// quarter of a second.
func TestEightRequestsGoFirstAfterAnOutage(t *testing.T) {
	for _, answer := range []struct {
		wire
		Verdict
		comes bool
	}{{failed, Refused, true}, {genuine("{}"), Landed, true}, {failed, Refused, false}} {
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
				return answer.wire(r)
			}
			p.mu.Unlock()
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() { assert.Equal(t, answer.Verdict, Classify(write(t.Context(), c), t.Context()).Verdict) })
			}
			synctest.Wait()
			_, sent := p.counts()
			assert.Equal(t, trialRequests, sent)
			if answer.comes {
				wait <- struct{}{}
			} else {
				<-time.After(trialTime)
			}
			synctest.Wait()
			_, sent = p.counts()
			assert.Equal(t, 30, sent)
			close(wait)
			all.Wait()
		})
	}
}

var (
	errSilence = errors.New("nothing was heard")
	dawn       = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func ms(n int) time.Time { return dawn.Add(time.Duration(n) * time.Millisecond) }

// fails is a request that began and ended then, with nothing answered meanwhile.
func (o *outage) fails(began, at int) bool {
	return o.recordSilence(ms(began), ms(at), o.answers, false, errSilence)
}

// hangs is one that took its whole time.
func (o *outage) hangs(began, at int) bool {
	return o.recordSilence(ms(began), ms(at), o.answers, true, errSilence)
}

// A timeout of 100 ms that passed whole is no failure that came fast.
func TestShortTimeoutThatPassedWholeOpens(t *testing.T) {
	var o outage
	assert.True(t, o.hangs(0, 100))
}

func TestAnswerSinceTheRequestBeganKeepsItClosed(t *testing.T) {
	var o outage
	began := o.answers
	o.recordAnswer(ms(500)) // another partition's
	assert.False(t, o.recordSilence(ms(0), ms(1000), began, true, errSilence))
	assert.False(t, o.open)
	assert.True(t, o.recordSilence(ms(501), ms(1501), o.answers, true, errSilence))
}

func TestFastFailuresOpenByThrees(t *testing.T) {
	for _, test := range []struct {
		at   []int // when each failed, 1 ms after it began
		open bool
	}{
		{[]int{1}, false},
		{[]int{1, 2}, false},
		{[]int{1, 2, 3}, true},
		{[]int{1, 125, 251}, true},
		{[]int{1, 125, 252}, false},
		{[]int{1, 125, 252, 300}, true},
		{[]int{1, 300, 600, 900, 1200}, false},
	} {
		var o outage
		for _, at := range test.at {
			o.fails(at-1, at)
		}
		assert.Equal(t, test.open, o.open, "%v", test.at)
	}
	var o outage
	assert.True(t, o.fails(0, 250), "a failure of 250 ms is slow")
}

func TestWaitsBetweenProbesDouble(t *testing.T) {
	var o outage
	o.hangs(0, 1000)
	assert.Equal(t, ms(1000), o.next, "at once")
	now := 1000
	for _, wait := range []int{500, 1000, 2000, 4000, 8000, 10_000, 10_000} {
		for _, chance := range []float64{0, 0.5, 0.999} {
			again := o
			again.scheduleProbe(ms(now), chance)
			got := again.next.Sub(ms(now))
			assert.GreaterOrEqual(t, got, time.Duration(wait)*time.Millisecond/2)
			assert.LessOrEqual(t, got, time.Duration(wait)*time.Millisecond)
			assert.Equal(t, got, again.retryAfter(ms(now)))
		}
		o.scheduleProbe(ms(now), 0.3)
		now += wait
	}
	assert.Equal(t, firstProbe/2, o.retryAfter(o.next), "a probe is under way")
	o.recordAnswer(ms(now))
	assert.Zero(t, o.retryAfter(ms(now)))
}

func TestTableThatFlapsGoesOnWaitingWhereItWas(t *testing.T) {
	for _, test := range []struct {
		after int // from closing to the next outage
		keeps bool
	}{{0, true}, {9_999, true}, {10_000, false}} {
		var o outage
		o.hangs(0, 1000)
		for range 3 {
			o.scheduleProbe(ms(1000), 0)
		}
		o.recordAnswer(ms(2000))
		o.hangs(2000, 2000+test.after)
		o.since = ms(2000 + test.after)
		if test.keeps {
			assert.Equal(t, 2*time.Second, o.next.Sub(o.since), "%+v", test)
			o.scheduleProbe(o.next, 0)
			assert.Equal(t, 4*time.Second, o.wait)
			continue
		}
		assert.Equal(t, o.since, o.next, "%+v", test)
		o.scheduleProbe(o.next, 0)
		assert.Equal(t, firstProbe, o.wait)
	}
}

// Whatever happens in whatever order, the table opens only by silence during
// which nothing was answered, closes only by an answer, and asks in bounds.
func TestHistoriesOfAnOutage(t *testing.T) {
	type request struct {
		began   time.Time
		answers uint64
	}
	rapid.Check(t, func(t *rapid.T) {
		var o outage
		var under []request
		var lastAnswer time.Time
		now, fast := dawn, []time.Time(nil)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 40, 130, 260, 1000, 6000}).Draw(t, "ms")) * time.Millisecond)
			was, closings := o.open, o.closings
			switch rapid.SampledFrom([]string{"begin", "answer", "hang", "fail", "probe"}).Draw(t, "what") {
			case "begin":
				under = append(under, request{now, o.answers})
				continue
			case "probe":
				if o.open {
					o.scheduleProbe(now, rapid.Float64Range(0, 0.999).Draw(t, "chance"))
					wait := o.next.Sub(now)
					assert.True(t, wait >= firstProbe/2 && wait <= longestProbe, "%v", wait)
				}
				continue
			case "answer":
				first := o.answers == 0
				assert.Equal(t, was || first, o.recordAnswer(now))
				assert.False(t, o.open)
				lastAnswer, fast = now, nil
				continue
			case "hang", "fail":
				if len(under) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(under)-1).Draw(t, "which")
				r := under[i]
				under = append(under[:i], under[i+1:]...)
				whole := rapid.Bool().Draw(t, "whole")
				opened := o.recordSilence(r.began, now, r.answers, whole, errSilence)
				if was {
					assert.False(t, opened)
					continue
				}
				alone := r.answers == o.answers
				quick := !whole && now.Sub(r.began) < fastFailure
				if alone && quick {
					fast = append(fast, now)
				}
				enough := len(fast) >= 3 && now.Sub(fast[len(fast)-3]) <= fastFailure
				assert.Equal(t, alone && (!quick || enough), opened)
				if opened {
					fast = nil
					assert.False(t, r.began.Before(lastAnswer), "something was answered since")
				}
			}
			assert.Equal(t, closings, o.closings)
		}
	})
}

func TestAnswerBetweenFastFailuresStartsTheCountAnew(t *testing.T) {
	var o outage
	o.fails(0, 1)
	o.fails(1, 2)
	o.recordAnswer(ms(3))
	o.fails(3, 4)
	o.fails(4, 5)
	assert.False(t, o.open)
	assert.True(t, o.fails(5, 6))
}
