package tests

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
)

// listener writes down what an observer hears, and checks that every end is
// given the context of its start.
type listener struct {
	t *testing.T

	mu    sync.Mutex
	next  int
	open  map[int]string
	heard []string
}

type spanKey struct{}

func listen(t *testing.T) *listener {
	l := &listener{t: t, open: map[int]string{}}
	t.Cleanup(func() { assert.Empty(t, l.open, "every start has its end") })
	return l
}

func (l *listener) observer() observe.Observer {
	return observe.Observer{
		AcquireStart: l.AcquireStart, AcquireEnd: l.AcquireEnd, WriteStart: l.WriteStart, WriteEnd: l.WriteEnd,
		AvailabilityChanged: l.AvailabilityChanged, PacingChanged: l.PacingChanged, Overran: l.Overran,
	}
}

func (l *listener) start(ctx context.Context, what string) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	l.open[l.next] = what
	return context.WithValue(ctx, spanKey{}, l.next)
}

func (l *listener) end(ctx context.Context, what, how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	span, _ := ctx.Value(spanKey{}).(int)
	assert.Equal(l.t, what, l.open[span], "the end has its start's context")
	delete(l.open, span)
	l.heard = append(l.heard, what+": "+how)
}

func (l *listener) AvailabilityChanged(e observe.AvailabilityChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, fmt.Sprintf("table open: %t", e.Open))
}

func (l *listener) PacingChanged(e observe.PacingChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how := "not paced any more"
	if e.Paced {
		how = "paced"
	}
	l.heard = append(l.heard, fmt.Sprintf("%s %s: %s, %s", e.EntityID, e.Resource, how, e.Why))
}

func (l *listener) Overran(e observe.Overrun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, fmt.Sprintf("%s %s: %d of %s not charged, in shadow: %t", e.EntityID, e.Resource, e.Amount, e.Limit, e.Shadow))
}

func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard
	l.heard = nil
	return heard
}

func (l *listener) AcquireStart(ctx context.Context, e observe.AcquireStart) context.Context {
	return l.start(ctx, fmt.Sprintf("acquire %s %s", e.EntityID, e.Resource))
}

func (l *listener) AcquireEnd(ctx context.Context, e observe.AcquireEnd) {
	how := "granted"
	switch {
	case e.Err != nil:
		how = fmt.Sprintf("%T", e.Err)
	case e.Degraded:
		how = "degraded"
	}
	if e.FromMemory {
		how += " from memory"
	}
	l.end(ctx, fmt.Sprintf("acquire %s %s", e.EntityID, e.Resource), how)
}

func (l *listener) WriteStart(ctx context.Context, e observe.WriteStart) context.Context {
	return l.start(ctx, fmt.Sprintf("%s %s for %d", e.Kind, e.EntityID, e.Callers))
}

func (l *listener) WriteEnd(ctx context.Context, e observe.WriteEnd) {
	how := fmt.Sprintf("%s after %d", e.Outcome, e.Tries)
	if e.Err != nil {
		how += fmt.Sprintf(" (%T)", e.Err)
	}
	l.end(ctx, fmt.Sprintf("%s %s for %d", e.Kind, e.EntityID, e.Callers), how)
}

func TestObserverHearsPairs(t *testing.T) {
	ears := listen(t)
	opts := perMinute()
	opts.Observer = ears.observer()
	s := memProcess(t, opts)
	lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	assert.Equal(t, []string{"create user-1 for 1: landed after 1", "acquire user-1 gpt-4: granted"}, ears.take())
	require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 10_000}))
	assert.Equal(t, []string{"spend user-1 for 1: landed after 1"}, ears.take())
	s.deny("user-1", dynalimit.Amounts{"tpm": 1})
	assert.Equal(t, []string{"acquire user-1 gpt-4: *dynalimit.LimitExceededError from memory"}, ears.take())
	require.NoError(t, lease.Rollback(t.Context()))
	assert.Equal(t, []string{"give_back user-1 for 1: landed after 1"}, ears.take())
	s.clock.advance(2 * time.Hour)
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	assert.Equal(t, []string{"claim user-1 for 1: landed after 1", "acquire user-1 gpt-4: granted"}, ears.take())
	_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rmp": 1})
	require.Error(t, err)
	assert.Equal(t, []string{"acquire user-1 gpt-4: *fault.ValidationError"}, ears.take())
}

func TestObserverHearsOfFaults(t *testing.T) {
	opts := perMinute()
	ears := listen(t)
	opts.Observer = ears.observer()
	virtual(t, opts, func(t *testing.T, s *process) {
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		ears.take()
		s.db.SetFaults(firstOf("UpdateItem", 1, ddbmem.Fault{Lose: true}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, []string{"spend user-1 for 1: landed after 2", "acquire user-1 gpt-4: granted"}, ears.take())
		p := s.peer(perMinute())
		s.clock.advance(2 * time.Hour)
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		ears.take()
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, []string{"claim user-1 for 1: refused after 1", "spend user-1 for 1: landed after 1", "acquire user-1 gpt-4: granted"}, ears.take())
		s.down(throttled1)
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Allow))
		require.Error(t, err)
		heard := ears.take()
		assert.Equal(t, []string{"user-1 gpt-4: paced, writes throttled", "spend user-1 for 1: throttled after 1 (*fault.UnavailableError)"}, heard[:2])
		assert.Equal(t, "acquire user-1 gpt-4: *fault.UnavailableError", heard[len(heard)-1])
		s.recovers()
		ears.take()
		s.down(ddbmem.Fault{Drop: true})
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Allow))
		heard = ears.take()
		assert.Equal(t, "acquire user-1 gpt-4: degraded", heard[len(heard)-1])
		s.recovers()
		assert.Contains(t, ears.take(), "tell user-1 for 0: landed after 1")
		s.down(ddbmem.Fault{Drop: true})
		_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		require.Error(t, err)
		assert.Equal(t, "table open: true", ears.take()[0])
		s.recovers()
		assert.Equal(t, "table open: false", ears.take()[0])
	})
}

// Durations are what passed, however far the clock of this process is from DynamoDB's: the first
// answer corrects it, in the middle of the first call.
func TestDurationsWithAWrongClock(t *testing.T) {
	for _, wrong := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var took []time.Duration
			hears := observe.Observer{
				AcquireEnd:   func(_ context.Context, e observe.AcquireEnd) { took = append(took, e.Duration) },
				Corrected:    func(_ context.Context, e observe.Correction) { took = append(took, e.Duration) },
				WriteEnd:     func(_ context.Context, e observe.WriteEnd) { took = append(took, e.Duration) },
				ConfigLoaded: func(e observe.ConfigLoad) { took = append(took, e.Duration) },
			}
			e := memEngine(t, ddbmem.WithClock(func() time.Time { return time.Now().Add(wrong) }))
			first := (&process{engine: e, t: t}).on(e.repository(t, nil), nil)
			s := first.on(e.open(t, first.repo.table, nil), &dynalimit.Options{Limits: perMinute().Limits, Observer: hears})
			s.slowly(1500*time.Microsecond, time.Millisecond)
			lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			require.NoError(t, lease.Rollback(t.Context()))
			const request = 2500 * time.Microsecond
			assert.Equal(t, []time.Duration{request, request, 2 * request, request, request}, took)
		})
	}
}
