package dynalimit_test

import (
	"context"
	"errors"
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

// kindsInShadow are a bucket and a quota of 100 a day in shadow.
func kindsInShadow() map[string]dynalimit.Limit {
	return map[string]dynalimit.Limit{
		"bucket": dynalimit.PerDay("tpm", 100).AsShadow(), "quota": dynalimit.DailyQuota("tpm", 100, "UTC").AsShadow(),
	}
}

// A limit in shadow denies nothing, however much is asked; what it does not have is counted, and
// a correction of that moves the counter alone. Enforced, it keeps its level.
func TestLimitInShadow(t *testing.T) {
	for name, limit := range kindsInShadow() {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				s := newProcess(t, e, nil)
				ctx := t.Context()
				s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000), limit)
				fits := s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 90})
				assert.False(t, fits.Statuses()[1].WouldDeny)
				beyond := s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 500})
				status := beyond.Statuses()[1]
				assert.True(t, status.WouldDeny)
				assert.True(t, status.Limit.Shadow)
				assert.EqualValues(t, 500, status.Requested)
				assert.EqualValues(t, 500, status.Uncharged)
				assert.False(t, beyond.Degraded())
				report, err := s.limiter.Check(ctx, "key", model, dynalimit.Amounts{"tpm": 20})
				require.NoError(t, err)
				assert.True(t, report.Allowed)
				assert.Zero(t, report.RetryAfter)
				assert.True(t, report.Statuses[1].WouldDeny)
				assert.Greater(t, report.Statuses[1].RetryAfter, time.Minute, "what it would have been")
				assert.Equal(t, dynalimit.Amounts{"rpm": 998}, report.Available())

				require.NoError(t, beyond.Adjust(ctx, dynalimit.Amounts{"tpm": 100}))
				assert.EqualValues(t, 600, beyond.Statuses()[1].Uncharged, "as the whole call")
				require.NoError(t, beyond.Consume(ctx, dynalimit.Amounts{"tpm": 400}))
				require.NoError(t, beyond.Settle(ctx, dynalimit.Amounts{"tpm": 1100}))
				require.NoError(t, fits.Settle(ctx, dynalimit.Amounts{"tpm": 95}))
				require.NoError(t, s.limiter.Close(ctx)) // the counter is told beside the lane
				assert.EqualValues(t, 5, s.level("key", "tpm"))
				assert.EqualValues(t, 1195, s.stored("key", "tpm").Consumed/milli)

				enforced := limit
				enforced.Shadow = false
				s = s.peer(nil)
				s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000), enforced)
				s.acquire("key", dynalimit.Amounts{"tpm": 5})
				_, err = s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"tpm": 1})
				require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
			})
		})
	}
}

// Beside a limit that denies, one in shadow is neither charged nor counted.
func TestShadowOfADeniedCall(t *testing.T) {
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		s := memProcess(t, &dynalimit.Options{ChargeMode: mode})
		s.family("key", "team")
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("tpm", 100).AsShadow())
		s.limits(admin.Scope{Entity: "team"}, dynalimit.PerDay("rpm", 1), dynalimit.PerDay("tpm", 100).AsShadow())
		s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 500})
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1, "tpm": 150})
		denial, denied := errors.AsType[*dynalimit.LimitExceededError](err)
		require.True(t, denied, "%s: %v", mode, err)
		assert.Equal(t, "rpm", denial.Primary().Limit.Name)
		require.NoError(t, s.limiter.Close(t.Context()))
		for _, id := range []string{"key", "team"} {
			assert.EqualValues(t, 100, s.level(id, "tpm"), "%s: %s", mode, id)
			assert.EqualValues(t, 500, s.stored(id, "tpm").Consumed/milli, "%s: %s", mode, id)
		}
	}
}

// A limit in shadow keeps nobody waiting, in a line too, and is not among what an outage denies.
func TestShadowKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &dynalimit.Options{OnUnavailable: dynalimit.Local, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 2), dynalimit.PerDay("tpm", 10).AsShadow()}})
		began := time.Now()
		for range 4 {
			lease, err := s.limiter.Wait(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1, "tpm": 100})
			require.NoError(t, err)
			require.NoError(t, lease.Settle(t.Context(), nil))
		}
		assert.InDelta(t, time.Minute, time.Since(began), float64(2*time.Second), "for rpm alone")
		s.cutOff(ddbmem.Fault{Lose: true})
		elapse(2 * time.Minute)
		lease, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1, "tpm": 1000})
		require.NoError(t, err)
		assert.True(t, lease.Degraded())
		s.recovers()
	})
}

// What was counted of a call whose caller leaves comes off the counter, and nothing is given back
// that was not charged.
func TestShadowOfACallerWhoLeft(t *testing.T) {
	opts := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100), dynalimit.PerDay("tpm", 100).AsShadow()}}
	for _, deleted := range []bool{false, true} {
		virtual(t, opts, func(t *testing.T, s *process) {
			s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 90})
			s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{After: time.Second} })
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"rpm": 1, "tpm": 50})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			s.db.SetFaults(nil)
			elapse(1500 * time.Millisecond)
			if deleted { // what it counted is gone with it
				s.delete("key")
				s.peer(opts).acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 90})
			}
			elapse(time.Minute)
			require.NoError(t, s.limiter.Close(t.Context()))
			assert.EqualValues(t, 10, s.level("key", "tpm"))
			assert.EqualValues(t, 90, s.stored("key", "tpm").Consumed/milli)
			assert.EqualValues(t, 99, s.level("key", "rpm"))
		})
	}
}

// A transaction charges what a limit in shadow has, and counts what it does not, from the image
// that it takes to be there after another one.
func TestShadowInATransaction(t *testing.T) {
	s := memProcess(t, &dynalimit.Options{ChargeMode: dynalimit.ChargeTransaction})
	s.family("key", "team")
	s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("tpm", 100).AsShadow())
	s.acquire("key", dynalimit.Amounts{"tpm": 1})
	beyond, fits := s.acquire("key", dynalimit.Amounts{"tpm": 500}), s.acquire("key", dynalimit.Amounts{"tpm": 99})
	assert.EqualValues(t, 500, beyond.Statuses()[0].Uncharged)
	assert.Zero(t, fits.Statuses()[1].Uncharged)
	require.NoError(t, beyond.Rollback(t.Context()))
	require.NoError(t, s.limiter.Close(t.Context()))
	for _, id := range []string{"key", "team"} {
		assert.EqualValues(t, 0, s.level(id, "tpm"), id)
		assert.EqualValues(t, 100, s.stored(id, "tpm").Consumed/milli, id)
	}
}

// A transaction whose answer is lost, and that did land, gives back what it charged and uncounts
// the rest.
func TestShadowInALostTransaction(t *testing.T) {
	opts := together()
	opts.Limits = []dynalimit.Limit{dynalimit.PerDay("tpm", 100).AsShadow()}
	virtual(t, opts, func(t *testing.T, s *process) {
		s.family("key", "team")
		s.acquire("key", dynalimit.Amounts{"tpm": 60})
		defer s.readsOthers()()
		s.db.SetFaults(firstOf("TransactWriteItems", 1, ddbmem.Fault{After: time.Hour}))
		lease := s.acquire("key", dynalimit.Amounts{"tpm": 500}) // its levels are asked one by one
		elapse(10 * time.Second)
		s.db.SetFaults(nil)
		require.NoError(t, lease.Rollback(t.Context()))
		require.NoError(t, s.limiter.Close(t.Context()))
		for _, id := range []string{"key", "team"} {
			assert.EqualValues(t, 40, s.level(id, "tpm"), id)
			assert.EqualValues(t, 60, s.stored(id, "tpm").Consumed/milli, id)
		}
	})
}

// Takes of a limit in shadow that is nearly used up do not refuse each other, and do not read its
// bucket first: each costs the write that it would cost without the limit.
func TestUsedUpShadowCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000), dynalimit.PerDay("tpm", 100).AsShadow())
		s.db.SetFaults(after10ms)
		all := []*process{s, s.peer(nil), s.peer(nil)}
		for _, p := range all {
			p.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 30})
		}
		before := s.db.Meter()
		for range 10 {
			elapse(2 * time.Second) // what is known of the bucket is old
			var calls sync.WaitGroup
			for _, p := range all {
				calls.Go(func() { p.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 4}) })
			}
			calls.Wait()
		}
		m := s.db.Meter().Sub(before)
		assert.Zero(t, reads(m))
		assert.EqualValues(t, 30, m.Operations["UpdateItem"].Requests, "none is refused")
	})
}

// What waiters need of a limit in shadow holds none of them back in their line, though all of it
// together is more than its burst.
func TestShadowHoldsNobodyBackInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, dynalimit.PerMinute("rpm", 1), dynalimit.PerSecond("tps", 1), dynalimit.PerDay("tpm", 10).AsShadow())
		drain(t, l, dynalimit.Amounts{"rpm": 1, "tps": 1})
		began := time.Now()
		first := waitFor(t, l, "u", dynalimit.Amounts{"rpm": 1, "tpm": 8})
		second := waitFor(t, l, "u", dynalimit.Amounts{"tps": 1, "tpm": 8})
		assert.Less(t, (<-second).Sub(began), 5*time.Second)
		<-first
	})
}

// What a lease consumes further, of which its bucket charges nothing, is that bucket's own: it comes
// off the counter again, whatever is charged meanwhile.
func TestConsumedBeyondShadowIsGivenBack(t *testing.T) {
	s := memProcess(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 10), dynalimit.PerDay("tpm", 100).AsShadow()}})
	s.ofGroup(model)
	s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerDay("tpm", 10).AsShadow())
	lease := s.acquire("key", dynalimit.Amounts{"rpm": 1})
	require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 50}))
	require.NoError(t, lease.Rollback(t.Context()))
	require.NoError(t, s.limiter.Close(t.Context()))
	assert.EqualValues(t, 10, s.levelOn("key", group, "tpm"))
	assert.Zero(t, s.storedOn("key", group, "tpm").Consumed)
}

// What a call used beyond a quota in shadow is no estimate that comes back to it: once it is
// enforced, its denials say when the next window begins.
func TestBeyondShadowIsNoEstimate(t *testing.T) {
	s := memProcess(t, nil)
	quota := dynalimit.DailyQuota("usd", 100, "UTC")
	s.limits(admin.Scope{Everyone: true}, quota.AsShadow())
	require.NoError(t, s.acquire("key", dynalimit.Amounts{"usd": 100}).Settle(t.Context(), nil))
	s.acquire("key", dynalimit.Amounts{"usd": 500})
	s.limits(admin.Scope{Everyone: true}, quota)
	denial := s.deny("key", dynalimit.Amounts{"usd": 50})
	assert.False(t, denial.Statuses[0].ByEstimates)
	assert.Greater(t, denial.RetryAfter, time.Minute)
}

// Money in shadow does not block a call when nobody answers, and enforced money does.
func TestMoneyInShadowDoesNotBlock(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		usd := dynalimit.DailyMoneyQuota("usd", 100, "")
		usd.PerModel = true
		s.limits(admin.Scope{Everyone: true, Resource: model}, usd.AsShadow())
		s.limits(admin.Scope{Everyone: true, Resource: "enforced"}, usd)
		acquire := func(resource string) error {
			_, err := s.limiter.Acquire(t.Context(), "key", resource, dynalimit.Amounts{"usd": 1})
			return err
		}
		require.NoError(t, acquire(model))
		require.NoError(t, acquire("enforced"))
		s.cutOff(ddbmem.Fault{Lose: true})
		require.NoError(t, acquire(model))
		require.ErrorIs(t, acquire("enforced"), dynalimit.ErrUnavailable)
		s.recovers()
		own := s.peer(&dynalimit.Options{OnUnavailable: dynalimit.Allow, Limits: []dynalimit.Limit{dynalimit.DailyMoneyQuota("usd", 100, "")}})
		own.acquire("other", dynalimit.Amounts{"usd": 1})
		own.cutOff(ddbmem.Fault{Lose: true})
		_, err := own.limiter.Acquire(t.Context(), "other", "own", dynalimit.Amounts{"usd": 1})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable, "of a limiter's own limits")
		own.recovers()
	})
}

// What the observer hears of a limit that was exceeded and denied nobody.
func TestOverrunsAreHeard(t *testing.T) {
	var heard []observe.Overrun
	hears := observe.Observer{Overran: func(e observe.Overrun) { heard = append(heard, e) }}
	s := memProcess(t, &dynalimit.Options{Observer: hears, Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100).WithMaxDebt(10), dynalimit.PerDay("tpm", 100).AsShadow()}})
	lease := s.acquire("key", dynalimit.Amounts{"rpm": 90, "tpm": 300})
	require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 50}))
	require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 150}))
	assert.Equal(t, []observe.Overrun{
		{EntityID: "key", Resource: model, Limit: "tpm", Amount: 300, Shadow: true},
		{EntityID: "key", Resource: model, Limit: "tpm", Amount: 50, Shadow: true},
		{EntityID: "key", Resource: model, Limit: "rpm", Amount: 40},
	}, heard)
}

// Callers who disagree whether a limit is in shadow do not decide for each other: whoever enforces
// it is never beyond it.
func TestShadowOfOneCallEnforcesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("tpm", 100)}})
		s.db.SetFaults(after10ms)
		var mu sync.Mutex
		var calls sync.WaitGroup
		admitted := 0
		for i := range 400 {
			opts := []dynalimit.AcquireOption{dynalimit.WithLimits(dynalimit.PerDay("tpm", 100))}
			if i%2 == 0 {
				opts[0] = dynalimit.WithLimits(dynalimit.PerDay("tpm", 100).AsShadow())
			}
			calls.Go(func() {
				_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"tpm": 1}, opts...)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case i%2 == 0:
					assert.NoError(t, err)
				case err == nil:
					admitted++
				default:
					assert.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
				}
			})
		}
		calls.Wait()
		assert.LessOrEqual(t, admitted, 100)
		assert.GreaterOrEqual(t, s.level("key", "tpm"), int64(0))
	})
}
