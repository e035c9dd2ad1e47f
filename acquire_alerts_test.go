package dynalimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
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
