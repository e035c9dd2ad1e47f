package dynalimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A claim brings alerts to a bucket that calls use, in one request. A process with an older configuration neither takes
// them back nor claims.
func TestAlertsReachTheBucket(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		s.advanceTo("2099-01-23T19:00:00Z")
		s.ofGroup(model)
		usd := dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(50), "")
		set := func(l dynalimit.Limit) {
			_, err := s.repo.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: group}, admin.LimitConfig{Limits: []dynalimit.Limit{l, dynalimit.DailyQuota("tpd", 1000, "")}, Version: admin.AnyVersion})
			require.NoError(t, err)
			s.clock.advance(2 * time.Second)
		}
		calls := func(p *process) (claimed bool) {
			before := numberOf(s.itemOn("key", group), "ct")
			_, err := p.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"usd": 1000, "tpd": 1})
			require.NoError(t, err)
			return numberOf(s.itemOn("key", group), "ct") != before
		}
		alerts := func(entity string) []string {
			if extras := s.imageOn(entity, group).Extras; extras != nil {
				return extras.Alerts
			}
			return nil
		}
		set(usd)
		old := s.peer(nil)
		require.True(t, calls(old))
		assert.Empty(t, alerts("key"))

		set(usd.WithAlerts(80, 50))
		newer := s.peer(nil)
		assert.True(t, calls(newer))
		assert.Equal(t, []string{"usd@50,80"}, alerts("key"))
		assert.False(t, calls(newer), "once")
		assert.False(t, calls(old), "an older configuration brings nothing")
		assert.Equal(t, []string{"usd@50,80"}, alerts("key"))

		set(usd.WithAlerts(90))
		assert.True(t, calls(s.peer(nil)))
		assert.Equal(t, []string{"usd@90"}, alerts("key"))
		assert.False(t, calls(newer))
		set(usd)
		assert.True(t, calls(s.peer(nil)))
		assert.Empty(t, alerts("key"))
		assert.Equal(t, map[string]string{"usd": "usd"}, schema.Units(s.itemOn("key", group)))

		set(usd.WithAlerts(75))
		_, err := s.peer(nil).limiter.Acquire(t.Context(), "other", model, dynalimit.Amounts{"usd": 1000})
		require.NoError(t, err)
		assert.Equal(t, []string{"usd@75"}, alerts("other"), "a new bucket has them at once")
	})
}

// A denied call brings alerts too: a spent bucket takes no other write.
func TestDenialBringsAlerts(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		limit := dynalimit.DailyQuota("tpd", 10, "")
		s.limits(admin.Scope{Everyone: true, Resource: model}, limit)
		s.acquire("key", dynalimit.Amounts{"tpd": 10})
		s.limits(admin.Scope{Everyone: true, Resource: model}, limit.WithAlerts(100))
		s.clock.advance(2 * time.Second)
		s.peer(nil).deny("key", dynalimit.Amounts{"tpd": 1})
		assert.Equal(t, []string{"tpd@100"}, s.image("key").Extras.Alerts)
	})
}

// markedProcess is a process in virtual time with a quota of 100 a day that has an alert of denials, 95 of it used.
func markedProcess(t *testing.T, test func(s *process, mark func() string)) {
	t.Helper()
	virtual(t, nil, func(t *testing.T, s *process) {
		s.advanceTo("2099-01-23T19:00:00Z")
		s.limits(admin.Scope{Everyone: true, Resource: model}, dynalimit.DailyQuota("tpd", 100, "").WithAlerts(50, 100))
		s.acquire("key", dynalimit.Amounts{"tpd": 95})
		test(s, func() string {
			<-time.After(3 * time.Second)
			return schema.Text(s.item("key"), "v_tpd@!")
		})
	})
}

// A denial by a nearly spent quota is marked once for a window and an amount, by a read and a write of no caller. The mark
// changes nothing else of the bucket.
func TestDenialIsMarked(t *testing.T) {
	markedProcess(t, func(s *process, mark func() string) {
		before := s.item("key")
		assert.Zero(s.t, s.used(func() { s.deny("key", dynalimit.Amounts{"tpd": 6}) }).Requests())
		used := s.used(func() {
			s.deny("key", dynalimit.Amounts{"tpd": 6})
			assert.NotEmpty(s.t, mark())
		})
		assert.Equal(s.t, int64(2+1), used.Requests(), "and the look of this test")
		assert.InDelta(s.t, 1, used.WriteUnits(), 0)
		marked := s.item("key")
		delete(marked, "v_tpd@!")
		assert.Equal(s.t, before, marked)

		assert.Equal(s.t, int64(1), s.used(func() {
			s.deny("key", dynalimit.Amounts{"tpd": 6})
			mark()
		}).Requests(), "once")
		first := mark()
		s.advanceTo("2099-01-24T19:00:00Z")
		s.acquire("key", dynalimit.Amounts{"tpd": 95})
		assert.Equal(s.t, first, mark(), "of the day before")
		s.deny("key", dynalimit.Amounts{"tpd": 6})
		second := mark()
		assert.NotEqual(s.t, first, second)
		s.limits(admin.Scope{Everyone: true, Resource: model}, dynalimit.DailyQuota("tpd", 99, "").WithAlerts(50, 100))
		s.clock.advance(2 * time.Second)
		s.peer(nil).deny("key", dynalimit.Amounts{"tpd": 6})
		assert.NotEqual(s.t, second, mark(), "another amount")
	})
}

// These calls say nothing of the quota: one above all of it, one too large for what is left of it, and a dry run.
func TestDenialsThatAreNotMarked(t *testing.T) {
	markedProcess(t, func(s *process, mark func() string) {
		s.deny("key", dynalimit.Amounts{"tpd": 101})
		assert.Empty(s.t, mark())
		_, err := s.limiter.Check(s.t.Context(), "key", model, dynalimit.Amounts{"tpd": 6})
		require.NoError(s.t, err)
		assert.Empty(s.t, mark())
		s.acquire("other", dynalimit.Amounts{"tpd": 55})
		used := s.used(func() {
			s.deny("other", dynalimit.Amounts{"tpd": 50})
			mark()
		})
		assert.Equal(s.t, int64(1), used.Requests(), "the look of this test")
		assert.Empty(s.t, schema.Text(s.item("other"), "v_tpd@!"))
	})
}

// A denial in a window that no write has opened says nothing of the window before, which the bucket still has.
func TestDenialAfterTheWindowOfTheBucket(t *testing.T) {
	markedProcess(t, func(s *process, mark func() string) {
		lease := s.acquire("key", dynalimit.Amounts{"tpd": 5})
		require.NoError(s.t, lease.Adjust(s.t.Context(), dynalimit.Amounts{"tpd": 60})) // of the next day, as a debt
		s.advanceTo("2099-01-24T19:00:00Z")
		s.deny("key", dynalimit.Amounts{"tpd": 60})
		assert.Empty(s.t, mark())
	})
}

// A denial whose tokens come back before the mark is not marked. One that a silent table or a role keeps from being
// marked fails no call.
func TestMarkOfADenialFails(t *testing.T) {
	markedProcess(t, func(s *process, mark func() string) {
		lease := s.acquire("other", dynalimit.Amounts{"tpd": 95})
		s.deny("other", dynalimit.Amounts{"tpd": 6})
		require.NoError(s.t, lease.Rollback(s.t.Context()))
		mark()
		assert.Empty(s.t, schema.Text(s.item("other"), "v_tpd@!"))

		s.deny("key", dynalimit.Amounts{"tpd": 6})
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Drop: strings.Contains(string(r.Body), "v_tpd@!")}
		})
		assert.Empty(s.t, mark())
		s.db.SetFaults(nil)
		s.deny("key", dynalimit.Amounts{"tpd": 6})
		assert.NotEmpty(s.t, mark(), "a lost write is tried again with the next denial")
	})
	markedProcess(t, func(s *process, mark func() string) {
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if strings.Contains(string(r.Body), "v_tpd@!") {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}
			}
			return ddbmem.Fault{}
		})
		for range 5 {
			s.deny("key", dynalimit.Amounts{"tpd": 6})
			assert.Empty(s.t, mark())
		}
	})
}

// Of 200 processes that deny at the same time, few write the mark.
func TestMarksOfManyProcesses(t *testing.T) {
	markedProcess(t, func(s *process, mark func() string) {
		peers := make([]*process, 200)
		for i := range peers {
			peers[i] = s.peer(nil)
		}
		used := s.used(func() {
			for _, p := range peers {
				p.deny("key", dynalimit.Amounts{"tpd": 6})
			}
			s.slowly(2*time.Millisecond, 2*time.Millisecond) // so that those that look at once all see no mark
			assert.NotEmpty(s.t, mark())
		})
		assert.LessOrEqual(s.t, used.Operations["UpdateItem"].Requests, int64(10))
	})
}

// Added tokens raise the quota of alerts for the window, and the next denial tells anew. A bucket without alerts gets the
// tokens alone.
func TestGrantsRaiseTheQuotaOfAlerts(t *testing.T) {
	markedProcess(t, func(s *process, mark func() string) {
		buckets := s.repo.admin().Buckets
		quota := func() schema.AlertedQuota { return schema.AlertedQuotas(s.item("key"))[0] }
		s.deny("key", dynalimit.Amounts{"tpd": 6})
		assert.NotEmpty(s.t, mark())
		require.True(s.t, quota().Denied)
		for i, add := range []func(id string) (*admin.BucketRefill, error){
			func(id string) (*admin.BucketRefill, error) {
				return buckets.GrantWindow(s.t.Context(), "key", model, id, dynalimit.Amounts{"tpd": 20})
			},
			func(id string) (*admin.BucketRefill, error) {
				return buckets.TopUp(s.t.Context(), "key", model, id, dynalimit.Amounts{"tpd": 20})
			},
			func(id string) (*admin.BucketRefill, error) {
				return buckets.Reset(s.t.Context(), "key", model, id)
			},
		} {
			before := quota()
			refill, err := add(fmt.Sprint("op-", i))
			require.NoError(s.t, err)
			after := quota()
			gained := 1000 * (refill.After["tpd"] - refill.Before["tpd"])
			require.Positive(s.t, gained)
			assert.Equal(s.t, before.Amount+gained, after.Amount)
			assert.Equal(s.t, before.Used, after.Used)
			assert.False(s.t, after.Denied)
			s.clock.advance(2 * time.Second)
			s.acquire("key", dynalimit.Amounts{"tpd": refill.After["tpd"] - 5})
			s.deny("key", dynalimit.Amounts{"tpd": 6})
			assert.NotEmpty(s.t, mark())
			require.True(s.t, quota().Denied)
		}
		s.advanceTo("2099-01-24T19:00:00Z")
		s.acquire("key", dynalimit.Amounts{"tpd": 95})
		assert.Equal(s.t, int64(100_000), quota().Amount, "of a new window")
		_, err := buckets.GrantWindow(s.t.Context(), "key", model, "op-last", dynalimit.Amounts{"tpd": 20})
		require.NoError(s.t, err)
		grants := 0
		for attr := range s.item("key") {
			if strings.HasPrefix(attr, "v_tpd@+") {
				grants++
			}
		}
		assert.Equal(s.t, 1, grants, "those of other windows go")
	})
}

// A quota that is removed and set again in one window begins anew: its grants and marks of before do not count.
func TestAlertsOfAQuotaThatReturns(t *testing.T) {
	markedProcess(t, func(s *process, mark func() string) {
		set := func(l ...dynalimit.Limit) schema.Item {
			limits := append(l, dynalimit.DailyQuota("x", 1000, ""))
			_, err := s.repo.SetConfig(s.t.Context(), admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Limits: limits, Only: true, Version: admin.AnyVersion})
			require.NoError(s.t, err)
			s.clock.advance(2 * time.Second)
			s.peer(nil).acquire("key", dynalimit.Amounts{"x": 1})
			return s.item("key")
		}
		quota := dynalimit.DailyQuota("tpd", 100, "").WithAlerts(50, 100)
		for _, between := range [][]dynalimit.Limit{{}, {dynalimit.PerDay("tpd", 100)}} {
			item := set(quota)
			s.deny("key", dynalimit.Amounts{"tpd": 1 + schema.AlertedQuotas(item)[0].Amount/1000 - schema.AlertedQuotas(item)[0].Used/1000})
			_ = mark()
			_, err := s.repo.admin().Buckets.GrantWindow(s.t.Context(), "key", model, fmt.Sprint("op-", len(between)), dynalimit.Amounts{"tpd": 150})
			require.NoError(s.t, err)
			set(between...)
			after := schema.AlertedQuotas(set(quota))[0]
			assert.Equal(s.t, int64(100_000), after.Amount)
			assert.Zero(s.t, after.Used)
			assert.False(s.t, after.Denied)
		}
	})
}

// A call that a quota in shadow would have denied is marked apart from denials, once, and by no request of the call. A later
// denial in the window, without the shadow, is marked too.
func TestDenialInShadowIsMarked(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		s.advanceTo("2099-01-23T19:00:00Z")
		limit := dynalimit.DailyQuota("tpd", 100, "").WithAlerts(50, 100)
		limit.Shadow = true
		s.limits(admin.Scope{Everyone: true, Resource: model}, limit)
		quota := func() schema.AlertedQuota {
			<-time.After(3 * time.Second)
			return schema.AlertedQuotas(s.item("key"))[0]
		}
		s.acquire("key", dynalimit.Amounts{"tpd": 95})
		s.acquire("key", dynalimit.Amounts{"tpd": 101})
		assert.False(t, quota().DeniedInShadow, "a call above the whole quota")
		plain := s.used(func() { s.acquire("key", dynalimit.Amounts{"tpd": 5}) })
		assert.False(t, quota().DeniedInShadow)
		used := s.used(func() { s.acquire("key", dynalimit.Amounts{"tpd": 6}) })
		assert.Equal(t, []float64{plain.ReadUnits(), plain.WriteUnits()}, []float64{used.ReadUnits(), used.WriteUnits()})
		mark := s.used(func() {
			assert.True(t, quota().DeniedInShadow)
			assert.False(t, quota().Denied)
		})
		assert.InDelta(t, 1, mark.WriteUnits(), 0)
		assert.Equal(t, int64(1), s.used(func() {
			s.peer(nil).acquire("key", dynalimit.Amounts{"tpd": 6})
			quota()
		}).Operations["UpdateItem"].Requests, "once")

		limit.Shadow = false
		s.limits(admin.Scope{Everyone: true, Resource: model}, limit)
		s.clock.advance(2 * time.Second)
		s.peer(nil).deny("key", dynalimit.Amounts{"tpd": 6})
		assert.True(t, quota().Denied)
		_, err := s.repo.admin().Buckets.GrantWindow(t.Context(), "key", model, "op", dynalimit.Amounts{"tpd": 20})
		require.NoError(t, err)
		assert.False(t, quota().Denied || quota().DeniedInShadow, "a grant ends both")
	})
}
