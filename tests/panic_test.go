package tests

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
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
		l, err := newLimiter(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, Logger: slog.New(slog.NewTextHandler(log, nil))})
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
		assert.Contains(t, log.String(), "panic in a lane")
	})
}
