package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The expiry covers at least an hour, the refill of the slowest limit, and the
// deepest debt.
func TestExpiryCoversRefillAndDebt(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		for _, test := range []struct {
			name  string
			limit dynalimit.Limit
			debt  int64
			least time.Duration
		}{
			{"fast", dynalimit.PerSecond("x", 10), 0, time.Hour},
			{"slow", dynalimit.PerDay("x", 10), 0, 7 * 24 * time.Hour},
			{"small refill", dynalimit.Limit{Name: "x", Capacity: 1000, RefillAmount: 1, RefillPeriod: time.Minute}, 0, 7 * 1000 * time.Minute},
			{"debt", dynalimit.PerMinute("x", 10), 1_000_000, 100_000 * time.Minute},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := newProcess(t, e, nil)
				require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{test.limit}))
				lease := s.acquire("user-1", dynalimit.Amounts{"x": 1})
				if test.debt > 0 {
					require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"x": test.debt}))
				}
				ahead := time.Duration(s.image("user-1").TTL-s.clock.now().Unix()) * time.Second
				assert.GreaterOrEqual(t, ahead, test.least)
			})
		}
	})
}

// A bucket whose limits are the entity's own is never deleted.
func TestOwnLimitsHaveNoExpiry(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.NotZero(t, s.image("user-1").TTL)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "user-1"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		s.clock.advance(2 * time.Second)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Zero(t, s.image("user-1").TTL)
		require.NoError(t, s.repo.DeleteLimits(t.Context(), admin.Scope{Entity: "user-1"}))
		s.clock.advance(2 * time.Second)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.NotZero(t, s.image("user-1").TTL)
	})
}

// With expired items deleted at once, a busy or indebted bucket is never
// forgiven: its expiry moves before it comes.
func TestExpiryNeverForgives(t *testing.T) {
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now), ddbmem.WithExpiry())
	repo := e.repository(t, &dynalimit.RepositoryOptions{Now: clock.now})
	s := (&process{engine: e, t: t, clock: clock}).on(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerHour("x", 60)}})
	lease := s.acquire("user-1", dynalimit.Amounts{"x": 60})
	require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"x": 60 * 24 * 2})) // two days' worth
	admitted := 0
	for range 24 * 4 { // four days, an attempt every hour
		s.clock.advance(time.Hour)
		admitted += s.allowed(60, "user-1", "x")
	}
	assert.Equal(t, 60*24*2, admitted, "nothing for two days, then what is refilled")
}

// An item past its expiry that DynamoDB has not deleted yet is not spent as it
// is: the take moves the expiry, or the debt would vanish with the deletion.
func TestExpiredItemThatIsStillThere(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 100})
		item := s.item("user-1")
		item[schema.TTL] = schema.Number(s.clock.now().Unix() - 10)
		put(t, s.repo, item)
		s.clock.advance(600 * time.Millisecond)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Greater(t, s.image("user-1").TTL, s.clock.now().Unix()+3000)
		item = s.item("user-1")
		item[schema.TTL] = schema.Number(s.clock.now().Unix() - 10)
		put(t, s.repo, item)
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 500}))
		image := s.image("user-1")
		assert.GreaterOrEqual(t, image.TTL, s.clock.now().Unix()+6*60, "an adjust, too")
		assert.Equal(t, int64(-500_000), s.level("user-1", "rpm")*milli, "no more, no less")
	})
}
