package dynalimit_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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

// Of 200 racing calls of four processes, exactly as many are admitted as the quota of the key, of
// its team, or of all models allows, whichever of two models they are for.
func TestRacersOnAQuota(t *testing.T) {
	for name, at := range map[string]admin.Scope{
		"key": {Entity: "key", Resource: model}, "team": {Entity: "team", Resource: model}, "all models": {Entity: "team", Resource: group},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), nil)
				s.family("key", "team")
				s.ofGroup(model, otherModel)
				s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 1_000_000, pacific))
				s.limits(at, dynalimit.DailyQuota("usd", 100, pacific))
				models := []string{model}
				if at.Resource == group {
					models = append(models, otherModel)
				}
				assert.EqualValues(t, 100, s.race("key", dynalimit.Amounts{"usd": 1}, models...))
				s.db.SetFaults(nil)
				used := int64(0)
				for _, m := range models {
					used += 1_000_000 - s.levelOn("key", m, "usd")
				}
				if at.Entity == "team" {
					assert.EqualValues(t, 100, used, "the others were given back")
				}
			})
		})
	}
}

// windowsUsed sums what is charged to a quota in each stored window, by the writes of its bucket.
type windowsUsed struct {
	mu   sync.Mutex
	used map[int64]int64
	at   map[int64]time.Time // the first charge of a window
}

func (u *windowsUsed) wrote(w ddbmem.Write) {
	if w.New == nil || !strings.HasPrefix(schema.KeyOf(w.New).SK, "#BUCKET#") {
		return
	}
	sets := schema.NewLimitSets()
	before, _ := sets.DecodeBucket(w.Old, nil, 0)
	after, err := sets.DecodeBucket(w.New, nil, 0)
	i := after.Set.Index("usd")
	if err != nil || i < 0 {
		return
	}
	consumed := after.Limits[i].Consumed
	if before != nil && before.Set.Index("usd") >= 0 {
		consumed -= before.Limits[before.Set.Index("usd")].Consumed
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	window := int64(after.Limits[i].Window)
	if _, known := u.at[window]; !known {
		u.at[window] = w.Time
	}
	u.used[window] += consumed / milli
}

// Over midnight in three zones, and where their clocks change, processes whose clocks are up to
// 5 s wrong use each day's quota up, and no more.
func TestEachWindowIsExactWhateverTheClocks(t *testing.T) {
	for _, test := range []struct{ zone, midnight string }{
		{pacific, "2000-01-15T08:00:00Z"},
		{pacific, "2000-04-02T08:00:00Z"},
		{pacific, "2000-04-03T07:00:00Z"}, // a day of 23 hours
		{pacific, "2000-10-29T07:00:00Z"},
		{pacific, "2000-10-30T08:00:00Z"}, // of 25
		{"Europe/Berlin", "2000-01-15T23:00:00Z"},
		{"Europe/Berlin", "2000-03-25T23:00:00Z"},
		{"Europe/Berlin", "2000-10-29T23:00:00Z"},
		{"America/Santiago", "2000-10-15T04:00:00Z"},
		{"America/Santiago", "2000-03-12T04:00:00Z"}, // no midnight, and two
	} {
		t.Run(test.zone+" "+test.midnight, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				midnight, err := time.Parse(time.RFC3339, test.midnight)
				require.NoError(t, err)
				e := memEngine(t)
				s := liveProcess(t, e, nil)
				used := &windowsUsed{used: map[int64]int64{}, at: map[int64]time.Time{}}
				e.db.OnWrite(used.wrote)
				e.db.SetFaults(after10ms)
				s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, test.zone))
				elapse(time.Until(midnight.Add(-20 * time.Second)))
				var calls sync.WaitGroup
				for _, skew := range []time.Duration{0, -5 * time.Second, 5 * time.Second, 300 * time.Millisecond} {
					p := s.on(e.open(t, s.repo.table, &dynalimit.RepositoryOptions{Now: func() time.Time { return time.Now().Add(skew) }}), nil)
					for range 5 {
						calls.Go(func() {
							for range 200 {
								elapse(200 * time.Millisecond)
								if _, err := p.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"usd": 1}); err != nil && !errors.Is(err, dynalimit.ErrLimitExceeded) {
									t.Error(err)
								}
							}
						})
					}
				}
				calls.Wait()
				require.Len(t, used.used, 2, "the day before and the day")
				for window, n := range used.used {
					assert.EqualValues(t, 100, n, "in window %d", window)
					if used.at[window].After(midnight.Add(-15 * time.Second)) {
						assert.WithinDuration(t, midnight, used.at[window], 5500*time.Millisecond)
					}
				}
			})
		})
	}
}

// A clock that DynamoDB's answers correct opens no window before it has surely begun.
func TestNoWindowIsOpenedByAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, "UTC"))
		yes := true
		p := s.on(s.open(t, s.repo.table, &dynalimit.RepositoryOptions{Now: func() time.Time { return time.Now().Add(900 * time.Millisecond) }, CorrectClock: &yes}), nil)
		elapse(time.Until(time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC).Add(-time.Minute)))
		p.acquire("key", dynalimit.Amounts{"usd": 100})
		elapse(time.Minute - 500*time.Millisecond) // it is past midnight by its own clock
		exceeded := p.deny("key", dynalimit.Amounts{"usd": 1})
		rate := dynalimit.WithLimits(dynalimit.PerSecond("rps", 5))
		p.acquire("new", dynalimit.Amounts{"usd": 100})
		p.acquire("new-with-limits", dynalimit.Amounts{"usd": 100}, rate)
		elapse(exceeded.RetryAfter)
		assert.False(t, time.Now().Before(time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)))
		p.acquire("key", dynalimit.Amounts{"usd": 100})
		p.acquire("new", dynalimit.Amounts{"usd": 100})
		p.acquire("new-with-limits", dynalimit.Amounts{"usd": 100}, rate)
	})
}

// race has four processes make 200 calls at once, on models in turn, and says how many are
// admitted. Requests are slow from then on.
func (s *process) race(entity string, amounts dynalimit.Amounts, models ...string) int64 {
	s.t.Helper()
	s.db.SetFaults(after10ms)
	processes := []*process{s, s.peer(nil), s.peer(nil), s.peer(nil)}
	var admitted atomic.Int64
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() {
			_, err := processes[i/2%4].limiter.Acquire(s.t.Context(), entity, models[i%len(models)], amounts)
			if err == nil {
				admitted.Add(1)
			} else if !errors.Is(err, dynalimit.ErrLimitExceeded) {
				s.t.Error(err)
			}
		})
	}
	calls.Wait()
	return admitted.Load()
}

const mostTokens = 1_000_000_000_000

func usd(n int64) dynalimit.Amounts { return dynalimit.Amounts{"usd": n} }

// Estimates are of the day in which they were charged, whatever their calls are charged later.
func TestEstimatesOfTwoDays(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific))
		s.advanceTo("2099-01-24T07:50:00Z")
		old := s.acquire("key", usd(60))
		s.advanceTo("2099-01-24T08:50:00Z")
		lease := s.acquire("key", usd(90))
		require.NoError(t, old.Settle(t.Context(), usd(70)))
		assert.True(t, s.deny("key", usd(50)).Primary().ByEstimates)
		require.NoError(t, lease.Settle(t.Context(), usd(90)))
		assert.False(t, s.deny("key", usd(50)).Primary().ByEstimates)
	})
}

// What dropped leases took is used: nobody is told to come back for it in a second.
func TestDroppedLeasesHoldNoEstimates(t *testing.T) {
	s := memProcess(t, nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific))
	s.advanceTo("2099-01-24T08:50:00Z")
	for range 10 {
		s.acquire("key", usd(10))
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		_, err := s.limiter.Acquire(t.Context(), "key", model, usd(1))
		var exceeded *dynalimit.LimitExceededError
		return errors.As(err, &exceeded) && !exceeded.Primary().ByEstimates && exceeded.RetryAfter > time.Hour
	}, 10*time.Second, 10*time.Millisecond)
}

// What was granted above a quota is taken at once, stays when the bucket is reset, and is bounded,
// so that no number of grants makes the bucket unreadable.
func TestGrantsAboveAQuota(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		ctx, buckets := t.Context(), s.repo.admin().Buckets
		s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific), dynalimit.PerDay("rpm", 10))
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
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		t.Run(string(mode), func(t *testing.T) {
			virtual(t, &dynalimit.Options{ChargeMode: mode}, func(t *testing.T, s *process) {
				ctx := t.Context()
				s.family("key", "team")
				require.NoError(t, s.repo.CreateEntity(ctx, admin.Entity{ID: "other", ParentID: "team", Cascade: true}))
				s.ofGroup(model)
				s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, pacific))
				s.limits(admin.Scope{Entity: "team", Resource: model}, dynalimit.PerDay("usd", 86_400))
				s.limits(admin.Scope{Entity: "team", Resource: group}, dynalimit.MonthlyQuota("usd", 250, "Asia/Tokyo"))
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
		err := s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.DailyQuota("usd", 1, zone)})
		requireInvalid(t, err, "limits[0].Window")
		assert.Less(t, len(err.Error()), 200)
	}
}
