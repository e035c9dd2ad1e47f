package dynalimit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
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
		assert.Contains(t, ears.take(), "table open: false") // the write of the call may end only now
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

// corrections hears of corrections, and that nothing locks their lease meanwhile.
type corrections struct {
	lease *dynalimit.Lease
	heard []observe.Correction
}

func (c *corrections) observer() observe.Observer {
	return observe.Observer{Corrected: func(_ context.Context, e observe.Correction) {
		_ = c.lease.Used()
		c.heard = append(c.heard, e)
	}}
}

func TestObserverHearsOfCorrections(t *testing.T) {
	ctx, settled := t.Context(), make(chan error, 1)
	soon := func(l *dynalimit.Lease, used dynalimit.Amounts) error {
		if err := l.SettleSoon(ctx, used, func(err error) { settled <- err }); err != nil {
			return err
		}
		return <-settled
	}
	type amounts = map[string]int64
	cases := map[string]struct {
		do           func(*dynalimit.Lease) error
		kind         observe.CorrectionKind
		used, change amounts
	}{
		"consume":            {func(l *dynalimit.Lease) error { return l.Consume(ctx, dynalimit.Amounts{"tpm": 5}) }, observe.CorrectionConsume, amounts{"rpm": 1, "tpm": 105}, amounts{"tpm": 5}},
		"adjust":             {func(l *dynalimit.Lease) error { return l.Adjust(ctx, dynalimit.Amounts{"tpm": -40}) }, observe.CorrectionAdjust, amounts{"rpm": 1, "tpm": 60}, amounts{"tpm": -40}},
		"settle":             {func(l *dynalimit.Lease) error { return l.Settle(ctx, dynalimit.Amounts{"tpm": 130}) }, observe.CorrectionSettle, amounts{"rpm": 1, "tpm": 130}, amounts{"tpm": 30}},
		"settle as it is":    {func(l *dynalimit.Lease) error { return l.Settle(ctx, nil) }, observe.CorrectionSettle, amounts{"rpm": 1, "tpm": 100}, amounts{}},
		"settle soon, less":  {func(l *dynalimit.Lease) error { return soon(l, dynalimit.Amounts{"tpm": 70}) }, observe.CorrectionSettle, amounts{"rpm": 1, "tpm": 70}, amounts{"tpm": -30}},
		"settle soon, more":  {func(l *dynalimit.Lease) error { return soon(l, dynalimit.Amounts{"tpm": 170}) }, observe.CorrectionSettle, amounts{"rpm": 1, "tpm": 170}, amounts{"tpm": 70}},
		"settle soon, as is": {func(l *dynalimit.Lease) error { return soon(l, nil) }, observe.CorrectionSettle, amounts{"rpm": 1, "tpm": 100}, amounts{}},
		"rollback":           {func(l *dynalimit.Lease) error { return l.Rollback(ctx) }, observe.CorrectionRollback, amounts{"rpm": 0, "tpm": 0}, amounts{"rpm": -1, "tpm": -100}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ears, opts := &corrections{}, perMinute()
			opts.Observer = ears.observer()
			s := memProcess(t, opts)
			ears.lease = s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 100})
			require.NoError(t, c.do(ears.lease))
			assert.Equal(t, []observe.Correction{{EntityID: "user-1", Resource: model, Kind: c.kind, Used: c.used, Change: c.change}}, ears.heard)
			require.NoError(t, ears.lease.Rollback(ctx))
			if c.kind != observe.CorrectionConsume && c.kind != observe.CorrectionAdjust {
				assert.Len(t, ears.heard, 1, "after the end nothing is corrected")
			}
		})
	}
}

// Leases that were served from memory, the first of a bucket and those after it, are settled
// without a request, and heard of once all the same.
func TestObserverHearsOfServedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ears, memory := &corrections{}, false
		hears := ears.observer()
		hears.AcquireEnd = func(_ context.Context, e observe.AcquireEnd) {
			memory = e.FromMemory
			assert.Equal(t, map[string]int64{"rpm": 1}, e.Amounts)
		}
		s := prefetching(t, 1, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}, Prefetch: time.Second, Observer: hears})[0]
		for served := 0; served < 5; elapse(time.Millisecond) {
			ears.heard, ears.lease = nil, s.acquire("shared", dynalimit.Amounts{"rpm": 1})
			if !memory {
				continue
			}
			served++
			require.NoError(t, ears.lease.Settle(t.Context(), nil))
			require.NoError(t, ears.lease.Settle(t.Context(), nil))
			require.NoError(t, ears.lease.Rollback(t.Context()))
			assert.Equal(t, []observe.Correction{{
				EntityID: "shared", Resource: model, Kind: observe.CorrectionSettle, Used: map[string]int64{"rpm": 1}, Change: map[string]int64{},
			}}, ears.heard)
		}
	})
}

// An unconfirmed correction is heard with its error.
func TestObserverHearsOfFailedCorrections(t *testing.T) {
	ears, opts := &corrections{}, perMinute()
	opts.Observer = ears.observer()
	virtual(t, opts, func(t *testing.T, s *process) {
		ears.lease = s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.limiter.lanes.End()
		s.down(ddbmem.Fault{Drop: true})
		err := ears.lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 1})
		require.ErrorIs(t, err, dynalimit.ErrUnconfirmed)
		require.Len(t, ears.heard, 1)
		assert.Equal(t, err, ears.heard[0].Err)
		s.db.SetFaults(nil)
	})
}

func TestObserverHearsOfDenials(t *testing.T) {
	var heard []observe.Denial
	opts := &dynalimit.Options{Observer: observe.Observer{Denied: func(_ context.Context, e observe.Denial) { heard = append(heard, e) }}}
	s := memProcess(t, opts)
	s.family("key", "org")
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "key"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 60)}))
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 120)}))
	denied := func(from bool, exceeded ...observe.Exceeded) {
		t.Helper()
		longest := time.Duration(0)
		for _, e := range exceeded {
			longest = max(longest, e.RetryAfter)
		}
		assert.Equal(t, []observe.Denial{{EntityID: "key", Resource: model, Exceeded: exceeded, RetryAfter: longest, FromMemory: from}}, heard)
		heard = nil
	}
	own := func(limit string, asked, left int64, after time.Duration) observe.Exceeded {
		return observe.Exceeded{EntityID: "key", Resource: model, Level: observe.LevelEntity, Limit: limit, Requested: asked, Remaining: left, RetryAfter: after}
	}
	lease := s.acquire("key", dynalimit.Amounts{"rpm": 50, "tpm": 60})
	s.deny("key", dynalimit.Amounts{"rpm": 11, "tpm": 2})
	denied(true, own("rpm", 11, 10, time.Second), own("tpm", 2, 0, 2*time.Second))
	require.ErrorIs(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 61}), dynalimit.ErrExceedsBurst)
	denied(true, own("rpm", 61, 10, dynalimit.Never))
	s.peer(nil).acquire("org", dynalimit.Amounts{"rpm": 65})
	s.deny("key", dynalimit.Amounts{"rpm": 10})
	denied(false, observe.Exceeded{EntityID: "org", Resource: model, Level: observe.LevelParent, Limit: "rpm", Requested: 10, Remaining: 5, RetryAfter: 2500 * time.Millisecond})
	require.ErrorIs(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 10}), dynalimit.ErrLimitExceeded)
	assert.Len(t, heard, 1)
}

func TestObserverHearsOfConfigurations(t *testing.T) {
	var heard []observe.ConfigLoad
	opts := &dynalimit.Options{Observer: observe.Observer{ConfigLoaded: func(e observe.ConfigLoad) { heard = append(heard, e) }}}
	s := memProcess(t, opts)
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}))
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	assert.Equal(t, []observe.ConfigLoad{{EntityID: "user-1", Resource: model}}, heard, "once: the cache has it then")
	require.NoError(t, s.limiter.Close(t.Context()))
	_, err := s.repo.Repository.ResolveLimits(t.Context(), "user-2", model)
	require.NoError(t, err)
	assert.Len(t, heard, 1, "a limiter that was closed hears nothing")
}

// An observer hears that a write's answer shows a threshold of alerts reached: again when an estimate came back, and
// in a new window. A denial is no crossing.
func TestObserverHearsCrossings(t *testing.T) {
	var heard []observe.Crossing
	crossed := func() []observe.Crossing {
		defer func() { heard = nil }()
		return heard
	}
	opts := &dynalimit.Options{OnUnavailable: dynalimit.Allow, Observer: observe.Observer{Crossed: func(c observe.Crossing) { heard = append(heard, c) }}}
	virtual(t, opts, func(t *testing.T, s *process) {
		usd := dynalimit.DailyMoneyQuota("usd", 100, "").WithAlerts(50, 80, 100)
		usd.PerModel = true
		s.limits(admin.Scope{Everyone: true, Resource: model}, usd, dynalimit.DailyQuota("tpd", 10, "").WithAlerts(90))
		reached := func(percent int, used int64) observe.Crossing {
			return observe.Crossing{EntityID: "u", Resource: model, Limit: "usd", Percent: percent, Amount: 100, Used: used, Unit: "usd"}
		}
		s.acquire("u", dynalimit.Amounts{"usd": 50})
		assert.Equal(t, []observe.Crossing{reached(50, 50)}, crossed(), "by the bucket's first write")
		s.acquire("u", dynalimit.Amounts{"usd": 29, "tpd": 8})
		assert.Empty(t, crossed(), "79 of 100, and 8 of 10")
		lease := s.acquire("u", dynalimit.Amounts{"usd": 10, "tpd": 1})
		assert.Equal(t, []observe.Crossing{{EntityID: "u", Resource: model, Limit: "tpd", Percent: 90, Amount: 10, Used: 9}, reached(80, 89)}, crossed())
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"usd": 0, "tpd": 1}))
		assert.Empty(t, crossed(), "79 again")
		require.NoError(t, s.acquire("u", dynalimit.Amounts{"usd": 1}).Adjust(t.Context(), dynalimit.Amounts{"usd": 20}))
		assert.Equal(t, []observe.Crossing{reached(80, 80)}, crossed(), "and nothing at the whole quota")
		_, err := s.limiter.Acquire(t.Context(), "u", model, dynalimit.Amounts{"usd": 1})
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		s.clock.advance(24 * time.Hour)
		s.peer(nil).acquire("u", dynalimit.Amounts{"usd": 90})
		s.acquire("u", dynalimit.Amounts{"usd": 5})
		assert.Equal(t, []observe.Crossing{reached(50, 90), reached(80, 90)}, crossed(), "in a new window, by a refused write that shows what others used")
		s.acquire("v", dynalimit.Amounts{"usd": 60})
		require.Len(t, crossed(), 1)
		usd.Capacity, usd.Burst, usd.RefillAmount = 75, 75, 75
		s.limits(admin.Scope{Everyone: true, Resource: model}, usd, dynalimit.DailyQuota("tpd", 6, "").WithAlerts(90))
		s.acquire("v", dynalimit.Amounts{"usd": 1})
		assert.Equal(t, []observe.Crossing{{EntityID: "v", Resource: model, Limit: "usd", Percent: 80, Amount: 75, Used: 61, Unit: "usd"}}, crossed(), "of a lowered quota")
		s.acquire("w", dynalimit.Amounts{"tpd": 4})
		s.down(ddbmem.Fault{Before: time.Hour})
		require.True(t, s.acquire("w", dynalimit.Amounts{"tpd": 2}).Degraded())
		s.recovers()
		elapse(time.Minute)
		assert.Len(t, crossed(), 1, "of a pending update")
	})
}

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
		Crossed:             func(observe.Crossing) { do("Crossed") },
		SlotsExpired:        func(observe.SlotsExpired) { do("SlotsExpired") },
	}
}

// An observer may ask how the limiter is, whatever it hears, and even panic: everything comes to
// what it comes to without one, in calls and behind them.
func TestObserverThatAsksAndPanics(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	asked, heard := func() {}, map[string]int{}
	opts := &dynalimit.Options{
		Limits:        []dynalimit.Limit{dynalimit.PerDay("rpm", 100).WithMaxDebt(10), dynalimit.PerDay("trial", 1).AsShadow(), dynalimit.Concurrent("inflight", 5, 30*time.Second).WithLongest(time.Minute), dynalimit.DailyQuota("tpd", 10, "").WithAlerts(50)},
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
		s.acquire("u", dynalimit.Amounts{"inflight": 1, "tpd": 5})
		elapse(2 * time.Minute)
		require.NoError(t, s.limiter.Close(ctx))
		doubt := s.limiter.Health().Doubt["rpm"]
		assert.InDelta(t, 37, s.stored("u", "rpm").Consumed/milli, float64(doubt))
	})
	assert.Len(t, heard, reflect.TypeFor[observe.Observer]().NumField(), "every event: %v", heard)
	for event := range heard {
		assert.Contains(t, log.String(), "oh, "+event)
	}
}

// tidings add up what observers hear: what leases hold and what was dropped, by limit.
type tidings struct {
	mu            sync.Mutex
	held, dropped dynalimit.Amounts
	open          map[any]bool // what has begun and not ended
	wrong         []string
}

// add adds amounts to one of the sums.
func (n *tidings) add(sum, amounts dynalimit.Amounts) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addTo(sum, amounts)
}

func addTo(sum, amounts dynalimit.Amounts) {
	for limit, n := range amounts {
		sum[limit] += n
	}
}

// turns notes that something begins, or ends, which it does by turns.
func (n *tidings) turns(what any, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[what] == on {
		n.wrong = append(n.wrong, fmt.Sprintf("%v: %t twice", what, on))
	}
	if n.open[what] = on; !on {
		delete(n.open, what)
	}
}

// observer is the observer of one process.
func (n *tidings) observer() observe.Observer {
	start := func(ctx context.Context) context.Context {
		id := new(int)
		n.turns(id, true)
		return context.WithValue(ctx, spanKey{}, id)
	}
	end := func(ctx context.Context) { n.turns(ctx.Value(spanKey{}), false) }
	return observe.Observer{
		AcquireStart: func(ctx context.Context, _ observe.AcquireStart) context.Context { return start(ctx) },
		AcquireEnd: func(ctx context.Context, e observe.AcquireEnd) {
			if end(ctx); e.Err == nil {
				n.add(n.held, e.Amounts)
			}
		},
		Corrected:  func(_ context.Context, e observe.Correction) { n.add(n.held, e.Change) },
		WriteStart: func(ctx context.Context, _ observe.WriteStart) context.Context { return start(ctx) },
		WriteEnd:   func(ctx context.Context, _ observe.WriteEnd) { end(ctx) },
		Dropped:    func(e observe.Drop) { n.add(n.dropped, e.Amounts) },
	}
}
