package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func retryAt(t *testing.T, err error) time.Time {
	t.Helper()
	require.ErrorIs(t, err, ErrQuotaExceeded)
	at, ok := RetryAt(err)
	require.True(t, ok, err)
	return at
}

// TestRetryAtOfWhatNeverFits: no instant is better than another.
func TestRetryAtOfWhatNeverFits(t *testing.T) {
	w := newWorld(t)
	o := hardOrg()
	o.Limits = []PeriodQuota{{Month, "", 9_000_000}}
	w.org(o)
	for _, micros := range []int64{10_000_001, 9_000_001} {
		_, err := reserveFor(t, w.a, "premium", micros, time.Minute)
		require.ErrorIs(t, err, ErrQuotaExceeded)
		_, ok := RetryAt(err)
		assert.False(t, ok)
		assert.ErrorContains(t, err, "never fits")
	}
}

// TestRetryAtOfHolds: room that holds block comes back when enough of them have
// ended, and then it is there.
func TestRetryAtOfHolds(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		for i, micros := range []int64{2_000_000, 3_000_000, 5_000_000} {
			_, err := reserveFor(t, w.a, "premium", micros, time.Duration(1+i)*time.Minute)
			require.NoError(t, err)
		}
		now := w.clock.Now()
		for micros, lease := range map[int64]time.Duration{1: time.Minute, 2_000_000: time.Minute, 2_000_001: 2 * time.Minute, 5_000_001: 3 * time.Minute} {
			_, err := reserveFor(t, w.b, "premium", micros, time.Minute)
			assert.Equal(t, now.Add(lease+ledger.LeaseMargin).UnixMilli(), retryAt(t, err).UnixMilli(), "%d", micros)
			assert.ErrorContains(t, err, "premium 0.0% and 100.0% held")
		}
		w.spend(appA, "standard", 5_000_000)
		w.spend(appA, "economy", 2_000_000)
		_, err := w.b.Recommend(t.Context(), orgO, appA)
		assert.Equal(t, now.Add(time.Minute+ledger.LeaseMargin).UnixMilli(), retryAt(t, err).UnixMilli())
		w.clock.Set(retryAt(t, err))
		_, err = reserveFor(t, w.b, "premium", 2_000_000, time.Minute)
		require.NoError(t, err)
	})
}

// TestRetryAtOfOtherHolds: those of another label are not in the way, and none
// is longer than its day.
func TestRetryAtOfOtherHolds(t *testing.T) {
	w := newWorld(t)
	w.org(hardOrg())
	_, err := reserveFor(t, w.a, "standard", 5_000_000, time.Minute)
	require.NoError(t, err)
	_, err = reserveFor(t, w.a, "premium", 6_000_000, 10*time.Minute)
	require.NoError(t, err)
	now := w.clock.Now()
	_, err = reserveFor(t, w.a, "premium", 5_000_000, time.Minute)
	assert.Equal(t, now.Add(10*time.Minute+ledger.LeaseMargin).UnixMilli(), retryAt(t, err).UnixMilli())
	_, err = reserveFor(t, w.a, "premium", 4_000_000, 24*time.Hour)
	require.NoError(t, err)
	w.clock.Advance(ledger.DenialFor)
	_, err = reserveFor(t, w.a, "premium", 7_000_000, time.Minute)
	assert.Equal(t, at(t, "2026-01-24T05:00:00Z").Unix(), retryAt(t, err).Unix(), "a new day has its own quota")
}

// TestLimitOfToday: one that was put today has no counter yet, and bounds all
// the same what was spent before.
func TestLimitOfToday(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		w.spend(appA, "premium", 3_000_000)
		o := hardOrg()
		o.Limits = []PeriodQuota{{Month, "", 4_000_000}}
		w.org(o)
		_, err := reserveFor(t, w.a, "standard", 1_000_001, time.Minute)
		assert.Equal(t, at(t, "2026-02-01T05:00:00Z").Unix(), retryAt(t, err).Unix())
		_, err = reserveFor(t, w.a, "standard", 1_000_000, time.Minute)
		require.NoError(t, err)
	})
}

// TestRetryAtOfWhatIsSpent: the day's end for the day's quota, the month's for
// the month's, whatever is held besides.
func TestRetryAtOfWhatIsSpent(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := hardOrg()
		o.Limits = []PeriodQuota{{Month, "", 12_000_000}}
		w.org(o)
		w.spend(appA, "premium", 9_000_000)
		_, err := reserveFor(t, w.a, "premium", 500_000, time.Minute)
		require.NoError(t, err)
		_, err = reserveFor(t, w.a, "premium", 1_000_001, time.Minute)
		assert.Equal(t, at(t, "2026-01-24T05:00:00Z").Unix(), retryAt(t, err).Unix())
		_, err = reserveFor(t, w.a, "standard", 3_000_001, time.Minute)
		assert.Equal(t, at(t, "2026-02-01T05:00:00Z").Unix(), retryAt(t, err).Unix())
	})
}

// TestDenialIsRemembered: for a second, not beyond the first lease that ends,
// and not beyond what this process gives back; for no one who needs less.
func TestDenialIsRemembered(t *testing.T) {
	w := newWorld(t)
	w.org(hardOrg())
	h, err := reserveFor(t, w.a, "premium", 9_000_000, 10*time.Minute)
	require.NoError(t, err)
	denied := func(micros int64) int64 {
		return w.spentOn(func() {
			_, err := reserveFor(t, w.a, "premium", micros, time.Minute)
			require.ErrorIs(t, err, ErrQuotaExceeded)
		}).Requests()
	}
	w.recommend(w.a, appA) // what a denial tells is known
	assert.Equal(t, int64(3), denied(1_000_001))
	for range 50 {
		assert.Zero(t, denied(1_000_001))
		assert.Zero(t, denied(5_000_000), "more than what was refused")
	}
	less, err := reserveFor(t, w.a, "premium", 400_000, time.Minute)
	require.NoError(t, err, "there is room for less")
	assert.Zero(t, denied(1_000_001))
	require.NoError(t, less.Release(t.Context()))
	less, err = reserveFor(t, w.a, "premium", 1_000_000, time.Minute)
	require.NoError(t, err, "given back here")
	require.NoError(t, less.Release(t.Context()))

	assert.Equal(t, int64(3), denied(1_000_001))
	require.NoError(t, h.Release(t.Context()))
	_, err = reserveFor(t, w.a, "premium", 10_000_000, time.Minute)
	require.NoError(t, err)

	assert.Equal(t, int64(3), denied(1))
	w.clock.Advance(ledger.DenialFor)
	assert.Equal(t, int64(3), denied(1), "a second later it is asked again")
	w.clock.Advance(time.Minute + ledger.LeaseMargin - ledger.DenialFor - 500*time.Millisecond)
	assert.Positive(t, denied(1))
	w.clock.Advance(500 * time.Millisecond)
	_, err = reserveFor(t, w.a, "premium", 10_000_000, time.Minute)
	require.NoError(t, err, "the lease has ended within the second")
}

// TestDenialIsOfItsCounter: another label, and a raised quota, are not refused
// from memory.
func TestDenialIsOfItsCounter(t *testing.T) {
	w := newWorld(t)
	w.org(hardOrg())
	_, err := reserveFor(t, w.a, "premium", 10_000_000, time.Minute)
	require.NoError(t, err)
	_, err = reserveFor(t, w.a, "premium", 1, time.Minute)
	require.ErrorIs(t, err, ErrQuotaExceeded)
	_, err = reserveFor(t, w.a, "standard", 1, time.Minute)
	require.NoError(t, err)
	o := hardOrg()
	o.Quotas["premium"] = 11_000_000
	w.org(o)
	_, err = reserveFor(t, w.a, "premium", 1_000_000, time.Minute)
	require.NoError(t, err)
}

// TestLeaseMargin: a hold is left alone for a moment after its lease, for the
// sake of clocks that differ.
func TestLeaseMargin(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		_, err := reserveFor(t, w.a, "premium", 10_000_000, time.Minute)
		require.NoError(t, err)
		w.clock.Advance(time.Minute + ledger.LeaseMargin - time.Millisecond)
		_, err = reserveFor(t, w.b, "premium", 10_000_000, time.Minute)
		require.ErrorIs(t, err, ErrQuotaExceeded)
		w.clock.Advance(time.Millisecond)
		_, err = reserveFor(t, w.b, "premium", 10_000_000, time.Minute)
		require.NoError(t, err)
	})
}

// TestTotalsHaveFurtherQuotas: a label that a month's quota blocks is exceeded,
// whatever its own day says.
func TestTotalsHaveFurtherQuotas(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Limits = []PeriodQuota{{Month, "", 4_000_000}, {Week, "premium", 3_100_000}}
		w.org(o)
		w.spend(appA, "premium", 3_000_000)
		got := w.total(appA, "premium", "")
		assert.Equal(t, StatusTight, got.Status, "of the week")
		require.Len(t, got.Limits, 2)
		assert.Equal(t, int64(3_000_000), got.Limits[0].SpendMicros)
		assert.Equal(t, StatusNormal, w.total(appA, "standard", "").Status)
		w.spend(appA, "standard", 1_000_000)
		for _, label := range o.Ordering {
			assert.Equal(t, StatusExceeded, w.total(appA, label, "").Status, label)
		}
		assert.Equal(t, StatusNormal, w.total(appA, "premium", "20260122").Status, "another day")
		assert.Equal(t, StatusNormal, w.total("", "premium", "").Status, "each app has its own")
	})
}

// TestAReservationGoesByOneInstant: one that is under way when the rules change with the day is
// held where the day that it is of is counted.
func TestAReservationGoesByOneInstant(t *testing.T) {
	midnight := at(t, "2026-01-24T05:00:00Z")
	for name, change := range map[string]func(*Org){
		"hard to soft": func(o *Org) { o.Enforcement = Soft },
		"app to org":   func(o *Org) { o.Scope = ScopeOrg },
		"further quota": func(o *Org) {
			o.Limits = []PeriodQuota{{Period: Week, Label: "premium", Micros: 50_000_000}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.org(hardOrg())
			next := hardOrg()
			change(&next)
			w.org(next)
			w.clock.Set(midnight.Add(-time.Millisecond))
			w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Operation == "UpdateItem" { // of the app, which nobody knew
					w.clock.Set(midnight)
				}
				return ddbmem.Fault{}
			})
			h := w.reserve(w.a, 1_000_000)
			w.db.SetFaults(nil)
			require.Equal(t, midnight, w.clock.Now())
			assert.Equal(t, "20260123", h.Day)
			assert.Equal(t, int64(1_000_000), w.total(appA, "premium", "20260123").HeldMicros)
			require.NoError(t, h.Release(t.Context()))
			got := w.total(appA, "premium", "20260123")
			assert.Zero(t, got.HeldMicros)
			assert.Zero(t, got.CostMicros)
		})
	}
}
