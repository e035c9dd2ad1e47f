package tests

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

const mostTokens = 1_000_000_000_000

func usd(n int64) dynalimit.Amounts { return dynalimit.Amounts{"usd": n} }

// Estimates are of the day in which they were charged, whatever their calls are charged later.
func TestEstimatesOfTwoDays(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 100, pacific))
		s.advanceTo("2099-01-24T07:50:00Z")
		old := s.acquire("key", usd(60))
		s.advanceTo("2099-01-24T08:50:00Z")
		lease := s.acquire("key", usd(90))
		require.NoError(t, old.Settle(t.Context(), usd(70)))
		assert.True(t, s.deny("key", usd(50)).Primary().Held)
		require.NoError(t, lease.Settle(t.Context(), usd(90)))
		assert.False(t, s.deny("key", usd(50)).Primary().Held)
	})
}

// What dropped leases took is used: nobody is told to come back for it in a second.
func TestDroppedLeasesHoldNoEstimates(t *testing.T) {
	s := memProcess(t, nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 100, pacific))
	s.advanceTo("2099-01-24T08:50:00Z")
	for range 10 {
		s.acquire("key", usd(10))
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		_, err := s.limiter.Acquire(t.Context(), "key", model, usd(1))
		var exceeded *dynalimit.LimitExceededError
		return errors.As(err, &exceeded) && !exceeded.Primary().Held && exceeded.RetryAfter > time.Hour
	}, 10*time.Second, 10*time.Millisecond)
}

// What was granted above a quota is taken at once, stays when the bucket is reset, and is bounded,
// so that no number of grants makes the bucket unreadable.
func TestGrantsAboveAQuota(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		ctx, buckets := t.Context(), s.repo.admin().Buckets
		s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 100, pacific), dynalimit.PerDay("rpm", 10))
		s.advanceTo("2099-01-24T10:50:00Z")
		done, err := buckets.GrantWindow(ctx, "key", model, "early", usd(50))
		require.NoError(t, err)
		assert.True(t, done.Missing)
		s.acquire("key", dynalimit.Amounts{"usd": 50, "rpm": 1})
		_, err = buckets.GrantWindow(ctx, "key", model, "grant", usd(100))
		require.NoError(t, err)
		_, err = buckets.GrantWindow(ctx, "key", model, "grant", usd(101))
		requireInvalid(t, err, "id")
		done, err = buckets.Reset(ctx, "key", model, "reset")
		require.NoError(t, err)
		assert.Equal(t, dynalimit.Amounts{"usd": 150, "rpm": 9}, done.Before)
		assert.Equal(t, dynalimit.Amounts{"usd": 150, "rpm": 10}, done.After)
		lease := s.acquire("key", usd(150))
		require.NoError(t, lease.Adjust(ctx, usd(60)))
		_, err = buckets.Reset(ctx, "key", model, "reset-of-debt", "usd")
		require.NoError(t, err)
		assert.EqualValues(t, 100, s.level("key", "usd"))
		for i := 0; err == nil; i++ {
			require.Less(t, i, 10_000)
			_, err = buckets.GrantWindow(ctx, "key", model, fmt.Sprint("huge-", i), usd(mostTokens))
		}
		requireInvalid(t, err, "amounts[usd]")
		s.acquire("key", usd(mostTokens))
	})
}

// Levels of one chain are in windows of their own: a day, a token bucket, and a month over all
// models, of which others have opened some. Each gives back within its own window.
func TestWindowsOfLevels(t *testing.T) {
	for _, mode := range []dynalimit.CascadeMode{dynalimit.CascadeParallel, dynalimit.CascadeTransaction} {
		t.Run(string(mode), func(t *testing.T) {
			virtual(t, &dynalimit.Options{Cascade: mode}, func(t *testing.T, s *process) {
				ctx := t.Context()
				s.family("key", "team")
				require.NoError(t, s.repo.CreateEntity(ctx, admin.Entity{ID: "other", ParentID: "team", Cascade: true}))
				s.ofGroup(model)
				s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 100, pacific))
				s.limits(admin.Scope{Entity: "team", Resource: model}, dynalimit.PerDay("usd", 86_400))
				s.limits(admin.Scope{Entity: "team", Resource: group}, dynalimit.Monthly("usd", 250, "Asia/Tokyo"))
				levels := func(key, team, month int64) {
					t.Helper()
					assert.Equal(t, []int64{key, team, month}, []int64{s.levelOn("key", model, "usd"), s.levelOn("team", model, "usd"), s.levelOn("team", group, "usd")})
				}
				s.advanceTo("2099-01-24T07:59:59Z")
				first := s.acquire("key", usd(60))
				levels(40, 86_340, 190)
				s.clock.advance(time.Second)
				s.peer(nil).acquire("other", usd(10)) // the key's day is not open
				second := s.acquire("key", usd(80))
				levels(20, 86_251, 100)
				require.NoError(t, first.Rollback(ctx)) // in another day of the key
				levels(20, 86_311, 160)
				s.advanceTo("2099-01-31T15:00:00Z") // it is February in Tokyo
				s.acquire("key", usd(70))
				levels(30, 86_330, 180)
				require.NoError(t, second.Rollback(ctx)) // what is charged is of days and a month that are over
				levels(30, 86_400, 180)
			})
		})
	}
}

// A zone has one name, which every host knows: none that is another path to it, the host's own, or
// one with leap seconds.
func TestZonesThatCannotBe(t *testing.T) {
	s := memProcess(t, nil)
	for _, zone := range []string{
		"../etc/passwd", "/etc/localtime", "Local", "local", "localtime", "posixrules", "America", "America//Los_Angeles", "America/./Los_Angeles",
		"./UTC", "posix/UTC", "right/UTC", "UTC\x00", " UTC", strings.Repeat("A", 10_000),
	} {
		err := s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.Daily("usd", 1, zone)})
		requireInvalid(t, err, "limits[0].Window")
		assert.Less(t, len(err.Error()), 200)
	}
}
