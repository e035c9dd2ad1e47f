package tests

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// A lease takes all of a limit, which then changes its kind or its unit for hours, and back. What
// the lease gives back afterwards comes off the counter alone, whether or not its process has seen
// the changes: the limit has begun two lives since.
func TestGiveBackOverAChangeAndBackFillsNothing(t *testing.T) {
	hour := dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"}
	for name, c := range map[string]struct {
		from    int // the hour
		is, was dynalimit.Limit
	}{
		"a day, hours between":    {3, dynalimit.Daily("usd", 100, "UTC"), hour},
		"a day, a bucket between": {3, dynalimit.Daily("usd", 100, "UTC"), dynalimit.PerMinute("usd", 100)},
		"a month, days between":   {20, dynalimit.Monthly("usd", 100, "UTC"), dynalimit.Daily("usd", 100, "UTC")},
		"a bucket, hours between": {3, dynalimit.PerDay("usd", 100), hour},
	} {
		for _, seen := range []bool{true, false} {
			t.Run(map[bool]string{true: name + ", seen", false: name + ", not seen"}[seen], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := liveProcess(t, memEngine(t), nil)
					elapse(time.Until(time.Date(2000, 1, 10, c.from, 30, 0, 0, time.UTC)))
					s.limits(admin.Scope{Everyone: true}, c.is)
					lease, by := s.acquire("key", dynalimit.Amounts{"usd": 100}), s
					if !seen {
						by = s.peer(nil)
					}
					counted := 0
					s.limits(admin.Scope{Everyone: true}, c.was)
					for range 2 {
						elapse(2 * time.Hour)
						counted += by.allowed(1, "key", "usd")
					}
					s.limits(admin.Scope{Everyone: true}, c.is)
					elapse(2 * time.Minute)
					held := by.allowed(150, "key", "usd")
					require.NoError(t, lease.Rollback(t.Context()))
					elapse(2 * time.Second)
					held += by.allowed(150, "key", "usd")
					assert.LessOrEqual(t, held, 100, "of 100 callers hold more, all taken since the limit is what it was")
					assert.EqualValues(t, 1000*(held+counted), s.stored("key", "usd").Consumed)
				})
			})
		}
	}
}

// A lease of a limit that changes its unit, and of a neighbour that does not: the neighbour gets
// back what was taken.
func TestAChangeOfALimitLeavesItsNeighboursLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		neighbour := dynalimit.Daily("requests", 100, "UTC")
		s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 100, "UTC"), neighbour)
		lease := s.acquire("key", dynalimit.Amounts{"usd": 60, "requests": 60})
		s.limits(admin.Scope{Everyone: true}, dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"}, neighbour)
		elapse(2 * time.Minute)
		s.peer(nil).acquire("key", dynalimit.Amounts{"usd": 1, "requests": 1})
		require.NoError(t, lease.Rollback(t.Context()))
		assert.EqualValues(t, 99, s.level("key", "requests"))
		assert.EqualValues(t, 39, s.level("key", "usd"), "60 of the day stay used")
		assert.EqualValues(t, []int64{1000, 1000}, []int64{s.stored("key", "usd").Consumed, s.stored("key", "requests").Consumed})
	})
}

// A process whose clock is ahead of DynamoDB's by less than what is corrected waits over midnight: its
// tries are decided by the instant that has surely passed, and so is its wait. It tries once early.
func TestWaitOverAWindowsBeginByAClockThatIsAhead(t *testing.T) {
	for _, ahead := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), nil)
				s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 100, "UTC"))
				yes, looks := true, 0
				p := s.on(s.open(t, s.repo.table, &dynalimit.RepositoryOptions{Now: func() time.Time {
					looks++
					return time.Now().Add(ahead)
				}, CorrectClock: &yes}), nil)
				midnight := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)
				elapse(time.Until(midnight) - 2500*time.Millisecond)
				s.slowly(2*time.Millisecond, 2*time.Millisecond)
				p.acquire("key", dynalimit.Amounts{"usd": 100})
				before := s.db.Meter()
				looks = 0
				_, err := p.limiter.Wait(t.Context(), "key", model, dynalimit.Amounts{"usd": 1})
				require.NoError(t, err)
				assert.WithinRange(t, time.Now(), midnight, midnight.Add(1100*time.Millisecond))
				assert.LessOrEqual(t, s.db.Meter().Sub(before).Requests(), int64(6))
				assert.Less(t, looks, 200)
			})
		})
	}
}
