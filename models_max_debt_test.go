package dynalimit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A correction leaves no deeper debt than the limit may have: the rest is counted, the lease says
// so, and nothing of it is ever given back.
func TestCorrectionsStopAtTheDeepestDebt(t *testing.T) {
	for name, limit := range map[string]dynalimit.Limit{"bucket": dynalimit.PerDay("tpm", 100), "quota": dynalimit.DailyQuota("tpm", 100, "UTC")} {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				s := newProcess(t, e, nil)
				ctx := t.Context()
				s.limits(admin.Scope{Everyone: true}, limit.WithMaxDebt(50))
				lease, other := s.acquire("key", dynalimit.Amounts{"tpm": 60}), s.acquire("key", dynalimit.Amounts{"tpm": 10})
				require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 200}))
				assert.EqualValues(t, -50, s.level("key", "tpm"))
				assert.EqualValues(t, 270, s.stored("key", "tpm").Consumed/milli)
				status := lease.Statuses()[0]
				assert.EqualValues(t, 260, status.Requested)
				assert.EqualValues(t, 120, status.Uncharged)
				require.NoError(t, s.peer(nil).acquire("new", dynalimit.Amounts{"tpm": 1}).Adjust(ctx, dynalimit.Amounts{"tpm": 500}))
				assert.EqualValues(t, -50, s.level("new", "tpm"), "of a bucket that has debt by one correction")
				require.NoError(t, other.Rollback(ctx))
				assert.EqualValues(t, -40, s.level("key", "tpm"))
				require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"tpm": 100}))
				assert.EqualValues(t, 0, s.level("key", "tpm"), "of 160 that came off, 120 had not been charged")
				require.NoError(t, s.limiter.Close(ctx)) // it is told beside the lane what comes off the counter
				assert.EqualValues(t, 100, s.stored("key", "tpm").Consumed/milli)
			})
		})
	}
}

// Whoever corrects at the same time, from images however old, no bucket is deeper in debt than it
// may be, and its counter is exact.
func TestRacingCorrectionsStopAtTheDeepestDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("tpm", 100).WithMaxDebt(30), dynalimit.DailyQuota("usd", 100, "UTC").WithMaxDebt(20))
		s.db.SetFaults(after10ms)
		var leases []*dynalimit.Lease
		for range 4 {
			p := s.peer(nil)
			for range 10 {
				leases = append(leases, p.acquire("key", dynalimit.Amounts{"tpm": 1, "usd": 1}))
			}
		}
		var calls sync.WaitGroup
		for _, lease := range leases {
			calls.Go(func() { assert.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 11, "usd": 21})) })
		}
		calls.Wait()
		elapse(time.Second)
		for limit, want := range map[string]struct{ tokens, used int64 }{"tpm": {-30, 440}, "usd": {-20, 840}} {
			assert.InDelta(t, want.tokens, s.level("key", limit), 1, limit)
			assert.Equal(t, want.used, s.stored("key", limit).Consumed/milli, limit)
		}
	})
}

// A bound of debts and a shadow are stored as kinds, which older versions refuse, and go with their limits.
func TestMaxDebtAndShadowAreStored(t *testing.T) {
	for attribute, changed := range map[string]func(dynalimit.Limit) dynalimit.Limit{
		"k_tpm_d": func(l dynalimit.Limit) dynalimit.Limit { return l.WithMaxDebt(30) }, "k_tpm_s": dynalimit.Limit.AsShadow,
	} {
		s, plain := memProcess(t, nil), dynalimit.PerDay("tpm", 100)
		s.madeBefore()
		s.limits(admin.Scope{Everyone: true}, changed(plain))
		assert.Equal(t, schema.Number(2), s.storedItem(schema.VersionKey())["kinds_min"], attribute)
		limits := []dynalimit.Limit{changed(plain), changed(dynalimit.DailyQuota("usd", 100, "UTC").WithMaxDebt(20))}
		s.limits(admin.Scope{Everyone: true}, limits...)
		stored, err := s.repo.GetConfig(t.Context(), admin.Scope{Everyone: true})
		require.NoError(t, err)
		assert.Equal(t, limits, stored.Limits)
		s.limits(admin.Scope{Everyone: true}, plain)
		assert.NotContains(t, s.storedItem(s.repo.keys.SystemConfig()), attribute)
		requireInvalid(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{plain.WithMaxDebt(-1)}), "limits[0].MaxDebt")
	}
}

// A correction whose answer comes late gives back what was charged, and nothing of what was
// written down.
func TestCorrectionThatIsFoundOutLaterStopsAtTheDeepestDebt(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("tpm", 1000).WithMaxDebt(50)}}, func(t *testing.T, s *process) {
		ctx := t.Context()
		s.acquire("key", dynalimit.Amounts{"tpm": 900})
		lease := s.acquire("key", dynalimit.Amounts{"tpm": 60})
		s.cutOff(ddbmem.Fault{After: 1500 * time.Millisecond})
		requireUnconfirmed(t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 200}), dynalimit.Amounts{"tpm": 200})
		s.recovers()
		assert.EqualValues(t, -50, s.level("key", "tpm"))
		require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 1}))
		assert.EqualValues(t, 111, lease.Statuses()[0].Uncharged)
		require.NoError(t, lease.Rollback(ctx))
		s.recovers()
		assert.EqualValues(t, 100, s.level("key", "tpm"))
		assert.EqualValues(t, 900, s.stored("key", "tpm").Consumed/milli)
		assert.Zero(t, lease.Statuses()[0].Uncharged, "nothing of it is used any more")
	})
}

// What is lowered comes off what was not charged, for good: what the lease held of yesterday, which
// can only be counted from then on, is not taken for it.
func TestWhatWasNotChargedIsLoweredFirst(t *testing.T) {
	for name, limit := range map[string]dynalimit.Limit{"bounded": dynalimit.DailyQuota("usd", 100, "UTC").WithMaxDebt(20), "in shadow": dynalimit.DailyQuota("usd", 100, "UTC").AsShadow()} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, nil)
			ctx := t.Context()
			s.limits(admin.Scope{Everyone: true}, limit)
			lease := s.acquire("key", dynalimit.Amounts{"usd": 50})
			if limit.Shadow {
				require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"usd": 500}))
			} else {
				require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"usd": 500}))
			}
			require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"usd": -lease.Statuses()[0].Uncharged}))
			s.clock.advance(48 * time.Hour)
			for range 2 {
				require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"usd": 10}))
			}
			assert.Zero(t, lease.Statuses()[0].Uncharged)
			assert.EqualValues(t, 80, s.level("key", "usd"))
		})
	}
}

// A lease that lowers what only a counter has, because it was written down or taken in a window
// that has ended, takes nothing off what a quota is to be charged for the calls of an outage.
func TestCorrectionOfTheCounterLeavesTheChargeOfAnOutage(t *testing.T) {
	for name, extra := range map[string]int64{"written down": 500, "of a window that has ended": 1} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
				ctx := t.Context()
				s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, "UTC").WithMaxDebt(20))
				lease := s.acquire("key", dynalimit.Amounts{"usd": 50})
				require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"usd": extra}))
				s.clock.advance(48 * time.Hour)
				require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"usd": 1}))
				s.cutOff(ddbmem.Fault{Lose: true})
				require.True(t, s.acquire("key", dynalimit.Amounts{"usd": 60}).Degraded())
				require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"usd": -50}))
				s.recovers()
				assert.EqualValues(t, 39, s.level("key", "usd"))
				assert.EqualValues(t, 61+extra, s.stored("key", "usd").Consumed/milli)
			})
		})
	}
}

// What was written down was never taken from the process's share: lowered in an outage, it admits
// nothing there.
func TestWhatWasWrittenDownIsNotGivenToTheShare(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Local, Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 100).WithMaxDebt(20)}}, func(t *testing.T, s *process) {
		lease := s.acquire("key", dynalimit.Amounts{"tpm": 50})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 500}))
		s.clock.advance(10 * time.Minute)
		s.cutOff(ddbmem.Fault{Lose: true})
		s.acquire("key", dynalimit.Amounts{"tpm": 100})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -400}))
		s.deny("key", dynalimit.Amounts{"tpm": 100})
		s.recovers()
	})
}

// What a bucket counted and did not charge is not taken off the counter of the one that was made
// since.
func TestWhatWasNotChargedOfADeletedBucketStaysConsumed(t *testing.T) {
	for name, limit := range map[string]dynalimit.Limit{"bounded": dynalimit.PerMinute("tpm", 100).WithMaxDebt(20), "in shadow": dynalimit.PerMinute("tpm", 100).AsShadow()} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, nil)
			ctx := t.Context()
			s.limits(admin.Scope{Everyone: true}, limit)
			leases := []*dynalimit.Lease{s.acquire("key", dynalimit.Amounts{"tpm": 90}), s.acquire("key", dynalimit.Amounts{"tpm": 10})}
			for _, lease := range leases {
				if limit.Shadow {
					require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"tpm": 500}))
				} else {
					require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 520}))
				}
			}
			s.delete("key")
			s.peer(nil).acquire("key", dynalimit.Amounts{"tpm": 30})
			require.NoError(t, leases[0].Rollback(ctx)) // finds out with what it gives back
			require.NoError(t, leases[1].Adjust(ctx, dynalimit.Amounts{"tpm": -400}))
			require.NoError(t, s.limiter.Close(ctx))
			assert.EqualValues(t, 70, s.level("key", "tpm"))
			assert.EqualValues(t, 30, s.stored("key", "tpm").Consumed/milli)
		})
	}
}
