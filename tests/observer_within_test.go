package tests

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
)

// every is an observer each of whose functions calls do with the name of its event.
func every(do func(event string)) observe.Observer {
	return observe.Observer{
		AcquireStart:        func(context.Context, observe.AcquireStart) context.Context { do("AcquireStart"); return nil },
		AcquireEnd:          func(context.Context, observe.AcquireEnd) { do("AcquireEnd") },
		Denied:              func(context.Context, observe.Denial) { do("Denied") },
		Corrected:           func(context.Context, observe.Correction) { do("Corrected") },
		Overran:             func(observe.Overrun) { do("Overran") },
		WriteStart:          func(context.Context, observe.WriteStart) context.Context { do("WriteStart"); return nil },
		WriteEnd:            func(context.Context, observe.WriteEnd) { do("WriteEnd") },
		ConfigLoaded:        func(observe.ConfigLoad) { do("ConfigLoaded") },
		AvailabilityChanged: func(observe.AvailabilityChange) { do("AvailabilityChanged") },
		PacingChanged:       func(observe.PacingChange) { do("PacingChanged") },
		Dropped:             func(observe.Drop) { do("Dropped") },
	}
}

// An observer may ask how the limiter is, whatever it hears, and even panic: everything comes to
// what it comes to without one, in calls and behind them.
func TestObserverThatAsksAndPanics(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	asked, heard := func() {}, map[string]int{}
	opts := &dynalimit.Options{
		Limits:        []dynalimit.Limit{dynalimit.PerDay("rpm", 100).WithMaxDebt(10), dynalimit.PerDay("trial", 1).Shadowed()},
		OnUnavailable: dynalimit.Allow, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Observer: every(func(event string) {
			asked()
			mu.Lock()
			heard[event]++
			mu.Unlock()
			panic("oh, " + event)
		}),
	}
	virtual(t, opts, func(t *testing.T, s *process) {
		asked = func() {
			s.limiter.Health()
			s.repo.ConfigCacheStats()
		}
		ctx := t.Context()
		lease := s.acquire("u", dynalimit.Amounts{"rpm": 10, "trial": 3})
		require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"rpm": 10}))
		require.ErrorIs(t, lease.Consume(ctx, dynalimit.Amounts{"rpm": 90}), dynalimit.ErrLimitExceeded)
		require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"rpm": 95}), "5 beyond the deepest debt")
		require.NoError(t, lease.SettleSoon(ctx, dynalimit.Amounts{"rpm": 30}, nil))
		s.down(throttled1)
		hurried, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		_, err := s.limiter.Acquire(hurried, "u", model, dynalimit.Amounts{"rpm": 1})
		cancel()
		require.Error(t, err)
		s.recovers()
		s.down(ddbmem.Fault{Drop: true})
		assert.True(t, s.acquire("u", dynalimit.Amounts{"rpm": 7}).Degraded())
		s.acquire("stranger", dynalimit.Amounts{"misspelt": 1}) // nobody can know yet
		s.recovers()                                            // what was admitted is told, or dropped, behind the callers
		require.NoError(t, s.limiter.Close(ctx))
		doubt := s.limiter.Health().Doubt["rpm"]
		assert.InDelta(t, 37, s.stored("u", "rpm").Consumed/milli, float64(doubt))
	})
	assert.Len(t, heard, reflect.TypeFor[observe.Observer]().NumField(), "every event: %v", heard)
	for event := range heard {
		assert.Contains(t, log.String(), "oh, "+event)
	}
}
