package tests

import (
	"context"
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

// corrections hears of corrections, and that nothing locks their lease meanwhile.
type corrections struct {
	lease *dynalimit.Lease
	heard []observe.Correction
}

func (c *corrections) observer() observe.Observer {
	return observe.Observer{Corrected: func(_ context.Context, e observe.Correction) {
		_ = c.lease.Consumed()
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
