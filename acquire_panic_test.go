package dynalimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/observe"
)

// panicking is a store whose writes call before, which may panic.
type panicking struct {
	lane.Store
	before func() *lane.Answer
	read   func()
}

func (p *panicking) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	if a := p.before(); a != nil {
		return *a
	}
	return p.Store.Update(ctx, key, st, hint, slot)
}

func (p *panicking) Read(ctx context.Context, key schema.Item, hint *schema.LimitSet, slot int) (*schema.Image, error) {
	if p.read != nil {
		p.read()
	}
	return p.Store.Read(ctx, key, hint, slot)
}

// onPanicking runs a test on a limiter whose bucket exists and whose writes call
// before from now on, in virtual time.
func onPanicking(t *testing.T, before func() *lane.Answer, test func(t *testing.T, l *rateLimiter, p *panicking, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		e, log := memEngine(t), &bytes.Buffer{}
		repo := e.repository(t, &dynalimit.RepositoryOptions{Now: time.Now})
		l, err := openLimiter(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, Logger: slog.New(slog.NewTextHandler(log, nil))})
		require.NoError(t, err)
		_, err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
		p := &panicking{Store: l.lanes.Store, before: before}
		l.lanes.Store = p
		test(t, l, p, log)
		p.before = func() *lane.Answer { return nil }
		_, err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err, "the lane goes on")
		require.NoError(t, l.Close(t.Context()), "and rests")
	})
}

// startPanics is a trace that panics when a write begins.
type startPanics struct{ armed *bool }

func (o startPanics) Begin(ctx context.Context, _ lane.Writing) (context.Context, func(lane.Answer)) {
	if *o.armed {
		panic("observer")
	}
	return ctx, func(lane.Answer) {}
}

func (o startPanics) Paced(lane.Paced) {}

// A panic before anything was sent leaves nothing in doubt.
func TestPanicBeforeAWriteIsNoDoubt(t *testing.T) {
	onPanicking(t, func() *lane.Answer { return nil }, func(t *testing.T, l *rateLimiter, _ *panicking, _ *bytes.Buffer) {
		armed := true
		l.lanes.Trace = startPanics{armed: &armed}
		_, err := l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
		assert.ErrorContains(t, err, "observer")
		assert.NotErrorIs(t, err, dynalimit.ErrUnconfirmed)
		armed = false
	})
}

// A lane that goes on without its caller survives too.
func TestPanicAfterItsCallerHasLeft(t *testing.T) {
	unanswered := func() *lane.Answer {
		return &lane.Answer{Verdict: ddb.Unconfirmed, Err: &lane.Failure{Reason: lane.Unconfirmed, Op: "test", Err: errors.New("nobody knows")}}
	}
	onPanicking(t, unanswered, func(t *testing.T, l *rateLimiter, p *panicking, log *bytes.Buffer) {
		p.read = func() { // what became of it is asked for without the caller
			p.read = nil
			panic("boom")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond/2)
		defer cancel()
		_, err := l.Acquire(ctx, "u", model, dynalimit.Amounts{"rpm": 1})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		<-time.After(time.Minute)
		synctest.Wait() // the log is written without the caller
		assert.Contains(t, log.String(), "dynalimit: a write of a bucket panicked")
	})
}

// An observer that ends the goroutine of an event without a context ends that call of it alone:
// the outage ends, and the limiter closes.
func TestObserverThatEndsItsGoroutine(t *testing.T) {
	var mu sync.Mutex
	heard := map[string]int{}
	end := func(event string) {
		mu.Lock()
		heard[event]++
		mu.Unlock()
		runtime.Goexit()
	}
	all := every(end)
	opts := &dynalimit.Options{
		Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}, OnUnavailable: dynalimit.Allow,
		Observer: observe.Observer{
			Overran: all.Overran, ConfigLoaded: all.ConfigLoaded, AvailabilityChanged: all.AvailabilityChanged,
			PacingChanged: all.PacingChanged, Dropped: all.Dropped,
		},
	}
	virtual(t, opts, func(t *testing.T, s *process) {
		s.acquire("u", dynalimit.Amounts{"rpm": 10})
		for range 2 {
			s.down(ddbmem.Fault{Drop: true})
			s.acquire("u", dynalimit.Amounts{"rpm": 7})
			s.recovers()
		}
		require.NoError(t, s.limiter.Close(t.Context()))
	})
	assert.Positive(t, heard["ConfigLoaded"])
	assert.Equal(t, 4, heard["AvailabilityChanged"])
}

// ending is a transport that does not return from one request of an operation.
type ending struct {
	next      aws.HTTPClient
	operation string
	end       atomic.Pointer[func()]
}

func (c *ending) Do(r *http.Request) (*http.Response, error) {
	if _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); operation == c.operation {
		if end := c.end.Swap(nil); end != nil {
			(*end)()
		}
	}
	return c.next.Do(r)
}

// A client that panics once, or ends its goroutine as t.FailNow does, ends that call at most.
// Those that follow are exact, whatever the policy, and the limiter closes.
func TestClientThatDoesNotReturnEndsOneCall(t *testing.T) {
	for _, operation := range []string{"BatchGetItem", "UpdateItem", "TransactWriteItems"} {
		for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
			for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow} {
				t.Run(operation+" "+name+" "+string(policy), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { endOneCall(t, operation, end, policy) })
				})
			}
		}
	}
}

func endOneCall(t *testing.T, operation string, end func(), policy dynalimit.UnavailablePolicy) {
	e := memEngine(t)
	e.repository(t, nil)
	transport := &ending{next: e.db, operation: operation}
	repo := e.repository(t, &dynalimit.RepositoryOptions{Now: time.Now})
	require.NoError(t, repo.CreateEntity(t.Context(), admin.Entity{ID: "top"}))
	require.NoError(t, repo.CreateEntity(t.Context(), admin.Entity{ID: "u", ParentID: "top", Cascade: true}))
	watched, err := openRepository(e.client(func(o *dynamodb.Options) { o.HTTPClient = transport }), repo.table, &dynalimit.RepositoryOptions{Now: time.Now})
	require.NoError(t, err)
	mode := dynalimit.ChargeTransaction
	if operation == "UpdateItem" {
		mode = dynalimit.ChargeParallel
	}
	l, err := openLimiter(watched, &dynalimit.Options{
		Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 20)}, OnUnavailable: policy, ChargeMode: mode,
	})
	require.NoError(t, err)
	acquire := func() (took bool) {
		done := make(chan struct{})
		go func() { // which the client may end
			defer close(done)
			_, err := l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
			took = err == nil
		}()
		<-done
		return took
	}
	if operation != "BatchGetItem" {
		require.True(t, acquire())
	}
	transport.end.Store(&end)
	acquire()
	require.Nil(t, transport.end.Load(), "it did not return")
	admitted := 0
	for range 40 {
		if acquire() {
			admitted++
		}
	}
	assert.InDelta(t, 19, admitted, 1, "20 fit, of which one or two were taken before")
	assert.False(t, l.Health().Open)
	require.NoError(t, l.Close(t.Context()))
}
